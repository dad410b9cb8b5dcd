#include "lorica/train/expert_load.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/check.h"

namespace lorica {

void AddLoads(const ExpertLoads& more, ExpertLoads& sum) {
  if (sum.empty()) {
    sum = more;
    return;
  }
  LORICA_CHECK(more.size() == sum.size(), "[expert_load] ", more.size(), " layers added to ",
               sum.size());
  for (size_t l = 0; l < sum.size(); ++l) {
    LORICA_CHECK(more[l].load.size() == sum[l].load.size(), "[expert_load] ", more[l].path, " has ",
                 more[l].load.size(), " experts, and ", sum[l].load.size(), " in the sum");
    for (size_t e = 0; e < sum[l].load.size(); ++e) sum[l].load[e] += more[l].load[e];
  }
}

double WorstImbalance(const ExpertLoads& loads) {
  double worst = 0;
  for (const LayerLoad& layer : loads) {
    int64_t most = 0, sum = 0;
    for (const int64_t tokens : layer.load) {
      most = std::max(most, tokens);
      sum += tokens;
    }
    if (sum == 0) continue;
    const double mean = static_cast<double>(sum) / static_cast<double>(layer.load.size());
    worst = std::max(worst, static_cast<double>(most) / mean);
  }
  return worst;
}

std::string LoadText(const std::vector<int64_t>& load) { return absl::StrJoin(load, " "); }

absl::StatusOr<std::vector<int64_t>> ParseLoad(absl::string_view text, absl::string_view where) {
  std::vector<int64_t> load;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    int64_t tokens = 0;
    if (!absl::SimpleAtoi(word, &tokens) || tokens < 0) {
      return absl::DataLossError(
          absl::StrCat(where, ": expected numbers of tokens, found ", Quoted(word)));
    }
    load.push_back(tokens);
  }
  return load;
}

std::vector<std::pair<std::string, nn::Moe*>> ListMixtures(Module& root) {
  std::vector<std::pair<std::string, nn::Moe*>> mixtures;
  ForEachModule(root, [&](const std::string& path, Module& module) {
    if (auto* moe = dynamic_cast<nn::Moe*>(&module)) mixtures.emplace_back(path, moe);
  });
  return mixtures;
}

}  // namespace lorica
