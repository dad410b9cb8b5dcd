// Which files of a model hold its tokenizer.
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/file_system.h"
#include "lorica/io/gguf.h"
#include "lorica/tensor/status.h"
#include "lorica/text/gguf_tokenizer.h"
#include "lorica/text/sentencepiece_tokenizer.h"
#include "lorica/text/tokenizer.h"

namespace lorica {
namespace {

// The largest published tokenizer.json has 35 MB.
constexpr size_t kLargestFile = size_t{256} << 20;

bool IsFile(const std::string& path) {
  const auto info = PosixFiles().Stat(path);
  return info.ok() && info->is_regular;
}

bool IsFolder(const std::string& path) {
  const auto info = PosixFiles().Stat(path);
  return info.ok() && info->is_directory;
}

// The text of tokenizer_config.json in `folder`, else of special_tokens_map.json, which names the
// same tokens in older folders; empty where there is neither.
absl::StatusOr<std::string> ReadConfig(const std::string& folder) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::string path = JoinPath(folder, name);
    if (IsFile(path)) return PosixFiles().Read(path, kLargestFile);
  }
  return std::string();
}

absl::StatusOr<Tokenizer> LoadJson(const std::string& path, const std::string& config) {
  LORICA_ASSIGN_OR_RETURN(const std::string json, PosixFiles().Read(path, kLargestFile));
  return ParseTokenizerJson(json, path, config);
}

absl::StatusOr<Tokenizer> LoadSentencepiece(const std::string& path, const std::string& config) {
  LORICA_ASSIGN_OR_RETURN(const std::string model, PosixFiles().Read(path, kLargestFile));
  return TokenizerFromSentencepiece(model, path, config);
}

absl::StatusOr<Tokenizer> LoadGguf(const std::string& path) {
  LORICA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  LORICA_ASSIGN_OR_RETURN(GgufTokenizer metadata, ReadGgufTokenizer(file));
  return TokenizerFromGguf(std::move(metadata), path);
}

}  // namespace

absl::StatusOr<Tokenizer> LoadTokenizerJson(const std::string& path) { return LoadJson(path, ""); }

bool HasTokenizer(const std::string& model_path) {
  if (IsFolder(model_path)) {
    return IsFile(JoinPath(model_path, "tokenizer.json")) ||
           IsFile(JoinPath(model_path, "tokenizer.model"));
  }
  if (!IsFile(model_path) || !absl::EndsWith(model_path, ".gguf")) return IsFile(model_path);
  const absl::StatusOr<GgufFile> file = GgufFile::Open(model_path);
  if (!file.ok()) return true;
  const absl::StatusOr<std::string> model = file->GetStringOr("tokenizer.ggml.model", "none");
  return !model.ok() || (*model != "none" && *model != "no_vocab");
}

absl::StatusOr<Tokenizer> LoadTokenizer(const std::string& model_path) {
  if (IsFolder(model_path)) {
    LORICA_ASSIGN_OR_RETURN(const std::string config, ReadConfig(model_path));
    const std::string json = JoinPath(model_path, "tokenizer.json");
    if (IsFile(json)) return LoadJson(json, config);
    const std::string model = JoinPath(model_path, "tokenizer.model");
    if (IsFile(model)) return LoadSentencepiece(model, config);
    return absl::NotFoundError(
        absl::StrCat(model_path, ": the folder has neither tokenizer.json nor tokenizer.model"));
  }
  LORICA_RETURN_IF_ERROR(PosixFiles().Stat(model_path).status());
  if (absl::EndsWith(model_path, ".gguf")) return LoadGguf(model_path);
  LORICA_ASSIGN_OR_RETURN(const std::string config, ReadConfig(FolderOf(model_path)));
  if (absl::EndsWith(model_path, ".json")) return LoadJson(model_path, config);
  if (absl::EndsWith(model_path, ".model")) return LoadSentencepiece(model_path, config);
  return absl::InvalidArgumentError(absl::StrCat(
      model_path, ": a tokenizer is a folder, or a file that ends in .json, .model or .gguf"));
}

}  // namespace lorica
