#include "lorica/peft/lora_adapter.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "lorica/tensor/random.h"

namespace lorica {
namespace {

// `count` values drawn by `draw`, as a leaf in the accumulator type of `compute`.
template <typename Draw>
Tensor DrawLeaf(Backend& backend, DType compute, const Shape& shape, const Draw& draw) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (float& value : values) value = static_cast<float>(draw());
  Tensor leaf = raw::Cast(Tensor::FromHost<float>(backend, shape, values), AccumulatorOf(compute));
  SetRequiresGrad(leaf, true);
  return leaf;
}

Tensor ZeroLeaf(Backend& backend, DType compute, const Shape& shape) {
  Tensor leaf = Tensor::Zeros(backend, shape, AccumulatorOf(compute));
  SetRequiresGrad(leaf, true);
  return leaf;
}

double DrawA(LoraInit init, int64_t in, int64_t rank, RandomStream& random) {
  const double r = static_cast<double>(rank), n = static_cast<double>(in);
  switch (init) {
    case LoraInit::kKaiming:
      return (2 * random.Uniform() - 1) / std::sqrt(n);
    case LoraInit::kXavier:
      return random.Normal() * std::sqrt(2 / (n + r));
    case LoraInit::kGaussian:
      return random.Normal() / r;
  }
  return 0;
}

LoraFactors WithoutValues(absl::string_view path, const LoraConfig& config, double alpha) {
  LoraFactors factors;
  factors.alpha = alpha;
  factors.scaling = config.scaling;
  factors.dropout = config.dropout;
  factors.dropout_key = CombineKeys(config.seed, HashName(absl::StrCat(path, ".lora_dropout")));
  return factors;
}

}  // namespace

void LoraAdapter::AddSlot(LoraFactors factors) {
  LORICA_CHECK(factors.a.defined() && factors.b.defined(), "[lora] a slot needs A and B");
  factors_.push_back(std::move(factors));
  branches_.emplace_back();
  versions_.emplace_back(0, 0);
}

absl::Span<const LoraBranch> LoraAdapter::Branches(DType compute, bool training) {
  for (size_t i = 0; i < factors_.size(); ++i) {
    const LoraFactors& f = factors_[i];
    LoraBranch& branch = branches_[i];
    const std::pair<uint64_t, uint64_t> versions = {f.a.storage()->version(),
                                                    f.b.storage()->version()};
    const bool fresh = branch.a.defined() && branch.a.value.dtype() == compute &&
                       branch.scale == f.scale() && versions_[i] == versions;
    if (!fresh) {
      branch.scale = f.scale();
      branch.a = Weight(raw::Cast(f.a.Detach(), compute), f.a);
      Tensor scaled = Tensor::Empty(f.b.backend(), f.b.shape(), f.b.dtype());
      if (scaled.numel() > 0) {
        f.b.backend().Affine(f.b.view(), branch.scale, 0, scaled.mutable_view());
      }
      branch.b = Weight(raw::Cast(scaled, compute), f.b);
      versions_[i] = versions;
    }
    branch.dropout = training ? f.dropout : 0;
    branch.dropout_key = f.dropout_key;
  }
  return branches_;
}

LoraFactors InitLoraFactors(Backend& backend, DType compute, AdapterHost::Kind kind,
                            const Shape& weight_shape, absl::string_view path,
                            const LoraConfig& config, int64_t rank, double alpha) {
  LoraFactors factors = WithoutValues(path, config, alpha);
  RandomStream random(config.seed, HashName(absl::StrCat(path, ".lora")));
  if (kind == AdapterHost::Kind::kEmbedding) {
    factors.a = ZeroLeaf(backend, compute, {weight_shape[0], rank});
    factors.b =
        DrawLeaf(backend, compute, {weight_shape[1], rank}, [&] { return random.Normal(); });
    return factors;
  }
  const int64_t out = weight_shape[0], in = weight_shape[1];
  factors.a =
      DrawLeaf(backend, compute, {rank, in}, [&] { return DrawA(config.init, in, rank, random); });
  factors.b = ZeroLeaf(backend, compute, {out, rank});
  return factors;
}

LoraFactors InitExpertFactors(Backend& backend, DType compute, const Shape& weight_shape,
                              bool shared_a, bool shared_b, absl::string_view path,
                              const LoraConfig& config, int64_t rank, double alpha) {
  LoraFactors factors = WithoutValues(path, config, alpha);
  const int64_t experts = weight_shape[0], out = weight_shape[1], in = weight_shape[2];
  const uint64_t name = HashName(absl::StrCat(path, ".lora"));
  RandomStream random(config.seed, name);
  int64_t drawn = 0;
  factors.a = DrawLeaf(backend, compute, {shared_a ? 1 : experts, rank, in}, [&] {
    if (drawn % (rank * in) == 0) {
      random =
          RandomStream(config.seed, CombineKeys(name, static_cast<uint64_t>(drawn / (rank * in))));
    }
    ++drawn;
    return DrawA(config.init, in, rank, random);
  });
  factors.b = ZeroLeaf(backend, compute, {shared_b ? 1 : experts, out, rank});
  return factors;
}

}  // namespace lorica
