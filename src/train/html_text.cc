#include "lorica/train/html_text.h"

#include "lorica/text/utf8.h"

namespace lorica {

std::string HtmlText(absl::string_view text) {
  constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";
  std::string out;
  for (const char c : ValidUtf8(text)) {
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
  return out;
}

}  // namespace lorica
