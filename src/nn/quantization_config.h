// What config.json says about quantised weights in safetensors files.
#ifndef LORICA_NN_QUANTIZATION_CONFIG_H_
#define LORICA_NN_QUANTIZATION_CONFIG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "lorica/io/json_file.h"

namespace lorica {

enum class Quantization {
  kNone,
  kFp8Blocks,  // 8-bit floats with a scale a block of the matrix (MakeBlockScaledSource)
  kMxfp4,      // experts as `_blocks` and `_scales` (mxfp4.h)
};

struct QuantizationConfig {
  Quantization kind = Quantization::kNone;
  int64_t block_rows = 0;  // of kFp8Blocks
  int64_t block_columns = 0;
};

// Reads `quantization_config` of `config`; absent or null is kNone. Unimplemented, naming it, for
// any other method and for 8-bit floats whose scales aren't those of blocks.
absl::StatusOr<QuantizationConfig> ReadQuantizationConfig(const JsonObject& config);

}  // namespace lorica

#endif  // LORICA_NN_QUANTIZATION_CONFIG_H_
