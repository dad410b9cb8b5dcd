// expert_golden [--if-there] DIR: runs every case of a folder with cases.{json,safetensors}
// (grouped-expert LoRA) and router.{json,safetensors} (routers) by what its JSON says. One line a
// case with its worst error, relative to what is allowed; at the end "N passed, N failed". Fails
// where no case was run, too.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "golden_case.h"
#include "lorica/tensor/cpu_backend.h"

namespace {

using lorica::golden::BadCase;
using lorica::golden::Verdict;

struct Count {
  int passed = 0, failed = 0;
};

template <typename Run>
void RunFile(const std::string& folder, const std::string& name, const Run& run, Count& count) {
  std::ifstream file(folder + "/" + name + ".json");
  const auto source = lorica::OpenSafetensorsSource(folder + "/" + name + ".safetensors");
  std::ostringstream text;
  text << file.rdbuf();
  const auto json = nlohmann::json::parse(text.str(), nullptr, false);
  if (!file || !source.ok() || json.is_discarded() || !json.contains("cases") ||
      !json["cases"].is_array()) {
    std::printf("FAIL %s: %s\n", name.c_str(),
                source.ok() ? "no readable JSON with cases"
                            : std::string(source.status().message()).c_str());
    ++count.failed;
    return;
  }
  for (const auto& info : json["cases"]) {
    const std::string title = info.is_object() ? info.value("name", "?") : "?";
    std::string error;
    Verdict verdict;
    try {
      verdict = run(info, **source);
    } catch (const std::exception& e) {
      error = e.what();
    }
    if (error.empty() && verdict.passed()) {
      ++count.passed;
      std::printf("ok   %s: worst error %.3g of what is allowed%s%s", title.c_str(), verdict.worst,
                  verdict.where.empty() ? "" : ", in ", verdict.where.c_str());
    } else {
      ++count.failed;
      if (error.empty()) {
        std::printf("FAIL %s: worst error %.3g of what is allowed, in %s", title.c_str(),
                    verdict.worst, verdict.where.c_str());
      } else {
        std::printf("FAIL %s: refused: %s", title.c_str(), error.c_str());
      }
    }
    for (const std::string& note : verdict.notes) std::printf("; %s", note.c_str());
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool optional = argc == 3 && std::string(argv[1]) == "--if-there";
  if (argc != 2 && !optional) {
    std::fprintf(stderr, "usage: expert_golden [--if-there] DIR\n");
    return 2;
  }
  const std::string folder = argv[argc - 1];
  if (optional && !std::filesystem::is_directory(folder)) {
    std::printf("skipped: no folder %s\n", folder.c_str());
    return 77;  // what Meson takes for skipped
  }
  lorica::ThreadPool pool(2);
  const auto backend = lorica::MakeCpuBackend(pool);
  Count count;
  RunFile(
      folder, "cases",
      [&](const auto& info, const auto& source) {
        return lorica::golden::RunExpertCase(*backend, info, source);
      },
      count);
  RunFile(
      folder, "router",
      [&](const auto& info, const auto& source) {
        return lorica::golden::RunRouterCase(*backend, info, source);
      },
      count);
  std::printf("%d passed, %d failed\n", count.passed, count.failed);
  return count.passed > 0 && count.failed == 0 ? 0 : 1;
}
