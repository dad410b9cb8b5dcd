#include "lorica/train/html_text.h"

#include "lorica/text/utf8.h"

namespace lorica {

std::string HtmlText(absl::string_view text) {
  constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";
  std::string out;
  while (!text.empty()) {
    const size_t valid = FirstInvalidUtf8(text);
    for (const char c : text.substr(0, valid)) {
      switch (c) {
        case '&':
          out += "&amp;";
          break;
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '"':
          out += "&quot;";
          break;
        case '\'':
          out += "&#39;";
          break;
        default: {
          const bool control = static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t';
          if (control || c == 0x7F) {
            out.append(kReplacement.data(), kReplacement.size());
          } else {
            out += c;
          }
        }
      }
    }
    text.remove_prefix(valid);
    if (!text.empty()) {
      out.append(kReplacement.data(), kReplacement.size());
      text.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace lorica
