#include "lorica/text/regex_classes.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lorica/text/unicode_additions.h"

namespace lorica {
namespace {

// `\x{...}` ranges of the additions whose category begins with `category`.
std::string Additions(absl::string_view category) {
  std::string result;
  uint32_t first = 0, last = 0;
  const auto flush = [&] {
    if (last != 0) absl::StrAppendFormat(&result, "\\x{%X}-\\x{%X}", first, last);
  };
  for (const UnicodeAddition& row : UnicodeAdditions()) {
    if (!absl::StartsWith(row.category, category)) continue;
    if (last != 0 && row.first == last + 1) {
      last = row.last;
      continue;
    }
    flush();
    first = row.first;
    last = row.last;
  }
  flush();
  return result;
}

}  // namespace

std::string SpaceItems() { return "\\p{White_Space}"; }

std::string HexDigitItems() { return "0-9A-Fa-f"; }

std::string CategoryItems(absl::string_view category) {
  return absl::StrCat("\\p{", category, "}", Additions(category));
}

// Oniguruma's word characters; the six in Latin-1 are a quirk of its tables.
std::string WordItems() {
  return absl::StrCat("\\p{Alphabetic}", Additions("L"), CategoryItems("M"), CategoryItems("Nd"),
                      CategoryItems("Pc"), "\\x{B2}\\x{B3}\\x{B9}\\x{BC}\\x{BD}\\x{BE}");
}

// The members of the property or POSIX bracket `name`.
absl::StatusOr<std::string> PropertyItems(absl::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    key.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
  }
  static constexpr struct {
    absl::string_view name;
    absl::string_view category;
  } kCategories[] = {
      {"letter", "L"},
      {"uppercaseletter", "Lu"},
      {"lowercaseletter", "Ll"},
      {"titlecaseletter", "Lt"},
      {"modifierletter", "Lm"},
      {"otherletter", "Lo"},
      {"mark", "M"},
      {"nonspacingmark", "Mn"},
      {"spacingmark", "Mc"},
      {"enclosingmark", "Me"},
      {"number", "N"},
      {"decimalnumber", "Nd"},
      {"letternumber", "Nl"},
      {"othernumber", "No"},
      {"punctuation", "P"},
      {"symbol", "S"},
      {"mathsymbol", "Sm"},
      {"currencysymbol", "Sc"},
      {"modifiersymbol", "Sk"},
      {"othersymbol", "So"},
      {"separator", "Z"},
      {"digit", "Nd"},
  };
  for (const auto& row : kCategories) {
    if (row.name == key) return CategoryItems(row.category);
  }
  if (key == "space" || key == "whitespace") return SpaceItems();
  if (key == "word") return WordItems();
  if (key == "alpha" || key == "alphabetic") return absl::StrCat("\\p{Alphabetic}", Additions("L"));
  if (key == "alnum") {
    return absl::StrCat("\\p{Alphabetic}", Additions("L"), CategoryItems("Nd"));
  }
  if (key == "punct") return absl::StrCat(CategoryItems("P"), CategoryItems("S"));
  if (key == "upper" || key == "uppercase") return absl::StrCat("\\p{Uppercase}", Additions("Lu"));
  if (key == "lower" || key == "lowercase") return absl::StrCat("\\p{Lowercase}", Additions("Ll"));
  if (key == "xdigit") return HexDigitItems();
  if (key == "cntrl") return CategoryItems("Cc");
  if (key == "blank") return absl::StrCat("\\t", "\\p{Zs}");
  if (key == "any") return "\\x{0}-\\x{10FFFF}";
  if (key == "ascii") return "\\x{0}-\\x{7F}";
  if (key.size() <= 2 && !key.empty()) {
    static constexpr absl::string_view kMajor = "lmnpszc";
    if (!absl::StrContains(kMajor, key[0])) {
      return absl::InvalidArgumentError(absl::StrCat("\\p{", name, "}"));
    }
    // C and Cn shrink where others grow; nobody asks for them.
    if (key == "c" || key == "cn") {
      return absl::InvalidArgumentError(absl::StrCat("\\p{", name, "}"));
    }
    std::string category = key;
    category[0] = static_cast<char>(category[0] - 'a' + 'A');
    if (key == "lc")
      return absl::StrCat(CategoryItems("Lu"), CategoryItems("Ll"), CategoryItems("Lt"));
    return CategoryItems(category);
  }
  const bool is_name =
      std::all_of(key.begin(), key.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (!is_name) return absl::InvalidArgumentError(absl::StrCat("\\p{", name, "}"));
  if (key == "han") return "\\p{sc:Han}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}\\x{2B739}";
  return absl::StrCat("\\p{sc:", key, "}");
}

}  // namespace lorica
