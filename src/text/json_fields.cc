#include "lorica/text/json_fields.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"

namespace lorica {

using nlohmann::json;

JsonFields::JsonFields(const json& object, absl::string_view where)
    : json_(object), where_(where) {}

absl::Status JsonFields::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(where_, " ", what));
}

const json* JsonFields::Take(const char* key) {
  read_.insert(key);
  if (!json_.is_object()) return nullptr;
  const auto it = json_.find(key);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

absl::Status JsonFields::Read(const char* key, bool* value) {
  const json* field = Take(key);
  if (field == nullptr) return absl::OkStatus();
  if (!field->is_boolean()) {
    return Error(
        absl::StrCat("has a \"", key, "\" that is ", field->type_name(), " instead of a boolean"));
  }
  *value = field->get<bool>();
  return absl::OkStatus();
}

absl::Status JsonFields::Read(const char* key, std::string* value) {
  const json* field = Take(key);
  if (field == nullptr) return absl::OkStatus();
  if (!field->is_string()) {
    return Error(
        absl::StrCat("has a \"", key, "\" that is ", field->type_name(), " instead of a string"));
  }
  *value = field->get<std::string>();
  return absl::OkStatus();
}

absl::Status JsonFields::Read(const char* key, int64_t* value) {
  const json* field = Take(key);
  if (field == nullptr) return absl::OkStatus();
  if (!field->is_number_integer() ||
      (field->is_number_unsigned() &&
       field->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))) {
    return Error(absl::StrCat("has a \"", key, "\" that isn't an integer"));
  }
  *value = field->get<int64_t>();
  return absl::OkStatus();
}

absl::Status JsonFields::Require(const char* key, bool* value) {
  if (Take(key) == nullptr) return Error(absl::StrCat("has no \"", key, "\""));
  return Read(key, value);
}

absl::Status JsonFields::Require(const char* key, std::string* value) {
  if (Take(key) == nullptr) return Error(absl::StrCat("has no \"", key, "\""));
  return Read(key, value);
}

absl::Status JsonFields::Require(const char* key, int64_t* value) {
  if (Take(key) == nullptr) return Error(absl::StrCat("has no \"", key, "\""));
  return Read(key, value);
}

absl::Status JsonFields::Finish() const {
  if (!json_.is_object()) {
    return Error(absl::StrCat("is ", json_.type_name(), " instead of an object"));
  }
  for (const auto& [key, value] : json_.items()) {
    if (read_.count(key) == 0) {
      return Error(absl::StrCat("has the option ", Quoted(key), ", which isn't supported"));
    }
  }
  return absl::OkStatus();
}

}  // namespace lorica
