// The one JSON document of --json.
#ifndef LORICA_CLI_JSON_RESULT_H_
#define LORICA_CLI_JSON_RESULT_H_

#include <nlohmann/json_fwd.hpp>

namespace lorica::cli {

// On stdout, in one line. Text that isn't UTF-8 (a token that cuts a character) has U+FFFD in place
// of its broken bytes; numbers that JSON doesn't have become null.
void PrintJson(const nlohmann::ordered_json& json);

}  // namespace lorica::cli

#endif  // LORICA_CLI_JSON_RESULT_H_
