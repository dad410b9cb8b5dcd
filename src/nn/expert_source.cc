#include "lorica/nn/expert_source.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "lorica/io/mxfp4.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/families/family.h"
#include "lorica/nn/model_loader.h"
#include "lorica/nn/text_part.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {

// A name as transformers 5 has it.
static std::string Renamed(const std::string& name) {
  std::string renamed = absl::StrReplaceAll(name, {{".block_sparse_moe.", ".mlp."}});
  // MiniMax-M2 keeps the router's bias beside the router.
  absl::string_view stem = renamed;
  constexpr absl::string_view kBias = ".mlp.e_score_correction_bias";
  if (absl::ConsumeSuffix(&stem, kBias)) {
    return absl::StrCat(stem, ".mlp.gate.e_score_correction_bias");
  }
  return renamed;
}

static bool HasTransposedExperts(const ModelConfig& config) {
  const Family* family = FindFamily(config.family);
  return family != nullptr && family->transposed_experts;
}

namespace {

// How one stacked tensor comes about.
struct Stack {
  enum class Kind { kSingles, kTransposed, kMxfp4 };
  Kind kind = Kind::kSingles;
  // kSingles: `parts` tensors per expert, one behind the other: [expert * parts + part].
  std::vector<std::string> names;
  int64_t parts = 1;
  StoredTensorInfo info;  // of the whole
};

class ExpertSource final : public TensorSource {
 public:
  ExpertSource(std::shared_ptr<const TensorSource> source, const ModelConfig& config)
      : source_(std::move(source)), config_(config) {}

  absl::Status Build() {
    for (const std::string& name : source_->names()) {
      const auto [it, added] = renamed_.emplace(Renamed(name), name);
      if (added) continue;
      return absl::InvalidArgumentError(absl::StrCat(source_->Where(name),
                                                     ": expected one name of the tensor, found ",
                                                     Quoted(it->second), " too"));
    }
    std::set<std::string> used;  // by the file's name
    for (int layer = 0; layer < static_cast<int>(config_.layers); ++layer) {
      if (!config_.Layer(layer).experts) continue;
      const std::string experts = absl::StrCat("model.layers.", layer, ".mlp.experts.");
      LORICA_RETURN_IF_ERROR(AddStack(experts, "gate_up_proj", {"gate_proj", "up_proj"},
                                      {"w1", "w3"}, 2 * config_.moe.expert_width,
                                      config_.moe.hidden, used));
      LORICA_RETURN_IF_ERROR(AddStack(experts, "down_proj", {"down_proj"}, {"w2"},
                                      config_.moe.hidden, config_.moe.expert_width, used));
    }
    for (const auto& [name, stored] : renamed_) {
      if (used.count(stored) == 0) names_.push_back(name);
    }
    for (const auto& [name, stack] : stacks_) names_.push_back(name);
    return absl::OkStatus();
  }

  const std::vector<std::string>& names() const override { return names_; }

  const StoredTensorInfo* Find(absl::string_view name) const override {
    const auto stack = stacks_.find(std::string(name));
    if (stack != stacks_.end()) return &stack->second.info;
    return source_->Find(Stored(name));
  }

  absl::StatusOr<absl::Span<const uint8_t>> Bytes(absl::string_view name) const override {
    if (stacks_.count(std::string(name)) == 0) return source_->Bytes(Stored(name));
    return absl::UnimplementedError(
        absl::StrCat(Where(name), ": the file has no such tensor as a whole"));
  }

  std::string Where(absl::string_view name) const override {
    const auto stack = stacks_.find(std::string(name));
    if (stack == stacks_.end()) return source_->Where(Stored(name));
    return source_->Where(stack->second.names[0]);
  }

  absl::Status Read(absl::string_view name, int64_t first, int64_t count, DType target,
                    void* out) const override {
    const auto found = stacks_.find(std::string(name));
    if (found == stacks_.end()) return source_->Read(Stored(name), first, count, target, out);
    const Stack& stack = found->second;
    const int64_t rows = stack.info.shape[1], columns = stack.info.shape[2];
    LORICA_CHECK(first >= 0 && count >= 0 && first + count <= stack.info.shape[0],
                 "[expert_source] experts [", first, ", ", first + count, ") of ",
                 stack.info.shape[0]);
    const size_t expert_bytes = static_cast<size_t>(rows * columns) * SizeOf(target);
    for (int64_t expert = first; expert < first + count; ++expert) {
      char* to = static_cast<char*>(out) + static_cast<size_t>(expert - first) * expert_bytes;
      LORICA_RETURN_IF_ERROR(ReadExpert(stack, expert, target, to));
    }
    return absl::OkStatus();
  }

 private:
  std::string Stored(absl::string_view name) const {
    const auto it = renamed_.find(std::string(name));
    return it == renamed_.end() ? std::string(name) : it->second;
  }

  // The stack `experts` + `name` [E, rows, columns], if the file has it in any form but ours.
  absl::Status AddStack(const std::string& experts, const std::string& name,
                        const std::vector<std::string>& singles,
                        const std::vector<std::string>& short_names, int64_t rows, int64_t columns,
                        std::set<std::string>& used) {
    const std::string whole = experts + name;
    Stack stack;
    stack.info.shape = {config_.moe.experts, rows, columns};
    if (const StoredTensorInfo* info = source_->Find(Stored(whole)); info != nullptr) {
      if (!HasTransposedExperts(config_)) return absl::OkStatus();  // as it is
      stack.kind = Stack::Kind::kTransposed;
      stack.names = {Stored(whole)};
      LORICA_RETURN_IF_ERROR(Expect(stack.names[0], *info, {config_.moe.experts, columns, rows}));
      stack.info.type = info->type;
    } else if (source_->Find(Stored(whole + "_blocks")) != nullptr) {
      stack.kind = Stack::Kind::kMxfp4;
      stack.names = {Stored(whole + "_blocks"), Stored(whole + "_scales")};
      LORICA_RETURN_IF_ERROR(CheckMxfp4(stack, rows, columns));
    } else {
      LORICA_RETURN_IF_ERROR(AddSingles(experts, singles, short_names, rows, columns, stack));
      if (stack.names.empty()) return absl::OkStatus();  // the loader says that `whole` is missing
    }
    used.insert(stack.names.begin(), stack.names.end());
    stacks_.emplace(whole, std::move(stack));
    return absl::OkStatus();
  }

  absl::Status AddSingles(const std::string& experts, const std::vector<std::string>& singles,
                          const std::vector<std::string>& short_names, int64_t rows,
                          int64_t columns, Stack& stack) {
    stack.parts = static_cast<int64_t>(singles.size());
    const std::vector<int64_t> shape = {rows / stack.parts, columns};
    for (int64_t expert = 0; expert < config_.moe.experts; ++expert) {
      for (size_t part = 0; part < singles.size(); ++part) {
        std::string stored = Stored(absl::StrCat(experts, expert, ".", singles[part], ".weight"));
        const StoredTensorInfo* info = source_->Find(stored);
        if (info == nullptr) {
          const std::string other =
              Stored(absl::StrCat(experts, expert, ".", short_names[part], ".weight"));
          info = source_->Find(other);
          if (info != nullptr) stored = other;
        }
        if (info == nullptr) {
          if (stack.names.empty()) return absl::OkStatus();
          return absl::NotFoundError(absl::StrCat(source_->Bytes(stored).status().message(),
                                                  " (one of ", config_.moe.experts, " experts)"));
        }
        LORICA_RETURN_IF_ERROR(Expect(stored, *info, shape));
        if (!stack.names.empty() && info->type != stack.info.type) {
          return absl::InvalidArgumentError(
              absl::StrCat(source_->Where(stored), ": expected the type of the other experts, ",
                           Name(stack.info.type), ", found ", Name(info->type)));
        }
        stack.info.type = info->type;
        stack.names.push_back(std::move(stored));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Expect(const std::string& stored, const StoredTensorInfo& info,
                      const std::vector<int64_t>& shape) const {
    if (info.shape == shape) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(source_->Where(stored), ": expected shape ", ShapeText(shape),
                     " by the configuration, found ", ShapeText(info.shape)));
  }

  absl::Status CheckMxfp4(Stack& stack, int64_t rows, int64_t columns) const {
    const StoredTensorInfo* blocks = source_->Find(stack.names[0]);
    const StoredTensorInfo* scales = source_->Find(stack.names[1]);
    if (scales == nullptr) return source_->Bytes(stack.names[1]).status();
    for (const auto& [name, info] : {std::pair(stack.names[0], blocks), {stack.names[1], scales}}) {
      if (info->type == StoredType::kU8) continue;
      return absl::InvalidArgumentError(absl::StrCat(source_->Where(name), ": expected type ",
                                                     Name(StoredType::kU8), ", found ",
                                                     Name(info->type)));
    }
    LORICA_RETURN_IF_ERROR(
        CheckMxfp4Shapes(blocks->shape, scales->shape, source_->Where(stack.names[0])));
    if (columns % kMxfp4Group != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(source_->Where(stack.names[0]), ": expected rows of a multiple of ",
                       kMxfp4Group, " values, found ", columns, " by the configuration"));
    }
    LORICA_RETURN_IF_ERROR(
        Expect(stack.names[1], *scales, {config_.moe.experts, rows, columns / kMxfp4Group}));
    // What its values are once read; no type of a file has this layout.
    stack.info.type = StoredType::kBF16;
    return absl::OkStatus();
  }

  absl::Status ReadExpert(const Stack& stack, int64_t expert, DType target, char* to) const {
    const int64_t rows = stack.info.shape[1], columns = stack.info.shape[2];
    const size_t size = SizeOf(target);
    switch (stack.kind) {
      case Stack::Kind::kSingles: {
        const size_t part_bytes = static_cast<size_t>(rows / stack.parts * columns) * size;
        for (int64_t part = 0; part < stack.parts; ++part) {
          LORICA_RETURN_IF_ERROR(source_->ReadAll(stack.names[expert * stack.parts + part], target,
                                                  to + static_cast<size_t>(part) * part_bytes));
        }
        return absl::OkStatus();
      }
      case Stack::Kind::kTransposed: {
        // Doubles, so that the buffer is aligned for every type.
        std::vector<double> buffer((static_cast<size_t>(rows * columns) * size + 7) / 8);
        LORICA_RETURN_IF_ERROR(source_->Read(stack.names[0], expert, 1, target, buffer.data()));
        const char* from = reinterpret_cast<const char*>(buffer.data());
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t column = 0; column < columns; ++column) {
            std::memcpy(to + static_cast<size_t>(row * columns + column) * size,
                        from + static_cast<size_t>(column * rows + row) * size, size);
          }
        }
        return absl::OkStatus();
      }
      case Stack::Kind::kMxfp4: {
        LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> blocks,
                                source_->Bytes(stack.names[0]));
        LORICA_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> scales,
                                source_->Bytes(stack.names[1]));
        const size_t groups = static_cast<size_t>(rows * columns / kMxfp4Group);
        const size_t begin = static_cast<size_t>(expert) * groups;
        DequantiseMxfp4(blocks.subspan(begin * kMxfp4Group / 2, groups * kMxfp4Group / 2),
                        scales.subspan(begin, groups), target, to);
        return absl::OkStatus();
      }
    }
    Fail("[expert_source] unknown kind");
  }

  std::shared_ptr<const TensorSource> source_;
  ModelConfig config_;
  std::map<std::string, std::string> renamed_;  // our name -> the file's
  std::map<std::string, Stack> stacks_;
  std::vector<std::string> names_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const TensorSource>> StackExperts(
    std::shared_ptr<const TensorSource> source, const ModelConfig& config) {
  if (config.moe.experts == 0) return source;
  auto stacked = std::make_shared<ExpertSource>(std::move(source), config);
  LORICA_RETURN_IF_ERROR(stacked->Build());
  return stacked;
}

}  // namespace lorica::internal

namespace lorica {

FolderPlace PlaceInFolder(absl::string_view name, const ModelConfig& config) {
  FolderPlace place;
  place.path = internal::Renamed(config.text_part ? NameInTextPart(name) : std::string(name));
  if (config.moe.experts == 0) return place;
  constexpr absl::string_view kExperts = ".mlp.experts.";
  const size_t begin = absl::string_view(place.path).find(kExperts);
  if (begin == absl::string_view::npos) return place;
  const std::string experts = place.path.substr(0, begin + kExperts.size());
  absl::string_view rest = absl::string_view(place.path).substr(experts.size());
  if (rest == "gate_up_proj" || rest == "down_proj") {
    place.transposed = internal::HasTransposedExperts(config);
    return place;
  }
  const size_t dot = rest.find('.');
  int64_t expert = 0;
  if (dot == absl::string_view::npos || !absl::SimpleAtoi(rest.substr(0, dot), &expert)) {
    return place;
  }
  rest.remove_prefix(dot + 1);
  if (!absl::ConsumeSuffix(&rest, ".weight")) return place;
  const int64_t width = config.moe.expert_width;
  const bool up = rest == "up_proj" || rest == "w3";
  if (up || rest == "gate_proj" || rest == "w1") {
    return {experts + "gate_up_proj", expert, up ? width : 0, width, false};
  }
  if (rest == "down_proj" || rest == "w2") {
    return {experts + "down_proj", expert, 0, config.moe.hidden, false};
  }
  return place;
}

}  // namespace lorica
