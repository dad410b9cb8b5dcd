#include "lorica/nn/load_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

// Fits the second-level cache together with its stored form: a stretch is converted, checked and
// copied while it is there.
constexpr int64_t kStretchBytes = int64_t{1} << 18;

// All bits of the exponent set: infinity or NaN. Plain integer arithmetic without an exit inside a
// block, which compilers turn into vector code.
template <typename Bits>
int64_t FindExponent(const Bits* values, int64_t count, Bits exponent) {
  constexpr int64_t kBlock = 4096;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    Bits found = 0;
    for (int64_t i = begin; i < end; ++i) {
      found |= static_cast<Bits>((values[i] & exponent) == exponent);
    }
    if (found == 0) continue;
    for (int64_t i = begin; i < end; ++i) {
      if ((values[i] & exponent) == exponent) return i;
    }
  }
  return -1;
}

double ValueAt(const void* values, int64_t index, DType dtype) {
  if (dtype == DType::kF64) return static_cast<const double*>(values)[index];
  if (dtype == DType::kF32) return static_cast<const float*>(values)[index];
  return static_cast<float>(static_cast<const BF16*>(values)[index]);
}

absl::Status CheckFinite(const TensorSource& source, const ValuesRequest& request,
                         const void* values, int64_t first, int64_t count) {
  if (!request.check_finite) return absl::OkStatus();
  const int64_t index = FindNonFinite(values, count, request.dtype);
  if (index < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source.Where(request.name), ": expected finite values, found ",
                   std::isnan(ValueAt(values, index, request.dtype)) ? "NaN" : "infinity",
                   " at element ", first + index));
}

// Rows 2 j + h of every head become rows h * rows / 2 + j.
void Deinterleave(const char* from, char* to, int64_t heads, int64_t head_rows, size_t row_bytes) {
  const int64_t half = head_rows / 2;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t row = 0; row < head_rows; ++row) {
      const int64_t source = head * head_rows + 2 * (row % half) + row / half;
      std::memcpy(to + (head * head_rows + row) * row_bytes, from + source * row_bytes, row_bytes);
    }
  }
}

// Null where the bytes can't be used as they are.
absl::StatusOr<Tensor> Borrowed(const std::shared_ptr<const TensorSource>& source,
                                const ValuesRequest& request, Backend& backend) {
  const StoredTensorInfo& info = *source->Find(request.name);
  if (!request.borrow || request.interleaved_heads > 0 ||
      backend.device().type != DeviceType::kCpu || NativeDType(info.type) != request.dtype) {
    return Tensor();
  }
  const absl::StatusOr<absl::Span<const uint8_t>> stored = source->Bytes(request.name);
  if (absl::IsUnimplemented(stored.status())) return Tensor();  // put together from parts
  if (!stored.ok()) return stored.status();
  const absl::Span<const uint8_t> bytes = *stored;
  if (reinterpret_cast<uintptr_t>(bytes.data()) % SizeOf(request.dtype) != 0) return Tensor();
  LORICA_RETURN_IF_ERROR(CheckFinite(*source, request, bytes.data(), 0, request.shape.numel()));
  return Tensor(Storage::Borrow(backend, bytes.data(), bytes.size(), source), request.shape,
                ContiguousStrides(request.shape), 0, request.dtype);
}

}  // namespace

int64_t FindNonFinite(const void* values, int64_t count, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return FindExponent<uint32_t>(static_cast<const uint32_t*>(values), count, 0x7F800000u);
    case DType::kBF16:
      return FindExponent<uint16_t>(static_cast<const uint16_t*>(values), count, 0x7F80u);
    case DType::kF64:
      return FindExponent<uint64_t>(static_cast<const uint64_t*>(values), count,
                                    0x7FF0000000000000u);
    default:
      Fail("[find_non_finite] ", dtype, " is no compute type");
  }
}

absl::StatusOr<Tensor> LoadValues(const std::shared_ptr<const TensorSource>& source,
                                  const ValuesRequest& request, Backend& backend) {
  LORICA_ASSIGN_OR_RETURN(Tensor borrowed, Borrowed(source, request, backend));
  if (borrowed.defined()) return borrowed;
  const Shape& shape = request.shape;
  Tensor result = Tensor::Empty(backend, shape, request.dtype);
  if (shape.numel() == 0) return result;

  const int64_t rows = shape.rank() == 0 ? 1 : shape[0];
  const int64_t columns = shape.numel() / rows;
  const size_t row_bytes = static_cast<size_t>(columns) * SizeOf(request.dtype);
  // Blocks of a quantised type may cross the elements of a vector, and rows of a head move inside
  // it: neither is cut.
  int64_t step = std::max<int64_t>(1, kStretchBytes / static_cast<int64_t>(row_bytes));
  if (shape.rank() <= 1) {
    step = rows;
  } else if (request.interleaved_heads > 0) {
    step = rows / request.interleaved_heads;
  }
  const int64_t head_rows = request.interleaved_heads > 0 ? rows / request.interleaved_heads : 0;
  LORICA_CHECK(
      head_rows * request.interleaved_heads == (head_rows > 0 ? rows : 0) && head_rows % 2 == 0,
      "[load] ", rows, " rows of ", request.name, " are no ", request.interleaved_heads,
      " heads of pairs");

  Tensor flat = result.WithShape({rows, columns});
  // Doubles, so that the buffer is aligned for every type.
  const size_t buffer_size = (static_cast<size_t>(step) * row_bytes + 7) / 8;
  std::vector<double> buffer(buffer_size), moved(head_rows > 0 ? buffer_size : 0);
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    LORICA_RETURN_IF_ERROR(source->Read(request.name, begin, count, request.dtype, buffer.data()));
    const void* values = buffer.data();
    LORICA_RETURN_IF_ERROR(CheckFinite(*source, request, values, begin * columns, count * columns));
    if (head_rows > 0) {
      Deinterleave(reinterpret_cast<const char*>(buffer.data()),
                   reinterpret_cast<char*>(moved.data()), count / head_rows, head_rows, row_bytes);
      values = moved.data();
    }
    backend.CopyFromHost(values, flat.Narrow(0, begin, count).mutable_view());
  }
  return result;
}

}  // namespace lorica::internal
