#include "lorica/tensor/shape.h"

#include <algorithm>

namespace lorica {

Shape::Shape(absl::Span<const int64_t> dims) {
  LORICA_CHECK(dims.size() <= kMaxRank, "[shape] at most ", kMaxRank, " axes, found ", dims.size());
  for (int64_t d : dims) dims_[rank_++] = d;
}

int Shape::Index(int axis) const {
  const int index = axis < 0 ? axis + rank_ : axis;
  LORICA_CHECK(index >= 0 && index < rank_, "[shape] axis ", axis, " of ", ToString());
  return index;
}

int64_t Shape::numel() const {
  int64_t n = 1;
  for (int64_t d : *this) n *= d;
  return n;
}

int64_t Shape::rows() const {
  int64_t n = 1;
  for (int i = 0; i + 1 < rank_; ++i) n *= dims_[i];
  return n;
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

std::string Shape::ToString() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i > 0 ? ", " : "") + std::to_string(dims_[i]);
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.ToString(); }

Shape ContiguousStrides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

Shape BroadcastShapes(const char* op, const Shape& a, const Shape& b) {
  Shape result = a.rank() >= b.rank() ? a : b;
  for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    const int64_t da = a[-i], db = b[-i];
    LORICA_CHECK(da == db || da == 1 || db == 1, "[", op, "] shapes don't broadcast: ", a, " and ",
                 b);
    result[-i] = da == 1 ? db : da;
  }
  return result;
}

}  // namespace lorica
