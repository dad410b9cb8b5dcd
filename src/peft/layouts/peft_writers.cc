// Writers of PEFT's own layouts.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lorica/io/atomic_commit.h"
#include "lorica/io/quoted.h"
#include "lorica/peft/layouts/factor_math.h"
#include "lorica/peft/layouts/layout_files.h"
#include "lorica/peft/layouts/scale_folding.h"
#include "lorica/tensor/status.h"

namespace lorica::layouts {
namespace {

// Leaf names that PEFT 0.21 takes for parts of experts in every model that has some; dense modules
// of that name are reached there as parameters only.
constexpr absl::string_view kTakenForExperts[] = {"gate_proj", "up_proj", "down_proj", "gate",
                                                  "w1",        "w2",      "w3"};

bool TakenForExperts(absl::string_view path) {
  return std::find(std::begin(kTakenForExperts), std::end(kTakenForExperts), LastName(path)) !=
         std::end(kTakenForExperts);
}

// The model has experts, adapted or not.
bool HasExperts(const StoredAdapter& adapter) {
  return adapter.form.in_model ||
         std::any_of(adapter.modules.begin(), adapter.modules.end(), [](const StoredModule& m) {
           return m.kind == StoredModule::Kind::kExperts ||
                  absl::StrContains(m.path, ".shared_expert");
         });
}

// `as_parameters`: the reader is PEFT, with the rule above.
void AddDense(const StoredAdapter& adapter, bool as_parameters, PeftConfigText& text,
              TensorList& tensors) {
  as_parameters = as_parameters && HasExperts(adapter);
  for (const StoredModule& module : adapter.modules) {
    if (module.kind == StoredModule::Kind::kExperts) continue;
    const bool embedding = module.kind == StoredModule::Kind::kEmbedding;
    const std::string key = absl::StrCat(kPeftPrefix, module.path);
    tensors.Add(absl::StrCat(key, embedding ? ".lora_embedding_A" : ".lora_A.weight"), module.a);
    tensors.Add(absl::StrCat(key, embedding ? ".lora_embedding_B" : ".lora_B.weight"), module.b);
    std::string name = module.path;
    if (as_parameters && !embedding && TakenForExperts(name)) {
      name += ".weight";
      text.target_parameters.push_back(name);
    } else {
      text.target_modules.push_back(name);
    }
    text.SetPattern(name, module.rank(), module.alpha);
  }
}

absl::Status WriteFolder(const StoredAdapter& adapter, PeftConfigText text, TensorList tensors,
                         const std::string& folder, FileSystem& files) {
  for (const SavedTensor& saved : adapter.saved) {
    tensors.Add(absl::StrCat(kPeftPrefix, saved.module, ".", saved.name), saved.values);
    std::vector<std::string>& names = text.modules_to_save;
    if (names.empty() || names.back() != saved.module) names.push_back(saved.module);
  }
  std::sort(text.target_modules.begin(), text.target_modules.end());
  std::sort(text.target_parameters.begin(), text.target_parameters.end());
  LORICA_RETURN_IF_ERROR(WriteFileAtomically(files, JoinPath(folder, "adapter_config.json"),
                                             absl::string_view(text.Format(adapter))));
  return tensors.Write(files, JoinPath(folder, "adapter_model.safetensors"));
}

// Rank and alpha of the most modules, which need no pattern then.
void SetCommon(const StoredAdapter& adapter, PeftConfigText& text) {
  std::map<std::pair<int64_t, double>, int64_t> counts;
  for (const StoredModule& module : adapter.modules) ++counts[{module.rank(), module.alpha}];
  int64_t most = 0;
  for (const auto& [value, count] : counts) {
    if (count <= most) continue;
    most = count;
    text.rank = value.first;
    text.alpha = value.second;
  }
}

ProjectionFactors Nothing(const ProjectionFactors& like, int64_t rank, int64_t in, int64_t out) {
  ProjectionFactors f = like;
  f.a = Tensor::Zeros(like.a.backend(), {1, rank, in}, like.a.dtype());
  f.b = Tensor::Zeros(like.a.backend(), {1, out, rank}, like.a.dtype());
  f.alpha = like.scale() * static_cast<double>(rank);
  f.scaling = LoraScaling::kStandard;
  return f;
}

// Gate and up are read as one: zero factors for one of them where only the other is adapted.
void FillPartner(ExpertFactors& factors) {
  const ProjectionFactors* gate = factors.Find(Projection::kGate);
  const ProjectionFactors* up = factors.Find(Projection::kUp);
  if ((gate == nullptr) == (up == nullptr)) return;
  const ProjectionFactors one = gate != nullptr ? *gate : *up;
  factors.projections.emplace(gate != nullptr ? Projection::kUp : Projection::kGate,
                              Nothing(one, one.rank(), one.a.dim(2), one.b.dim(1)));
}

// PEFT and others read experts of a layer only with gate, up and down; what is absent becomes zero
// factors. `down` alone is read, unless another layer has more: a configuration names projections
// of all layers.
void FillGaps(ExpertFactorMap& map) {
  const ProjectionFactors* some_gate = nullptr;
  for (auto& [path, factors] : map) {
    FillPartner(factors);
    const ProjectionFactors* gate = factors.Find(Projection::kGate);
    if (gate == nullptr) continue;
    if (some_gate == nullptr) some_gate = gate;
    factors.projections.emplace(Projection::kDown,
                                Nothing(*gate, gate->rank(), gate->b.dim(1), gate->a.dim(2)));
  }
  if (some_gate == nullptr) return;
  for (auto& [path, factors] : map) {
    if (factors.Find(Projection::kGate) != nullptr) continue;
    const ProjectionFactors& down = *factors.Find(Projection::kDown);
    const ProjectionFactors nothing =
        Nothing(down, some_gate->rank(), down.b.dim(1), down.a.dim(2));
    factors.projections.emplace(Projection::kGate, nothing);
    factors.projections.emplace(Projection::kUp, nothing);
  }
}

}  // namespace

void TensorList::Add(std::string name, const Tensor& values) {
  names_.push_back(std::move(name));
  tensors_.push_back(raw::Cast(raw::Contiguous(values), DType::kF32));
}

absl::Status TensorList::Write(FileSystem& files, const std::string& path) const {
  std::vector<SafetensorsTensor> entries;
  for (size_t i = 0; i < names_.size(); ++i) {
    const Tensor& t = tensors_[i];
    if (!AllFinite(t)) {
      return absl::OutOfRangeError(
          absl::StrCat("tensor ", Quoted(names_[i]), ": a value is too large for f32"));
    }
    entries.push_back({names_[i],
                       StoredType::kF32,
                       {t.shape().begin(), t.shape().end()},
                       {t.data<uint8_t>(), t.bytes()}});
  }
  return WriteSafetensors(files, path, entries, {{"format", "pt"}});
}

absl::Status WritePeft2d(const StoredAdapter& adapter, const std::string& folder,
                         FileSystem& files) {
  const double scale = CommonScale(adapter);
  const StoredAdapter folded = WithScales(adapter, [&](const StoredModule&) { return scale; });
  PeftConfigText text;
  text.layout = Name(AdapterLayout::kPeft2d);
  SetCommon(folded, text);
  ExpertFactorMap map = ByProjection(folded);
  FillGaps(map);
  for (const auto& [path, factors] : map) {
    // PEFT 0.21 gives gate_up twice the configuration's rank, whatever patterns for gate say.
    const ProjectionFactors* gate = factors.Find(Projection::kGate);
    if (gate == nullptr) continue;
    text.rank = gate->rank();
    text.alpha = gate->alpha;
    break;
  }
  TensorList tensors;
  AddDense(folded, true, text, tensors);
  const bool numbered = adapter.form.numbered_names;
  std::set<std::string> names;
  for (const auto& [path, factors] : map) {
    const std::string single = SinglePath(path, numbered);
    for (const auto& [projection, f] : factors.projections) {
      const absl::string_view leaf = SingleName(projection, numbered);
      text.SetPattern(absl::StrCat(single, ".[0-9]+.", leaf), f.rank(), f.alpha);
      for (int64_t e = 0; e < factors.experts; ++e) {
        const std::string module = absl::StrCat(single, ".", e, ".", leaf);
        tensors.Add(absl::StrCat(kPeftPrefix, module, ".lora_A.weight"), Plane(f.a, e));
        tensors.Add(absl::StrCat(kPeftPrefix, module, ".lora_B.weight"), Plane(f.b, e));
        names.insert(absl::StrCat("experts.", e, ".", leaf));
      }
    }
    // For PEFT that stacks what it reads: patterns of the stacked parameters.
    if (const ProjectionFactors* gate = factors.Find(Projection::kGate)) {
      const ProjectionFactors& up = *factors.Find(Projection::kUp);
      const int64_t rank = gate->rank() + up.rank();
      if (rank != 2 * text.rank || gate->alpha + up.alpha != 2 * text.alpha) {
        text.rank_pattern[absl::StrCat(path, ".gate_up_proj")] = rank;
        text.alpha_pattern[absl::StrCat(path, ".gate_up_proj")] = gate->alpha + up.alpha;
      }
    }
    const ProjectionFactors& down = *factors.Find(Projection::kDown);
    text.SetPattern(absl::StrCat(path, ".down_proj"), down.rank(), down.alpha);
  }
  text.target_modules.insert(text.target_modules.end(), names.begin(), names.end());
  return WriteFolder(adapter, text, tensors, folder, files);
}

absl::Status WritePeft3d(const StoredAdapter& adapter, AdapterLayout layout,
                         const std::string& folder, FileSystem& files) {
  StoredAdapter plain = adapter;
  const bool rslora =
      std::all_of(adapter.modules.begin(), adapter.modules.end(),
                  [](const StoredModule& m) { return m.scaling == LoraScaling::kRsLora; });
  if (!rslora) plain = WithScales(adapter, [](const StoredModule& m) { return m.scale(); });
  const bool turned = layout == AdapterLayout::kPeft3d018 && !adapter.form.transposed;
  PeftConfigText text;
  text.layout = Name(layout);
  text.rslora = rslora;
  text.orientation = turned ? "out-in" : "in-out";
  // The version whose meaning the file has.
  text.peft_version = layout == AdapterLayout::kPeft3d ? "0.19.0" : "0.18.1";
  SetCommon(plain, text);
  TensorList tensors;
  AddDense(plain, true, text, tensors);
  for (auto& [path, factors] : Stacked(plain)) {
    const bool both = factors.projections.size() == 2;
    for (const auto& [projection, f] : factors.projections) {
      const bool gate_up = projection == Projection::kGateUp;
      Tensor a = Expanded(f.a, factors.experts), b = Expanded(f.b, factors.experts);
      if (gate_up && adapter.form.interleaved) b = Interleaved(b);
      if (turned) {
        const Tensor first = b.Transpose(1, 2);
        b = a.Transpose(1, 2);
        a = first;
      }
      const std::string key = absl::StrCat(kPeftPrefix, path, gate_up && both ? ".base_layer" : "");
      tensors.Add(absl::StrCat(key, ".lora_A.weight"), FoldedA(a));
      tensors.Add(absl::StrCat(key, ".lora_B.weight"), FoldedB(b));
      const std::string name = absl::StrCat(path, ".", Name(projection));
      text.target_parameters.push_back(name);
      text.SetPattern(name, f.rank(), f.alpha);
    }
  }
  return WriteFolder(adapter, text, tensors, folder, files);
}

absl::Status WriteSglang(const StoredAdapter& adapter, bool shared_outer, const std::string& folder,
                         FileSystem& files) {
  const double scale = CommonScale(adapter);
  const StoredAdapter even =
      WithOneRank(WithScales(adapter, [&](const StoredModule&) { return scale; }));
  PeftConfigText text;
  text.layout = Name(shared_outer ? AdapterLayout::kSglangSharedOuter : AdapterLayout::kSglang);
  SetCommon(even, text);
  TensorList tensors;
  AddDense(even, false, text, tensors);
  // All ranks and scales are the same; what patterns could say is how products were rounded.
  text.rank_pattern.clear();
  text.alpha_pattern.clear();
  for (auto& [path, factors] : ByProjection(even)) {
    FillPartner(factors);
    for (auto& [projection, f] : factors.projections) {
      const bool down = projection == Projection::kDown;
      Tensor a = Expanded(f.a, factors.experts), b = Expanded(f.b, factors.experts);
      if (shared_outer) {
        Tensor& outer = down ? b : a;
        outer = Collapsed(outer);
        if (outer.dim(0) != 1) {
          return absl::FailedPreconditionError(absl::StrCat(
              "sglang-shared-outer: experts ", Quoted(path), ": expected one ", down ? "B" : "A",
              " of ", Name(projection), " for all experts, found different ones"));
        }
      }
      const std::string name = absl::StrCat(path, ".", Name(projection));
      tensors.Add(absl::StrCat(kPeftPrefix, name, ".lora_A.weight"), a);
      tensors.Add(absl::StrCat(kPeftPrefix, name, ".lora_B.weight"), b);
      text.target_modules.push_back(name);
    }
  }
  return WriteFolder(adapter, text, tensors, folder, files);
}

}  // namespace lorica::layouts
