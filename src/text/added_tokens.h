// Tokens that are found in the text as they stand, before anything else looks at it: control tokens
// and other additions to a trained vocabulary.
#ifndef LORICA_TEXT_ADDED_TOKENS_H_
#define LORICA_TEXT_ADDED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lorica/text/pieces.h"
#include "lorica/text/string_finder.h"

namespace lorica {

struct AddedToken {
  std::string content;
  int64_t id = 0;
  // Only where no word character stands next to it.
  bool single_word = false;
  // Takes the white space on its left, on its right.
  bool lstrip = false;
  bool rstrip = false;
  // Looked for after normalization, in its own normalized form.
  bool normalized = false;
  bool special = false;
  // What it decodes to: its content, where it is `normalized` the normalized form. Set by
  // AddedTokens::Finish.
  std::string decoded;
};

// Immutable once built.
class AddedTokens {
 public:
  // Longer contents are refused: the search for a token looks this far at each place of a text.
  static constexpr size_t kLongestContent = 4096;

  // InvalidArgument where the content is too long or the id is out of range, or has another
  // content. A token whose content was added before replaces that one.
  absl::Status Add(AddedToken token);

  // Adds to the search what Add collected. `normalized_content` gives the form of a token with
  // `normalized` set.
  template <typename NormalizedContent>
  absl::Status Finish(const NormalizedContent& normalized_content) {
    for (const bool special : {true, false}) {  // of two with the same form the special one wins
      for (size_t i = 0; i < tokens_.size(); ++i) {
        AddedToken& token = tokens_[i];
        if (token.special != special || token.content.empty()) continue;
        std::string form = token.content;
        if (token.normalized) {
          if (absl::Status status = normalized_content(&form); !status.ok()) return status;
        }
        token.decoded = form;
        if (form.empty()) continue;
        (token.normalized ? normalized_ : plain_).Add(form, static_cast<int32_t>(i));
      }
    }
    return absl::OkStatus();
  }

  // A part of a text: an added token, or what lies between two of them.
  struct Part {
    const AddedToken* token = nullptr;  // null: text
    ByteRange range;
  };
  // Cuts `text` at the tokens that are looked for after normalization (`normalized`) or before.
  // Special ones are passed over unless `parse_special`.
  void Cut(absl::string_view text, bool normalized, bool parse_special,
           std::vector<Part>* parts) const;

  const AddedToken* Find(absl::string_view content) const;
  const AddedToken* Find(int64_t id) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int64_t, size_t> by_id_;
  StringFinder plain_;
  StringFinder normalized_;
};

}  // namespace lorica

#endif  // LORICA_TEXT_ADDED_TOKENS_H_
