#include "lorica/nn/text_part.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"

namespace lorica {
namespace {

class TextPartSource final : public TensorSource {
 public:
  explicit TextPartSource(std::unique_ptr<TensorSource> source) : source_(std::move(source)) {}

  absl::Status Build() {
    for (const std::string& stored : source_->names()) {
      std::string name = NameInTextPart(stored);
      if (name.empty()) continue;
      const auto [it, added] = stored_.emplace(name, stored);
      if (!added) {
        return absl::InvalidArgumentError(absl::StrCat(source_->Where(stored),
                                                       ": expected one name of the tensor, found ",
                                                       Quoted(it->second), " too"));
      }
      names_.push_back(std::move(name));
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& names() const override { return names_; }
  const StoredTensorInfo* Find(absl::string_view name) const override {
    return source_->Find(Stored(name));
  }
  absl::StatusOr<absl::Span<const uint8_t>> Bytes(absl::string_view name) const override {
    return source_->Bytes(Stored(name));
  }
  std::string Where(absl::string_view name) const override { return source_->Where(Stored(name)); }
  absl::Status Read(absl::string_view name, int64_t first_row, int64_t rows, DType target,
                    void* out) const override {
    return source_->Read(Stored(name), first_row, rows, target, out);
  }

 private:
  std::string Stored(absl::string_view name) const {
    const auto it = stored_.find(std::string(name));
    if (it != stored_.end()) return it->second;
    // Names of other parts are none here; one that is absent is named as the file would.
    return absl::StrCat("language_model.", name);
  }

  std::unique_ptr<TensorSource> source_;
  std::map<std::string, std::string> stored_;  // by the name here
  std::vector<std::string> names_;
};

}  // namespace

std::string NameInTextPart(absl::string_view name) {
  if (absl::ConsumePrefix(&name, "model.language_model.")) return absl::StrCat("model.", name);
  if (absl::ConsumePrefix(&name, "language_model.") || absl::StartsWith(name, "lm_head")) {
    return std::string(name);
  }
  return "";
}

std::string PathOfTextPart(absl::string_view path) {
  if (!absl::ConsumePrefix(&path, "model.")) return std::string(path);
  return absl::StrCat("model.language_model.", path);
}

absl::StatusOr<std::unique_ptr<TensorSource>> MakeTextPartSource(
    std::unique_ptr<TensorSource> source) {
  auto part = std::make_unique<TextPartSource>(std::move(source));
  const absl::Status built = part->Build();
  if (!built.ok()) return built;
  return std::unique_ptr<TensorSource>(std::move(part));
}

}  // namespace lorica
