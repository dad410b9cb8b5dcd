// Weights in 8-bit floats with a scale for each block of a matrix, as DeepSeek-V3 publishes them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"
#include "lorica/io/tensor_source.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica {

bool HasBlockScale(StoredType type) {
  return type == StoredType::kF8E4M3 || type == StoredType::kF8E5M2;
}

namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

class BlockScaledSource final : public TensorSource {
 public:
  BlockScaledSource(std::unique_ptr<TensorSource> source, int64_t block_rows, int64_t block_columns)
      : source_(std::move(source)), block_rows_(block_rows), block_columns_(block_columns) {}

  absl::Status Check() {
    for (const std::string& name : source_->names()) {
      const StoredTensorInfo& info = *source_->Find(name);
      if (absl::EndsWith(name, kBlockScaleEnding)) {
        const absl::string_view weight = absl::StripSuffix(name, kBlockScaleEnding);
        const StoredTensorInfo* scaled = source_->Find(weight);
        if (scaled == nullptr || !HasBlockScale(scaled->type)) {
          return Bad(name, absl::StrCat("expected a weight ", Quoted(weight),
                                        " of 8-bit floats beside it, found ",
                                        scaled == nullptr ? "none" : Name(scaled->type)));
        }
        continue;
      }
      names_.push_back(name);
      if (HasBlockScale(info.type)) LORICA_RETURN_IF_ERROR(CheckScale(name, info));
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& names() const override { return names_; }
  const StoredTensorInfo* Find(absl::string_view name) const override {
    return absl::EndsWith(name, kBlockScaleEnding) ? nullptr : source_->Find(name);
  }
  absl::StatusOr<absl::Span<const uint8_t>> Bytes(absl::string_view name) const override {
    return source_->Bytes(name);
  }
  std::string Where(absl::string_view name) const override { return source_->Where(name); }

  absl::Status Read(absl::string_view name, int64_t first_row, int64_t rows, DType target,
                    void* out) const override {
    const StoredTensorInfo* info = Find(name);
    if (info == nullptr || !HasBlockScale(info->type) || !IsCompute(target)) {
      return source_->Read(name, first_row, rows, target, out);
    }
    const int64_t matrix_rows = info->shape[info->shape.size() - 2];
    const int64_t columns = info->shape.back();
    int64_t inner = 1;  // rows of matrices in a row of the tensor
    for (size_t i = 1; i + 1 < info->shape.size(); ++i) inner *= info->shape[i];
    LORICA_CHECK(first_row >= 0 && rows >= 0 && first_row <= info->shape[0] &&
                     rows <= info->shape[0] - first_row,
                 "[read] rows ", first_row, " to ", first_row + rows, " of ", Where(name),
                 " of shape ", ShapeText(info->shape));
    if (columns == 0) return absl::OkStatus();  // however many rows that may be
    LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, source_->Bytes(name));
    std::vector<float> scales(static_cast<size_t>(CeilDivide(columns, block_columns_)));
    std::vector<float> values(static_cast<size_t>(columns));
    int64_t loaded = -1;  // the row of scales
    for (int64_t row = first_row * inner; row < (first_row + rows) * inner; ++row) {
      const int64_t scale_row = row / matrix_rows * CeilDivide(matrix_rows, block_rows_) +
                                row % matrix_rows / block_rows_;
      if (scale_row != loaded) LORICA_RETURN_IF_ERROR(LoadScales(name, scale_row, scales));
      loaded = scale_row;
      LORICA_RETURN_IF_ERROR(ConvertElements(
          info->type, bytes.subspan(static_cast<size_t>(row * columns), values.size()), columns,
          DType::kF32, values.data()));
      for (int64_t begin = 0; begin < columns; begin += block_columns_) {
        const float scale = scales[static_cast<size_t>(begin / block_columns_)];
        const int64_t end = std::min(columns, begin + block_columns_);
        for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] *= scale;
      }
      Store(values, target, (row - first_row * inner) * columns, out);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Bad(absl::string_view name, absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(source_->Where(name), ": ", message));
  }

  absl::Status CheckScale(const std::string& name, const StoredTensorInfo& info) const {
    const std::string scale_name = absl::StrCat(name, kBlockScaleEnding);
    const StoredTensorInfo* scale = source_->Find(scale_name);
    if (scale == nullptr) {
      return Bad(name, absl::StrCat("expected scales ", Quoted(scale_name),
                                    " for a weight of type ", Name(info.type), ", found none"));
    }
    if (info.shape.size() < 2) {
      return Bad(name, absl::StrCat("expected a matrix of type ", Name(info.type), ", found shape ",
                                    ShapeText(info.shape)));
    }
    if (!IsConvertible(scale->type, DType::kF32) || IsQuantised(scale->type)) {
      return Bad(scale_name,
                 absl::StrCat("expected scales of type F32, found ", Name(scale->type)));
    }
    std::vector<int64_t> expected = info.shape;
    expected.back() = CeilDivide(expected.back(), block_columns_);
    expected[expected.size() - 2] = CeilDivide(expected[expected.size() - 2], block_rows_);
    if (scale->shape == expected) return absl::OkStatus();
    return Bad(scale_name,
               absl::StrCat("expected shape ", ShapeText(expected), ", one scale for ", block_rows_,
                            " x ", block_columns_, " of ", ShapeText(info.shape), ", found ",
                            ShapeText(scale->shape)));
  }

  // Row `row` of all matrices' scales below one another.
  absl::Status LoadScales(absl::string_view name, int64_t row, std::vector<float>& scales) const {
    const std::string scale_name = absl::StrCat(name, kBlockScaleEnding);
    LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, source_->Bytes(scale_name));
    const StoredType type = source_->Find(scale_name)->type;
    const size_t row_bytes = scales.size() * TraitsOf(type).block_bytes;
    return ConvertElements(type, bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes),
                           static_cast<int64_t>(scales.size()), DType::kF32, scales.data());
  }

  static void Store(const std::vector<float>& values, DType target, int64_t at, void* out) {
    if (target == DType::kF32) {
      std::copy(values.begin(), values.end(), static_cast<float*>(out) + at);
    } else if (target == DType::kF64) {
      std::copy(values.begin(), values.end(), static_cast<double*>(out) + at);
    } else {
      BF16* to = static_cast<BF16*>(out) + at;
      for (const float value : values) *to++ = BF16(value);
    }
  }

  std::unique_ptr<TensorSource> source_;
  int64_t block_rows_;
  int64_t block_columns_;
  std::vector<std::string> names_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSource>> MakeBlockScaledSource(
    std::unique_ptr<TensorSource> source, int64_t block_rows, int64_t block_columns) {
  LORICA_CHECK(block_rows > 0 && block_columns > 0, "[block_scaled] blocks of ", block_rows, " x ",
               block_columns);
  auto scaled = std::make_unique<BlockScaledSource>(std::move(source), block_rows, block_columns);
  LORICA_RETURN_IF_ERROR(scaled->Check());
  return std::unique_ptr<TensorSource>(std::move(scaled));
}

}  // namespace lorica
