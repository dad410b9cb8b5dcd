// Cases of grouped-expert LoRA. Weights lie [E, in, out] in the file and are turned at the door.
//
// Letters: T tokens, K choices, E experts, D width of tokens, I of experts, U of gate and up, R
// rank.
#include "golden_case.h"
#include "lorica/autograd/autograd.h"
#include "lorica/autograd/experts.h"

namespace lorica::golden {
namespace {

using nlohmann::json;

struct Case {
  std::string name, group;
  int64_t tokens, top_k, experts, width, inner, gate_up, rank;
  double scale;
  bool bias;
  DType dtype, lora_dtype;
  GatedActivation activation;
  RouterWeightPlacement placement;
  std::vector<int64_t> tokens_per_expert;
};

DType TypeNamed(const std::string& name) {
  if (name == "fp32") return DType::kF32;
  if (name == "bf16") return DType::kBF16;
  throw BadCase("unknown type \"" + name + "\"");
}

GatedActivation ActivationOf(const std::string& name, const json& params) {
  CheckFields(params, {"swiglu_limit", "activation_alpha", "activation_limit"});
  GatedActivation f;
  if (name == "swiglu" || name == "swiglu_limit") {
    f.limit = params.value("swiglu_limit", 0.0);
  } else if (name == "swigluoai" || name == "quick_geglu") {
    f.slope = params.value("activation_alpha", 1.702);
    f.offset = 1;
    f.limit = params.value("activation_limit", 7.0);
    f.interleaved = name == "quick_geglu";
  } else if (name == "geglu") {
    f.kind = GatedActivation::Kind::kGeluTanh;
  } else if (name == "relu2") {
    f.kind = GatedActivation::Kind::kRelu2;
  } else {
    throw BadCase("unknown activation \"" + name + "\"");
  }
  return f;
}

Case Parse(const json& info) {
  CheckFields(info, {"name",
                     "group",
                     "E",
                     "K",
                     "D",
                     "I",
                     "rank",
                     "alpha",
                     "activation",
                     "bias",
                     "placement",
                     "dtype",
                     "lora_dtype",
                     "activation_params",
                     "U",
                     "T",
                     "scale",
                     "tokens_per_expert",
                     "producer",
                     "backend_maxdiff_vs_loop",
                     "grouped_mm_native_cpu_maxdiff",
                     "oracle",
                     "base_bitwise_equal",
                     "note"});
  Case c;
  c.name = info.at("name");
  c.group = info.at("group");
  c.tokens = info.at("T");
  c.top_k = info.at("K");
  c.experts = info.at("E");
  c.width = info.at("D");
  c.inner = info.at("I");
  c.gate_up = info.at("U");
  c.rank = info.at("rank");
  c.scale = info.at("alpha").get<double>() / static_cast<double>(c.rank);
  if (std::abs(c.scale - info.at("scale").get<double>()) > 1e-12) {
    throw BadCase("scale isn't alpha / rank");
  }
  c.bias = info.at("bias");
  c.dtype = TypeNamed(info.at("dtype"));
  c.lora_dtype = TypeNamed(info.at("lora_dtype"));
  c.activation = ActivationOf(info.at("activation"), info.at("activation_params"));
  if (c.gate_up != c.inner * (c.activation.gated() ? 2 : 1)) throw BadCase("U doesn't fit I");
  const std::string placement = info.at("placement");
  if (placement != "pre" && placement != "post") {
    throw BadCase("unknown placement \"" + placement + "\"");
  }
  c.placement =
      placement == "pre" ? RouterWeightPlacement::kBeforeDown : RouterWeightPlacement::kAfterDown;
  c.tokens_per_expert = info.at("tokens_per_expert").get<std::vector<int64_t>>();
  return c;
}

Tensor Turned(const Tensor& x) { return raw::Contiguous(x.Transpose(1, 2)); }
Tensor Leaf(Tensor x) {
  SetRequiresGrad(x, true);
  return x;
}

enum class Path { kFused, kReference };

// One run: its output and gradients under the names and in the orientation of the file.
struct Run {
  Tensor y, x, weights, a1, b1, a2, b2;
  std::vector<double> GradOf(const Tensor& leaf, bool turned) const {
    const Tensor grad = Grad(leaf);
    if (!grad.defined()) return {};
    return (turned ? Turned(grad) : grad).ToDoubles();
  }
  std::vector<double> Value(const std::string& name) const {
    if (name == "y") return y.ToDoubles();
    if (name == "dx") return GradOf(x, false);
    if (name == "dw") return GradOf(weights, false);
    return GradOf(name == "dA1" ? a1 : name == "dB1" ? b1 : name == "dA2" ? a2 : b2, true);
  }
};

Run RunOnce(const Case& c, const CaseTensors& tensors, ExpertNumerics numerics, Path path,
            bool adapters) {
  const auto get = [&](const char* name, const Shape& shape, DType type) {
    return tensors.Get(name, shape, type);
  };
  Run run;
  run.x = Leaf(get("x", {c.tokens, c.width}, c.dtype));
  run.weights = Leaf(get("weights", {c.tokens, c.top_k}, AccumulatorOf(c.dtype)));
  run.a1 = Leaf(Turned(get("A1", {c.experts, c.width, c.rank}, c.lora_dtype)));
  run.b1 = Leaf(Turned(get("B1", {c.experts, c.rank, c.gate_up}, c.lora_dtype)));
  run.a2 = Leaf(Turned(get("A2", {c.experts, c.inner, c.rank}, c.lora_dtype)));
  run.b2 = Leaf(Turned(get("B2", {c.experts, c.rank, c.width}, c.lora_dtype)));
  const bool fold = numerics == ExpertNumerics::kFast;
  const GroupedBranch gate_up = MakeGroupedBranch({{.a = run.a1, .b = run.b1, .scale = c.scale}},
                                                  {{}}, c.gate_up, c.dtype, fold);
  const GroupedBranch down = MakeGroupedBranch({{.a = run.a2, .b = run.b2, .scale = c.scale}}, {{}},
                                               c.width, c.dtype, fold);
  ExpertsArgs args;
  args.gate_up.weight =
      Weight(Turned(get("W1", {c.experts, c.width, c.gate_up}, c.dtype)), Tensor());
  args.down.weight = Weight(Turned(get("W2", {c.experts, c.inner, c.width}, c.dtype)), Tensor());
  if (c.bias) {
    args.gate_up.bias = Weight(get("b1", {c.experts, c.gate_up}, c.dtype), Tensor());
    args.down.bias = Weight(get("b2", {c.experts, c.width}, c.dtype), Tensor());
  }
  if (adapters) {
    args.gate_up.branch = &gate_up;
    args.down.branch = &down;
  }
  args.activation = c.activation;
  args.placement = c.placement;
  args.numerics = numerics;
  std::vector<int32_t> choices;
  for (int64_t i : tensors.Integers("indices", c.tokens * c.top_k)) {
    choices.push_back(static_cast<int32_t>(std::clamp<int64_t>(i, -1, c.experts)));
  }
  std::vector<uint8_t> valid;
  for (int64_t v : tensors.Integers("mask", c.tokens)) valid.push_back(v != 0);
  args.plan = std::make_shared<const DispatchPlan>(
      MakeDispatchPlan(choices, c.tokens, c.top_k, c.experts, valid));
  for (int64_t e = 0; e < c.experts; ++e) {
    if (args.plan->offsets.size(static_cast<int>(e)) != c.tokens_per_expert.at(e)) {
      throw BadCase("tokens_per_expert doesn't fit the indices");
    }
  }
  run.y = path == Path::kFused ? Experts(run.x, run.weights, args)
                               : ExpertsReference(run.x, run.weights, args);
  if (RequiresGrad(run.y)) Backward(run.y, get("g", {c.tokens, c.width}, c.dtype));
  return run;
}

Shape ShapeOf(const Case& c, const std::string& name) {
  if (name == "y" || name == "dx") return {c.tokens, c.width};
  if (name == "dw") return {c.tokens, c.top_k};
  if (name == "dA1") return {c.experts, c.width, c.rank};
  if (name == "dB1") return {c.experts, c.rank, c.gate_up};
  if (name == "dA2") return {c.experts, c.inner, c.rank};
  return {c.experts, c.rank, c.width};
}

const std::vector<std::string>& Outputs() {
  static const auto& names =
      *new std::vector<std::string>{"y", "dx", "dw", "dA1", "dB1", "dA2", "dB2"};
  return names;
}

bool AllZero(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
}

// The run against the stored values of one of the paths they were made with: whichever fits best.
void CompareStored(const Case& c, const CaseTensors& tensors, const Run& run,
                   const std::string& path, Verdict& verdict) {
  for (const std::string& name : Outputs()) {
    const std::vector<double> got = run.Value(name);
    Verdict best;
    bool first = true;
    for (const char* alternate : {"", "_grouped_mm"}) {
      if (!tensors.Has(name + alternate)) continue;
      const std::vector<double> want = tensors.Doubles(name + alternate, ShapeOf(c, name));
      Verdict one;
      const std::string where = path + " " + name;
      if (AllZero(want) || (name == "y" && (c.dtype == DType::kBF16 || c.group == "slot_order"))) {
        one.Exact(where, got, want);
      } else if (c.dtype == DType::kBF16) {
        one.Compare(where, got, want, 0, 2e-2, 0);
      } else {
        one.Compare(where, got, want, 2e-5, 2e-6, 1);
      }
      if (first || one.worst < best.worst) best = one;
      first = false;
    }
    if (first) throw BadCase("no tensor " + name);
    if (best.worst > verdict.worst) {
      verdict.worst = best.worst;
      verdict.where = best.where;
    }
  }
}

}  // namespace

Verdict RunExpertCase(Backend& backend, const json& info, const TensorSource& source) {
  const Case c = Parse(info);
  const CaseTensors tensors(backend, source, c.name);
  std::set<std::string> known = {"x",  "weights", "indices", "mask", "W1", "W2", "b1",
                                 "b2", "A1",      "B1",      "A2",   "B2", "g"};
  for (const std::string& name : Outputs()) {
    for (const char* before : {"", "ref64_", "base_"}) {
      for (const char* after : {"", "_grouped_mm", "_deepep"}) known.insert(before + name + after);
    }
  }
  tensors.CheckNames(known);

  Verdict verdict;
  // Rounding where the stored values round; in f32 both numerics must meet them.
  const Run automodel = RunOnce(c, tensors, ExpertNumerics::kAutomodel, Path::kFused, true);
  CompareStored(c, tensors, automodel, "automodel", verdict);
  const Run fast = RunOnce(c, tensors, ExpertNumerics::kFast, Path::kFused, true);
  if (c.dtype == DType::kF32) CompareStored(c, tensors, fast, "fast", verdict);
  if (c.group != "empty_routes") {  // nothing is recorded there by the reference
    const Run loop = RunOnce(c, tensors, ExpertNumerics::kAutomodel, Path::kReference, true);
    CompareStored(c, tensors, loop, "reference", verdict);
  }
  for (const std::string& name : Outputs()) {
    if (!tensors.Has("ref64_" + name)) continue;
    const std::vector<double> want = tensors.Doubles("ref64_" + name, ShapeOf(c, name));
    const bool bf16 = c.dtype == DType::kBF16;
    if (bf16 && name == "y") {
      // An absolute bound: 1.5e-2 of max(1, ...) with values below 1.
      verdict.Compare("fast " + name + " against f64", fast.Value(name), want, 0, 1.5e-2, 1);
    } else if (bf16) {
      verdict.Compare("fast " + name + " against f64", fast.Value(name), want, 0, 3e-2, 0);
    } else {
      verdict.Compare("fast " + name + " against f64", fast.Value(name), want, 2e-5, 2e-6, 1);
    }
  }
  if (c.group == "empty_routes") {
    for (const std::string& name : Outputs()) {
      for (const Run* run : {&automodel, &fast}) {
        const std::vector<double> got = run->Value(name);
        if (static_cast<int64_t>(got.size()) != ShapeOf(c, name).numel()) {
          verdict.Fail(name + " is absent");
        }
        if (!AllZero(got)) verdict.Fail(name + " isn't zero");
      }
    }
  }
  if (c.group == "zero_B_equals_base") {
    for (ExpertNumerics numerics : {ExpertNumerics::kFast, ExpertNumerics::kAutomodel}) {
      const Run& with = numerics == ExpertNumerics::kFast ? fast : automodel;
      const Run base = RunOnce(c, tensors, numerics, Path::kFused, false);
      for (const char* name : {"y", "dx", "dw"}) {
        verdict.Exact(std::string(name) + " with a zero adapter", with.Value(name),
                      base.Value(name));
      }
    }
  }
  return verdict;
}

}  // namespace lorica::golden
