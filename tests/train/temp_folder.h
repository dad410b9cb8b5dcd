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
    // In memory where that is possible: crash tests sync thousands of times.
    const std::string places[] = {"/dev/shm", std::filesystem::temp_directory_path().string()};
    for (const std::string& place : places) {
      std::string name = place + "/lorica_train_XXXXXX";
      if (mkdtemp(name.data()) == nullptr) continue;
      path_ = name;
      return;
    }
    ADD_FAILURE() << "no temporary folder";
  }
  ~TempFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
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
