#include "lorica/peft/layouts/expert_keys.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"

namespace lorica::layouts {
namespace {

// More experts than any model has; an index above it is a slip or an attack.
constexpr int64_t kMaxExpert = 65535;

struct NameRow {
  absl::string_view name;
  Projection projection;
  bool numbered;
};
constexpr NameRow kNames[] = {
    {"gate_proj", Projection::kGate, false}, {"up_proj", Projection::kUp, false},
    {"down_proj", Projection::kDown, false}, {"gate_up_proj", Projection::kGateUp, false},
    {"w1", Projection::kGate, true},         {"w3", Projection::kUp, true},
    {"w2", Projection::kDown, true},
};

// The first whole segment `name` of `path`: its position, or npos.
size_t FindSegment(absl::string_view path, absl::string_view name) {
  for (size_t at = path.find(name); at != absl::string_view::npos; at = path.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || path[at - 1] == '.') && (end == path.size() || path[end] == '.')) return at;
  }
  return absl::string_view::npos;
}

bool ParseProjection(absl::string_view name, ExpertKey& key) {
  for (const NameRow& row : kNames) {
    if (name != row.name) continue;
    key.projection = row.projection;
    key.numbered_names = key.numbered_names || row.numbered;
    return true;
  }
  return false;
}

}  // namespace

absl::string_view Name(Projection projection) {
  switch (projection) {
    case Projection::kGate:
      return "gate_proj";
    case Projection::kUp:
      return "up_proj";
    case Projection::kDown:
      return "down_proj";
    case Projection::kGateUp:
      return "gate_up_proj";
  }
  return "";
}

absl::string_view SingleName(Projection projection, bool numbered) {
  if (!numbered) return Name(projection);
  return projection == Projection::kGate ? "w1" : projection == Projection::kUp ? "w3" : "w2";
}

std::string SinglePath(absl::string_view experts, bool numbered) {
  if (!numbered || !absl::ConsumeSuffix(&experts, ".mlp.experts")) return std::string(experts);
  return absl::StrCat(experts, ".block_sparse_moe.experts");
}

absl::StatusOr<ExpertKey> ParseExpertKey(absl::string_view path) {
  ExpertKey key;
  size_t length = 7;
  size_t at = FindSegment(path, "experts");
  const bool mlx = at == absl::string_view::npos;
  if (mlx) {
    at = FindSegment(path, "switch_mlp");
    length = 10;
  }
  if (at == absl::string_view::npos || at == 0) return key;
  absl::string_view head = path.substr(0, at - 1);
  absl::string_view rest = path.substr(at + length);
  key.numbered_names = absl::ConsumeSuffix(&head, ".block_sparse_moe");
  key.experts = key.numbered_names ? absl::StrCat(head, ".mlp.experts")
                                   : absl::StrCat(path.substr(0, at), "experts");
  const absl::Status unknown = absl::InvalidArgumentError(
      absl::StrCat(Quoted(path), " is no name that experts have in any known layout"));
  while (!mlx && absl::ConsumePrefix(&rest, ".base_layer")) ++key.depth;
  if (rest.empty() && !mlx) {
    key.form = ExpertKey::Form::kPacked;
    return key;
  }
  if (key.depth > 0 || !absl::ConsumePrefix(&rest, ".")) return unknown;
  key.form = ExpertKey::Form::kGrouped;
  const size_t dot = rest.find('.');
  if (dot != absl::string_view::npos) {
    if (mlx || !absl::SimpleAtoi(rest.substr(0, dot), &key.index) || key.index < 0 ||
        key.index > kMaxExpert || absl::StrCat(key.index) != rest.substr(0, dot)) {
      return unknown;
    }
    key.form = ExpertKey::Form::kSingle;
    rest.remove_prefix(dot + 1);
  }
  if (!ParseProjection(rest, key)) return unknown;
  if (key.form == ExpertKey::Form::kSingle && key.projection == Projection::kGateUp) return unknown;
  return key;
}

}  // namespace lorica::layouts
