// A folder for one test, and files in it.
#ifndef LORICA_TESTS_TRAIN_TEMP_FOLDER_H_
#define LORICA_TESTS_TRAIN_TEMP_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace lorica {

// Removed with all that is in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lorica_train_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void WriteText(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Relative path -> content of every file below `path`; folders end with '/' and have none.
inline std::map<std::string, std::string> ReadTree(const std::string& path) {
  std::map<std::string, std::string> tree;
  if (!std::filesystem::is_directory(path)) return tree;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    const std::string name = std::filesystem::relative(entry.path(), path).string();
    if (entry.is_directory()) {
      tree[name + "/"] = "";
    } else {
      tree[name] = ReadText(entry.path().string());
    }
  }
  return tree;
}

}  // namespace lorica

#endif  // LORICA_TESTS_TRAIN_TEMP_FOLDER_H_
