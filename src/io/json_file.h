// JSON from outside: size, depth and count are bounded, keys are unique, errors carry the byte
// offset; and typed access to fields whose errors name the place, the key, the expected and the
// found type.
//
// Include <nlohmann/json.hpp> in the .cc that looks into a Json; JsonObject alone needs no more
// than this header.
#ifndef LORICA_IO_JSON_FILE_H_
#define LORICA_IO_JSON_FILE_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lorica {

using Json = nlohmann::json;                 // keys sorted
using OrderedJson = nlohmann::ordered_json;  // keys in file order; look-up is linear

struct JsonOptions {
  // The longest text. A tokenizer.json with 256 k tokens has about 35 MB.
  size_t max_bytes = size_t{128} << 20;
  // Nesting of arrays and objects.
  int max_depth = 64;
  // Values of all kinds in the text; a value takes up to 100 bytes of memory.
  size_t max_values = size_t{1} << 24;
  // A key that occurs twice in one object is an error; else the last one counts.
  bool unique_keys = true;
};

// Parses one JSON value; only white space may follow. A UTF-8 byte order mark is skipped. `where`
// (a path, with a line or record where there is one) starts every error text. Numbers that overflow
// a double are errors.
absl::StatusOr<Json> ParseJson(absl::string_view text, absl::string_view where,
                               const JsonOptions& options = {});
absl::StatusOr<Json> ReadJsonFile(const std::string& path, const JsonOptions& options = {});

// The same with the keys in file order, for the few documents whose order has a meaning (patterns
// of which the first match wins). At most 50,000 values, because every insertion into an ordered
// object scans it.
absl::StatusOr<OrderedJson> ParseOrderedJson(absl::string_view text, absl::string_view where,
                                             JsonOptions options = {});
absl::StatusOr<OrderedJson> ReadOrderedJsonFile(const std::string& path, JsonOptions options = {});

// `text` as a JSON string, quotes included; an error that starts with `where` if it isn't valid
// UTF-8.
absl::StatusOr<std::string> JsonQuoted(absl::string_view text, absl::string_view where);

// A view of one JSON object and the place it comes from. Borrows the Json. A field that is absent,
// or `null`, is an error for the plain getters and gives the fallback for the `Or` getters; a field
// of another type is always an error.
class JsonObject {
 public:
  // An error if `json` isn't an object.
  static absl::StatusOr<JsonObject> Of(const Json& json, absl::string_view where);

  const Json& json() const { return *json_; }
  // The path, and the dotted keys down to this object.
  const std::string& where() const { return where_; }

  // The field exists and isn't null.
  bool Has(absl::string_view key) const;
  std::vector<std::string> Keys() const;

  absl::StatusOr<std::string> String(absl::string_view key) const;
  // Also takes a float with an integral value ("16.0" is the number 16).
  absl::StatusOr<int64_t> Int(absl::string_view key) const;
  // Also takes integers.
  absl::StatusOr<double> Double(absl::string_view key) const;
  absl::StatusOr<bool> Bool(absl::string_view key) const;
  absl::StatusOr<JsonObject> Object(absl::string_view key) const;
  absl::StatusOr<std::vector<std::string>> Strings(absl::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> Ints(absl::string_view key) const;
  absl::StatusOr<std::vector<double>> Doubles(absl::string_view key) const;

  absl::StatusOr<std::string> StringOr(absl::string_view key, absl::string_view fallback) const;
  absl::StatusOr<int64_t> IntOr(absl::string_view key, int64_t fallback) const;
  absl::StatusOr<double> DoubleOr(absl::string_view key, double fallback) const;
  absl::StatusOr<bool> BoolOr(absl::string_view key, bool fallback) const;

  // The field itself, or null where it is absent or JSON null.
  const Json* Find(absl::string_view key) const;
  // "config.json: rope_scaling.factor: expected a number, found a string". For checks of the
  // caller's own.
  absl::Status WrongType(absl::string_view key, absl::string_view expected) const;
  // "config.json: rope_scaling.factor" + message.
  absl::Status Wrong(absl::string_view key, absl::string_view message) const;

 private:
  JsonObject(const Json* json, std::string where, bool nested)
      : json_(json), where_(std::move(where)), nested_(nested) {}
  std::string WhereIs(absl::string_view key) const;

  const Json* json_;
  std::string where_;
  bool nested_;  // where_ ends in a key
};

}  // namespace lorica

#endif  // LORICA_IO_JSON_FILE_H_
