// Cases of routers: loss = sum(weights * gw), gw belonging to the stored choices.
//
// Letters: T tokens, K choices, E experts, D width.
#include "golden_case.h"
#include "lorica/autograd/autograd.h"
#include "lorica/autograd/ops.h"
#include "lorica/autograd/router.h"

namespace lorica::golden {
namespace {

using nlohmann::json;

RouterOptions OptionsOf(const json& info, bool biased) {
  RouterOptions options;
  options.top_k = info.at("K");
  options.normalize = info.value("norm_topk_prob", false);
  options.scale = info.value("route_scale", 1.0);
  options.groups = std::max<int64_t>(1, info.value("n_group", int64_t{1}));
  options.top_groups = info.value("topk_group", int64_t{1});
  options.bias_in_weights = info.value("weight_uses_correction_bias", false);
  options.group_score = RouterOptions::GroupScore::kTopTwoSum;
  const std::string score = info.at("score_func");
  if (score == "softmax") {
    options.softmax_after_topk = !info.value("softmax_before_topk", false);
    options.groups = 1;
  } else if (score == "softmax_with_bias") {
  } else if (score == "sigmoid") {
    options.score = ScoreFunction::kSigmoid;
    if (!biased) options.group_score = RouterOptions::GroupScore::kMax;
  } else if (score == "sigmoid_with_bias") {
    options.score = ScoreFunction::kSigmoid;
    options.closed_group = RouterOptions::ClosedGroup::kMinusInfinity;
  } else if (score == "sqrtsoftplus") {
    options.score = ScoreFunction::kSqrtSoftplus;
    options.groups = 1;
  } else {
    throw BadCase("unknown score_func \"" + score + "\"");
  }
  return options;
}

Tensor Leaf(Tensor x) {
  SetRequiresGrad(x, true);
  return x;
}

}  // namespace

Verdict RunRouterCase(Backend& backend, const json& info, const TensorSource& source) {
  CheckFields(info, {"name",
                     "T",
                     "E",
                     "K",
                     "D",
                     "score_func",
                     "softmax_before_topk",
                     "norm_topk_prob",
                     "route_scale",
                     "min_margin",
                     "order",
                     "producer",
                     "own_selection_equal_as_sets",
                     "correction_bias",
                     "n_group",
                     "topk_group",
                     "weight_uses_correction_bias",
                     "router_bias",
                     "note",
                     "expected_set",
                     "expected_members",
                     "forbidden_members_under_mul0",
                     "information_only"});
  const std::string name = info.at("name");
  const int64_t tokens = info.at("T"), experts = info.at("E"), top_k = info.at("K");
  const int64_t width = info.at("D");
  const CaseTensors tensors(backend, source, name);
  tensors.CheckNames({"x", "gate_weight", "logits", "correction_bias", "selection_scores",
                      "indices", "weights", "gw", "dx", "dgate_weight", "router_bias",
                      "drouter_bias", "token_mask"});
  const bool biased = info.value("correction_bias", false);
  const bool linear_bias = info.value("router_bias", false);
  Tensor x = Leaf(tensors.Get("x", {tokens, width}, DType::kF32));
  Tensor weight = Leaf(tensors.Get("gate_weight", {experts, width}, DType::kF32));
  Tensor bias;
  if (linear_bias) bias = Leaf(tensors.Get("router_bias", {experts}, DType::kF32));
  const Tensor logits =
      Linear(x, {.weight = weight, .bias = linear_bias ? Weight(bias) : Weight()});
  const Routing routing =
      Route(logits, OptionsOf(info, biased),
            biased ? tensors.Get("correction_bias", {experts}, DType::kF32) : Tensor());

  Verdict verdict;
  const auto compare = [&](const std::string& what, const std::vector<double>& got,
                           const std::vector<double>& want) {
    verdict.Compare(what, got, want, 2e-5, 2e-6, 1);
  };
  compare("logits", logits.ToDoubles(), tensors.Doubles("logits", {tokens, experts}));

  // Stored choices may come in another order: values belong to the expert, not to the place.
  const std::vector<int64_t> indices = tensors.Integers("indices", tokens * top_k);
  const std::vector<double> want = tensors.Doubles("weights", {tokens, top_k});
  const std::vector<double> stored_gw = tensors.Doubles("gw", {tokens, top_k});
  const std::string order = info.value("order", "descending selection score");
  const bool ordered = order.rfind("descending", 0) == 0 && !info.contains("expected_set") &&
                       !info.contains("expected_members");
  const bool free = info.value("information_only", false) || info.contains("expected_members");
  std::vector<double> want_here(want.size());
  std::vector<float> gw(want.size());
  bool same_sets = true;
  for (int64_t i = 0; i < tokens * top_k; ++i) {
    const auto row = indices.begin() + i / top_k * top_k;
    const auto found = std::find(row, row + top_k, (*routing.experts)[static_cast<size_t>(i)]);
    if (found == row + top_k || (ordered && found - indices.begin() != i)) {
      same_sets = false;
      continue;
    }
    want_here[static_cast<size_t>(i)] = want[static_cast<size_t>(found - indices.begin())];
    gw[static_cast<size_t>(i)] =
        static_cast<float>(stored_gw[static_cast<size_t>(found - indices.begin())]);
  }
  const auto chosen = [&](int64_t expert) {
    return std::find(routing.experts->begin(), routing.experts->end(), expert) !=
           routing.experts->end();
  };
  for (const char* field : {"expected_set", "expected_members"}) {
    for (const auto& expert : info.value(field, json::array())) {
      if (!chosen(expert)) verdict.Fail("expert " + expert.dump() + " isn't chosen");
    }
  }
  for (const auto& expert : info.value("forbidden_members_under_mul0", json::array())) {
    if (chosen(expert)) verdict.Fail("expert " + expert.dump() + " is chosen");
  }
  if (!same_sets) {
    if (free) {
      verdict.notes.push_back("other experts among equal scores, values not compared");
    } else {
      verdict.Fail("chosen experts");
    }
    return verdict;
  }
  compare("weights", routing.weights.ToDoubles(), want_here);
  Backward(routing.weights, Tensor::FromHost<float>(backend, {tokens, top_k}, gw));
  compare("dx", Grad(x).ToDoubles(), tensors.Doubles("dx", {tokens, width}));
  compare("dgate_weight", Grad(weight).ToDoubles(),
          tensors.Doubles("dgate_weight", {experts, width}));
  if (linear_bias) {
    compare("drouter_bias", Grad(bias).ToDoubles(), tensors.Doubles("drouter_bias", {experts}));
  }
  return verdict;
}

}  // namespace lorica::golden
