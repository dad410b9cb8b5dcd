// Memory: filling, and copies between any strides and types.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lorica/tensor/cpu/cpu_backend_impl.h"

namespace lorica::cpu {
namespace {

// f16 has no arithmetic type of its own.
struct F16 {
  uint16_t bits;
};

template <typename Visitor>
decltype(auto) VisitType(DType dtype, const Visitor& visit) {
  switch (dtype) {
    case DType::kBF16:
      return visit(BF16());
    case DType::kF64:
      return visit(double());
    case DType::kF16:
      return visit(F16());
    case DType::kI32:
      return visit(int32_t());
    case DType::kI64:
      return visit(int64_t());
    case DType::kBool:
      return visit(bool());
    case DType::kU8:
      return visit(uint8_t());
    case DType::kF32:
      break;
  }
  return visit(float());
}

// To f32, but inexact results get an odd last bit, so that a second rounding to a shorter type
// equals one rounding of `value`. S. Boldo, G. Melquiond, "When double rounding is odd", 2005.
float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value) || std::isinf(nearest)) {
    return nearest;
  }
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  // Towards zero first.
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <typename Source>
auto Widen(Source value) {
  if constexpr (std::is_same_v<Source, BF16>) {
    return static_cast<float>(value);
  } else if constexpr (std::is_same_v<Source, F16>) {
    return HalfToFloat(value.bits);
  } else {
    return value;
  }
}

template <typename Target, typename Source>
Target ConvertValue(Source source) {
  if constexpr (std::is_same_v<Target, Source>) {
    return source;
  } else {
    const auto value = Widen(source);
    using Value = std::remove_const_t<decltype(value)>;
    if constexpr (std::is_same_v<Target, bool>) {
      return value != 0;
    } else if constexpr (std::is_same_v<Target, BF16> || std::is_same_v<Target, F16>) {
      float rounded;
      if constexpr (std::is_same_v<Value, float>) {
        rounded = value;
      } else {
        rounded = RoundToOdd(static_cast<double>(value));
      }
      if constexpr (std::is_same_v<Target, BF16>) {
        return BF16(rounded);
      } else {
        return F16{FloatToHalf(rounded)};
      }
    } else if constexpr (std::is_integral_v<Target> && std::is_floating_point_v<Value>) {
      // Out of range saturates, NaN gives 0: the conversion itself would be undefined.
      if (std::isnan(value)) return 0;
      const double wide = static_cast<double>(value);
      if (wide <= static_cast<double>(std::numeric_limits<Target>::min())) {
        return std::numeric_limits<Target>::min();
      }
      if (wide >= static_cast<double>(std::numeric_limits<Target>::max())) {
        return std::numeric_limits<Target>::max();
      }
      return static_cast<Target>(wide);
    } else {
      return static_cast<Target>(value);
    }
  }
}

template <typename Source, typename Target>
void CopyLine(const void* source, int64_t source_step, void* target, int64_t target_step,
              int64_t count) {
  const Source* from = static_cast<const Source*>(source);
  Target* to = static_cast<Target*>(target);
  if (source_step == 1 && target_step == 1) {
    if constexpr (std::is_same_v<Source, Target>) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Target));
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = ConvertValue<Target>(from[i]);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    to[i * target_step] = ConvertValue<Target>(from[i * source_step]);
  }
}

using LineCopier = void (*)(const void*, int64_t, void*, int64_t, int64_t);

LineCopier CopierFor(DType source, DType target) {
  return VisitType(source, [&](auto from) {
    return VisitType(target,
                     [](auto to) -> LineCopier { return &CopyLine<decltype(from), decltype(to)>; });
  });
}

// A copy as lines: `outer` axes count them, every line is `count` elements long.
struct Lines {
  int outer = 0;
  int64_t extent[kMaxRank] = {};
  int64_t source_stride[kMaxRank] = {};
  int64_t target_stride[kMaxRank] = {};
  int64_t lines = 1;
  int64_t count = 1, source_step = 1, target_step = 1;
};

Lines LinesOf(const Shape& shape, const Shape& source, const Shape& target) {
  // Axes that follow each other without a gap on both sides merge.
  int rank = 0;
  int64_t extent[kMaxRank], from[kMaxRank], to[kMaxRank];
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    if (rank > 0 && from[rank - 1] == source[i] * shape[i] &&
        to[rank - 1] == target[i] * shape[i]) {
      extent[rank - 1] *= shape[i];
      from[rank - 1] = source[i];
      to[rank - 1] = target[i];
    } else {
      extent[rank] = shape[i];
      from[rank] = source[i];
      to[rank] = target[i];
      ++rank;
    }
  }
  Lines lines;
  if (rank == 0) return lines;
  lines.count = extent[rank - 1];
  lines.source_step = from[rank - 1];
  lines.target_step = to[rank - 1];
  lines.outer = rank - 1;
  for (int i = 0; i < lines.outer; ++i) {
    lines.extent[i] = extent[i];
    lines.source_stride[i] = from[i];
    lines.target_stride[i] = to[i];
    lines.lines *= extent[i];
  }
  return lines;
}

// Elements per task: small enough for balance, large enough that a task outweighs its start; a copy
// below it runs on the calling thread alone.
constexpr int64_t kCopyGrain = 64 << 10;

}  // namespace

void CpuBackend::Copy(TensorView x, MutableTensorView y) {
  if (y.numel() == 0) return;
  const Lines lines = LinesOf(y.shape, x.strides, y.strides);
  const LineCopier copy = CopierFor(x.dtype, y.dtype);
  const int64_t x_size = static_cast<int64_t>(SizeOf(x.dtype));
  const int64_t y_size = static_cast<int64_t>(SizeOf(y.dtype));
  const char* from = static_cast<const char*>(x.data);
  char* to = static_cast<char*>(y.data);
  // Conversions keep denormals: a copy between equal types must not change a bit, and the others
  // follow suit.
  constexpr bool kExact = true;
  if (lines.lines == 1) {
    ParallelRanges(lines.count, kCopyGrain, kExact, [&](int64_t begin, int64_t end, int) {
      copy(from + begin * lines.source_step * x_size, lines.source_step,
           to + begin * lines.target_step * y_size, lines.target_step, end - begin);
    });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kCopyGrain / lines.count);
  ParallelRanges(lines.lines, grain, kExact, [&](int64_t begin, int64_t end, int) {
    for (int64_t line = begin; line < end; ++line) {
      int64_t rest = line, source = 0, target = 0;
      for (int i = lines.outer - 1; i >= 0; --i) {
        const int64_t index = rest % lines.extent[i];
        rest /= lines.extent[i];
        source += index * lines.source_stride[i];
        target += index * lines.target_stride[i];
      }
      copy(from + source * x_size, lines.source_step, to + target * y_size, lines.target_step,
           lines.count);
    }
  });
}

void CpuBackend::Fill(MutableTensorView y, double value) {
  if (y.numel() == 0) return;
  // One value of y's type, repeated by stride 0.
  alignas(8) char element[8];
  CopierFor(DType::kF64, y.dtype)(&value, 1, element, 1, 1);
  Shape still = y.shape;
  for (int i = 0; i < still.rank(); ++i) still[i] = 0;
  Copy({element, y.shape, still, y.dtype}, y);
}

void CpuBackend::CopyFromHost(const void* values, MutableTensorView y) {
  Copy({values, y.shape, y.strides, y.dtype}, y);
}

void CpuBackend::CopyToHost(TensorView x, void* values) {
  Copy(x, {values, x.shape, x.strides, x.dtype});
}

}  // namespace lorica::cpu
