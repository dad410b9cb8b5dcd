// Experts as PEFT wraps parameters (peft-3d and peft-3d-0.18): ranks folded with experts, and what
// can't be seen in sizes settled by provenance or refused.
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/layouts/factor_math.h"
#include "lorica/peft/layouts/layout_files.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {
namespace {

// PEFT took axis 1 of a parameter as its input before this version.
constexpr std::pair<int, int> kInOutSince = {0, 19};

struct Packed {
  const FactorPair* pair = nullptr;
  int64_t rank = 0;
  int64_t experts = 0;
  int64_t a_width = 0;   // columns of A
  int64_t b_height = 0;  // rows of B
};
using PackedMap = std::map<std::string, std::map<Projection, Packed>>;

absl::Status Wrong(const PeftInput& input, const std::string& experts, absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat(input.table.where(), ": experts ", Quoted(experts), ": ", message));
}

// Nested wrappers: gate_up_proj, which the module registers first, is innermost. A single wrapper
// says nothing about its parameter; target_parameters does.
absl::StatusOr<std::map<Projection, const FactorPair*>> NameWrappers(
    const PeftInput& input, const std::string& experts,
    const std::map<int, const FactorPair*>& by_depth) {
  const bool gate_up = input.config.NamesParameter(absl::StrCat(experts, ".gate_up_proj"));
  const bool down = input.config.NamesParameter(absl::StrCat(experts, ".down_proj"));
  if (by_depth.size() > 2 || by_depth.rbegin()->first != static_cast<int>(by_depth.size()) - 1) {
    return Wrong(input, experts,
                 "expected factors of gate_up_proj below base_layer and of down_proj, found other "
                 "nesting");
  }
  if (by_depth.size() == 2) {
    if (!input.config.target_parameters.empty() && !(gate_up && down)) {
      return Wrong(input, experts,
                   absl::StrCat("has factors of two parameters, and target_parameters of "
                                "adapter_config.json doesn't name ",
                                gate_up ? "down_proj" : "gate_up_proj"));
    }
    return std::map<Projection, const FactorPair*>{{Projection::kGateUp, by_depth.at(1)},
                                                   {Projection::kDown, by_depth.at(0)}};
  }
  if (gate_up == down) {
    return Wrong(input, experts,
                 absl::StrCat("has factors of one parameter, and target_parameters of "
                              "adapter_config.json names ",
                              gate_up ? "both gate_up_proj and down_proj" : "none of them"));
  }
  return std::map<Projection, const FactorPair*>{
      {gate_up ? Projection::kGateUp : Projection::kDown, by_depth.at(0)}};
}

absl::StatusOr<Packed> Measure(const PeftInput& input, const std::string& experts,
                               Projection projection, const FactorPair& pair) {
  const FactorTable& table = input.table;
  Packed packed;
  packed.pair = &pair;
  packed.rank = input.config.RankOf(absl::StrCat(experts, ".", Name(projection)));
  for (const SafetensorsEntry* entry : {pair.a, pair.b}) {
    if (entry->shape.size() != 2 || entry->shape[0] < 1 || entry->shape[1] < 1) {
      return table.Wrong(*entry, "2 axes, none empty");
    }
  }
  const int64_t folded = pair.a->shape[0];
  if (folded % packed.rank != 0) {
    return table.Wrong(*pair.a, absl::StrCat("a multiple of rank ", packed.rank, " along axis 0"));
  }
  if (pair.b->shape[1] != folded) {
    return table.Wrong(*pair.b, absl::StrCat(folded, " along axis 1, as A has it"));
  }
  packed.experts = folded / packed.rank;
  packed.a_width = pair.a->shape[1];
  packed.b_height = pair.b->shape[0];
  return packed;
}

// Whether the sizes allow A to span inputs and B outputs; `turned`: the reverse.
bool Allows(const std::map<Projection, Packed>& pair, bool turned, int64_t hidden, int64_t width) {
  for (const auto& [projection, packed] : pair) {
    const int64_t in = turned ? packed.b_height : packed.a_width;
    int64_t out = turned ? packed.a_width : packed.b_height;
    if (projection == Projection::kGateUp) {
      if (out % 2 != 0) return false;
      out /= 2;
    }
    int64_t& in_size = projection == Projection::kDown ? width : hidden;
    int64_t& out_size = projection == Projection::kDown ? hidden : width;
    if (in_size == 0) in_size = in;
    if (out_size == 0) out_size = out;
    if (in != in_size || out != out_size) return false;
  }
  return true;
}

absl::StatusOr<ExpertOrientation> SettleOrientation(const PeftInput& input,
                                                    const PackedMap& packed) {
  bool in_out = true, out_in = true;
  const BaseFacts* base = input.options.base;
  for (const auto& [experts, pair] : packed) {
    const int64_t width = base != nullptr ? base->expert_width : 0;
    in_out = in_out && Allows(pair, false, input.hidden, width);
    out_in = out_in && Allows(pair, true, input.hidden, width);
  }
  const std::string& where = input.table.where();
  if (!in_out && !out_in) {
    return absl::InvalidArgumentError(absl::StrCat(
        where, ": expected sizes of gate_up_proj and down_proj that fit together",
        base != nullptr ? " and the model" : "", ", found A of ", packed.begin()->first, " with ",
        packed.begin()->second.begin()->second.a_width, " columns and B with ",
        packed.begin()->second.begin()->second.b_height, " rows"));
  }
  std::optional<ExpertOrientation> settled = input.options.orientation;
  if (settled.has_value()) {
    if (!(*settled == ExpertOrientation::kInOut ? in_out : out_in)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": --expert-orientation contradicts the sizes of the factors"));
    }
    const absl::string_view noted = input.config.orientation;
    if (!noted.empty() && noted != (*settled == ExpertOrientation::kInOut ? "in-out" : "out-in")) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": --expert-orientation contradicts the configuration, which notes ", noted));
    }
    return *settled;
  }
  if (!out_in) return ExpertOrientation::kInOut;
  if (!in_out) return ExpertOrientation::kOutIn;
  if (input.config.orientation == "in-out") return ExpertOrientation::kInOut;
  if (input.config.orientation == "out-in") return ExpertOrientation::kOutIn;
  if (input.config.version.has_value() && input.form_known) {
    return *input.config.version >= kInOutSince || input.form.transposed
               ? ExpertOrientation::kInOut
               : ExpertOrientation::kOutIn;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      where,
      ": neither sizes nor peft_version tell whether lora_A of experts spans their inputs "
      "or their outputs; give --model, or --expert-orientation in-out|out-in"));
}

absl::StatusOr<ExpertAxis> SettleAxis(const PeftInput& input, const PackedMap& packed) {
  if (input.options.axis.has_value()) {
    if (input.config.by_lorica && *input.options.axis != ExpertAxis::kRankMajor) {
      return absl::InvalidArgumentError(
          absl::StrCat(input.table.where(),
                       ": --expert-axis contradicts the configuration, which notes rank-major"));
    }
    return *input.options.axis;
  }
  bool same = true;  // both orders are one
  for (const auto& [experts, pair] : packed) {
    for (const auto& [projection, p] : pair) same = same && (p.rank == 1 || p.experts == 1);
  }
  if (same || input.config.by_lorica || input.config.version.has_value()) {
    return ExpertAxis::kRankMajor;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      input.table.where(),
      ": no peft_version tells in which order columns of lora_B count experts and ranks; give "
      "--expert-axis rank-major (PEFT, AutoModel) or expert-major (Megatron-Bridge)"));
}

absl::StatusOr<ProjectionFactors> Unpack(const PeftInput& input, const Packed& p, ExpertAxis axis,
                                         ExpertOrientation orientation) {
  Tensor a, b;
  LORICA_ASSIGN_OR_RETURN(a, input.table.Load(*p.pair->a, 2, input.backend, input.options.dtype));
  LORICA_ASSIGN_OR_RETURN(b, input.table.Load(*p.pair->b, 2, input.backend, input.options.dtype));
  a = a.WithShape({p.experts, p.rank, p.a_width});
  b = axis == ExpertAxis::kRankMajor
          ? b.WithShape({p.b_height, p.rank, p.experts}).Transpose(0, 2).Transpose(1, 2)
          : b.WithShape({p.b_height, p.experts, p.rank}).Transpose(0, 1);
  if (orientation == ExpertOrientation::kOutIn) {
    const Tensor turned = a.Transpose(1, 2);
    a = b.Transpose(1, 2);
    b = turned;
  }
  ProjectionFactors f;
  f.a = raw::Contiguous(a);
  f.b = raw::Contiguous(b);
  return f;
}

}  // namespace

absl::StatusOr<ExpertOrientation> ReadPackedExperts(const PeftInput& input, const KeyedPairs& pairs,
                                                    ExpertFactorMap& map) {
  std::map<std::string, std::map<int, const FactorPair*>> by_depth;
  for (const auto& [key, pair] : pairs) by_depth[key.experts][key.depth] = pair;
  PackedMap packed;
  bool any_gate_up = false;
  for (const auto& [experts, wrappers] : by_depth) {
    using Named = std::map<Projection, const FactorPair*>;
    LORICA_ASSIGN_OR_RETURN(const Named named, NameWrappers(input, experts, wrappers));
    for (const auto& [projection, pair] : named) {
      LORICA_ASSIGN_OR_RETURN(const Packed p, Measure(input, experts, projection, *pair));
      std::map<Projection, Packed>& own = packed[experts];
      if (!own.empty() && own.begin()->second.experts != p.experts) {
        return Wrong(input, experts,
                     absl::StrCat("expected as many experts for gate_up_proj as for down_proj, "
                                  "found ",
                                  own.begin()->second.experts, " and ", p.experts));
      }
      own.emplace(projection, p);
      any_gate_up = any_gate_up || projection == Projection::kGateUp;
    }
  }
  if (any_gate_up && !input.form_known) {
    return absl::FailedPreconditionError(absl::StrCat(
        input.table.where(), ": experts of base model ", Quoted(input.config.peft.base_model),
        " may have an order of their own; give --model, so that it is known"));
  }
  LORICA_ASSIGN_OR_RETURN(const ExpertOrientation orientation, SettleOrientation(input, packed));
  LORICA_ASSIGN_OR_RETURN(const ExpertAxis axis, SettleAxis(input, packed));
  for (const auto& [experts, own] : packed) {
    ExpertFactors& factors = map[experts];
    for (const auto& [projection, p] : own) {
      factors.experts = p.experts;
      ProjectionFactors f;
      LORICA_ASSIGN_OR_RETURN(f, Unpack(input, p, axis, orientation));
      f.alpha = input.config.AlphaOf(absl::StrCat(experts, ".", Name(projection)));
      f.scaling = input.config.peft.scaling;
      if (projection == Projection::kGateUp && input.form.interleaved && f.b.dim(1) % 2 == 0) {
        f.b = Deinterleaved(f.b);
      }
      factors.projections[projection] = std::move(f);
    }
    if (input.config.expert_kind == "split") Unstack(factors);
  }
  return orientation;
}

}  // namespace lorica::layouts
