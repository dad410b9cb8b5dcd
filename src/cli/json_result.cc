#include "lorica/cli/json_result.h"

#include <nlohmann/json.hpp>

#include "lorica/cli/terminal.h"

namespace lorica::cli {

void PrintJson(const nlohmann::ordered_json& json) {
  PrintResult(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace lorica::cli
