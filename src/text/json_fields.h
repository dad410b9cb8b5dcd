// Strict reading of JSON objects: an option that nobody asked for is an error that names it.
#ifndef LORICA_TEXT_JSON_FIELDS_H_
#define LORICA_TEXT_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lorica {

// Of one object. `json` must outlive the fields. Errors are InvalidArgument and begin with `where`.
class JsonFields {
 public:
  // `json` may be anything; what isn't an object has no fields, and Finish says so.
  JsonFields(const nlohmann::json& json, absl::string_view where);

  // The value of `key`, which counts as read then; null where it's absent or JSON's null.
  const nlohmann::json* Take(const char* key);

  // Keep `*value` where the key is absent or null.
  absl::Status Read(const char* key, bool* value);
  absl::Status Read(const char* key, std::string* value);
  absl::Status Read(const char* key, int64_t* value);
  // Of a key that must be there.
  absl::Status Require(const char* key, bool* value);
  absl::Status Require(const char* key, std::string* value);
  absl::Status Require(const char* key, int64_t* value);

  // An error unless every key of the object has been read.
  absl::Status Finish() const;

  absl::Status Error(absl::string_view what) const;
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& json_;
  std::string where_;
  std::set<std::string> read_;
};

}  // namespace lorica

#endif  // LORICA_TEXT_JSON_FIELDS_H_
