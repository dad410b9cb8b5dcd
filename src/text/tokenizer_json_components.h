// The parts of a tokenizer.json around its model. Each function reads one entry of the document,
// which may be null, adds to the parts and refuses by name what isn't known; errors begin with
// `where`, the path of the entry.
#ifndef LORICA_TEXT_TOKENIZER_JSON_COMPONENTS_H_
#define LORICA_TEXT_TOKENIZER_JSON_COMPONENTS_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "lorica/text/tokenizer_parts.h"

namespace lorica {

absl::Status ReadNormalizer(const nlohmann::json& json, const std::string& where,
                            Tokenizer::Parts* parts);
absl::Status ReadPreTokenizer(const nlohmann::json& json, const std::string& where,
                              Tokenizer::Parts* parts);
absl::Status ReadPostProcessor(const nlohmann::json& json, const std::string& where,
                               Tokenizer::Parts* parts);
absl::Status ReadDecoder(const nlohmann::json& json, const std::string& where,
                         Tokenizer::Parts* parts);
absl::Status ReadAddedTokens(const nlohmann::json& json, const std::string& where,
                             Tokenizer::Parts* parts);

}  // namespace lorica

#endif  // LORICA_TEXT_TOKENIZER_JSON_COMPONENTS_H_
