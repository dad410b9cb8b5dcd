#include "lorica/nn/quantization_config.h"

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

// A field's error of the code Unimplemented.
absl::Status Unsupported(const JsonObject& json, absl::string_view key, absl::string_view message) {
  return absl::UnimplementedError(json.Wrong(key, message).message());
}

}  // namespace

absl::StatusOr<QuantizationConfig> ReadQuantizationConfig(const JsonObject& config) {
  QuantizationConfig result;
  constexpr absl::string_view kField = "quantization_config";
  if (!config.Has(kField)) return result;
  LORICA_ASSIGN_OR_RETURN(const JsonObject json, config.Object(kField));
  LORICA_ASSIGN_OR_RETURN(const std::string method, json.String("quant_method"));
  if (method == "mxfp4") {
    result.kind = Quantization::kMxfp4;
    return result;
  }
  if (method != "fp8") {
    return Unsupported(json, "quant_method",
                       absl::StrCat("weights quantised by ", Quoted(method),
                                    " are not supported, only fp8 and mxfp4 are"));
  }
  constexpr absl::string_view kBlock = "weight_block_size";
  if (!json.Has(kBlock)) {
    return Unsupported(json, kBlock, "fp8 weights without scales of blocks are not supported");
  }
  LORICA_ASSIGN_OR_RETURN(const std::vector<int64_t> block, json.Ints(kBlock));
  constexpr int64_t kLargest = int64_t{1} << 20;
  if (block.size() != 2 || block[0] < 1 || block[1] < 1 || block[0] > kLargest ||
      block[1] > kLargest) {
    return json.Wrong(kBlock, "expected two positive numbers, such as [128, 128]");
  }
  LORICA_ASSIGN_OR_RETURN(const std::string scheme, json.StringOr("activation_scheme", "dynamic"));
  if (scheme != "dynamic") {
    return Unsupported(json, "activation_scheme",
                       absl::StrCat(Quoted(scheme), " is not supported, only \"dynamic\" is"));
  }
  result = {Quantization::kFp8Blocks, block[0], block[1]};
  return result;
}

}  // namespace lorica
