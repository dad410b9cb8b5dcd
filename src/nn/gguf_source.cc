#include "lorica/nn/gguf_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lorica/io/quoted.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/check.h"
#include "lorica/tensor/status.h"

namespace lorica::internal {
namespace {

// A tensor that isn't the file's as it is.
struct Joined {
  enum class Kind {
    kBehind,  // halves [E, I, ...], in each row one behind the other
    kInTurn,  // the same, rows of the two in turn
    kLatent,  // keys [H, L, N] and values [H, V, L]
    kVector,  // one tensor [D] as a row
  };
  Kind kind = Kind::kBehind;
  std::vector<std::string> names;
  StoredTensorInfo info;  // of the whole
  // kBehind and kInTurn: rows of a half and their length. kLatent: N, V and L.
  int64_t rows = 0, columns = 0;
  int64_t keys = 0, values = 0, rank = 0;
};

// Buffers are doubles, so that they are aligned for every type.
std::vector<double> Buffer(int64_t elements, size_t size) {
  return std::vector<double>((static_cast<size_t>(elements) * size + 7) / 8);
}

class JoinedSource final : public TensorSource {
 public:
  JoinedSource(std::shared_ptr<const TensorSource> source, const ModelConfig& config)
      : source_(std::move(source)), config_(config) {}

  absl::Status Build() {
    const nn::MoeConfig& moe = config_.moe;
    for (int layer = 0; layer < static_cast<int>(config_.layers); ++layer) {
      const std::string block = absl::StrCat("blk.", layer, ".");
      if (config_.latent.kv_lora_rank > 0) LORICA_RETURN_IF_ERROR(AddLatent(block));
      if (!config_.Layer(layer).experts) continue;
      LORICA_RETURN_IF_ERROR(AddGateUp(block, ".weight", {moe.hidden}));
      if (moe.expert_bias) LORICA_RETURN_IF_ERROR(AddGateUp(block, ".bias", {}));
      if (moe.shared_gate) AddVector(block + "ffn_gate_inp_shexp.weight");
    }
    std::set<std::string> used;
    for (const auto& [name, joined] : joined_) {
      used.insert(joined.names.begin(), joined.names.end());
      names_.push_back(name);
    }
    for (const std::string& name : source_->names()) {
      if (used.count(name) == 0) names_.push_back(name);
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& names() const override { return names_; }

  const StoredTensorInfo* Find(absl::string_view name) const override {
    const auto joined = joined_.find(std::string(name));
    return joined != joined_.end() ? &joined->second.info : source_->Find(name);
  }

  absl::StatusOr<absl::Span<const uint8_t>> Bytes(absl::string_view name) const override {
    if (joined_.count(std::string(name)) == 0) return source_->Bytes(name);
    return absl::UnimplementedError(
        absl::StrCat(Where(name), ": the file has no such tensor as a whole"));
  }

  std::string Where(absl::string_view name) const override {
    const auto joined = joined_.find(std::string(name));
    return source_->Where(joined != joined_.end() ? joined->second.names[0] : name);
  }

  absl::Status Read(absl::string_view name, int64_t first, int64_t count, DType target,
                    void* out) const override {
    const auto found = joined_.find(std::string(name));
    if (found == joined_.end()) return source_->Read(name, first, count, target, out);
    const Joined& joined = found->second;
    LORICA_CHECK(first >= 0 && count >= 0 && first <= joined.info.shape[0] - count,
                 "[gguf_source] rows [", first, ", ", first + count, ") of ", joined.info.shape[0]);
    char* to = static_cast<char*>(out);
    switch (joined.kind) {
      case Joined::Kind::kVector:
        return count == 0 ? absl::OkStatus() : source_->ReadAll(joined.names[0], target, out);
      case Joined::Kind::kLatent:
        return ReadLatent(joined, first, count, target, to);
      default:
        return ReadGateUp(joined, first, count, target, to);
    }
  }

 private:
  // A half of that shape; its type.
  absl::StatusOr<StoredType> Half(const std::string& name, std::vector<int64_t> shape) const {
    const StoredTensorInfo* info = source_->Find(name);
    if (info == nullptr) return source_->Bytes(name).status();
    if (info->shape == shape) return info->type;
    return absl::InvalidArgumentError(absl::StrCat(source_->Where(name), ": expected shape ",
                                                   ShapeText(shape), " by the metadata, found ",
                                                   ShapeText(info->shape)));
  }

  // What the joined values count as: decoded they are f32, unless one half can't be.
  absl::Status Join(const std::string& name, Joined joined,
                    const std::array<std::vector<int64_t>, 2>& shapes) {
    std::array<StoredType, 2> types;
    for (size_t i = 0; i < 2; ++i) {
      LORICA_ASSIGN_OR_RETURN(types[i], Half(joined.names[i], shapes[i]));
    }
    joined.info.type = types[0] == types[1] ? types[0] : StoredType::kF32;
    for (const StoredType type : types) {
      if (!IsConvertible(type, DType::kF32)) joined.info.type = type;
    }
    joined_.emplace(name, std::move(joined));
    return absl::OkStatus();
  }

  absl::Status AddGateUp(const std::string& block, const std::string& parameter,
                         const std::vector<int64_t>& row) {
    const nn::MoeConfig& moe = config_.moe;
    const std::string whole = absl::StrCat(block, "ffn_gate_up_exps", parameter);
    if (source_->Find(whole) != nullptr) {
      // Nothing says in which order rows of the two would lie.
      if (!moe.activation.interleaved) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          source_->Where(whole), ": expected ffn_gate_exps and ffn_up_exps in its place"));
    }
    Joined joined;
    joined.kind = moe.activation.interleaved ? Joined::Kind::kInTurn : Joined::Kind::kBehind;
    joined.names = {absl::StrCat(block, "ffn_gate_exps", parameter),
                    absl::StrCat(block, "ffn_up_exps", parameter)};
    joined.rows = moe.expert_width;
    joined.columns = row.empty() ? 1 : row[0];
    std::vector<int64_t> half = {moe.experts, moe.expert_width};
    joined.info.shape = {moe.experts, 2 * moe.expert_width};
    for (std::vector<int64_t>* shape : {&half, &joined.info.shape}) {
      shape->insert(shape->end(), row.begin(), row.end());
    }
    return Join(whole, std::move(joined), {half, half});
  }

  absl::Status AddLatent(const std::string& block) {
    const std::string whole = block + "attn_kv_b.weight";
    if (source_->Find(whole) != nullptr) return absl::OkStatus();
    const LatentSizes& latent = config_.latent;
    Joined joined;
    joined.kind = Joined::Kind::kLatent;
    joined.names = {block + "attn_k_b.weight", block + "attn_v_b.weight"};
    joined.keys = latent.qk_nope_head_dim;
    joined.values = latent.v_head_dim;
    joined.rank = latent.kv_lora_rank;
    joined.info.shape = {config_.heads * (joined.keys + joined.values), joined.rank};
    return Join(whole, std::move(joined),
                {std::vector<int64_t>{config_.heads, latent.kv_lora_rank, latent.qk_nope_head_dim},
                 {config_.heads, latent.v_head_dim, latent.kv_lora_rank}});
  }

  void AddVector(const std::string& name) {
    const StoredTensorInfo* info = source_->Find(name);
    if (info == nullptr || info->shape.size() != 1) return;  // the loader checks it
    Joined joined;
    joined.kind = Joined::Kind::kVector;
    joined.names = {name};
    joined.info = {info->type, {1, info->shape[0]}};
    joined_.emplace(name, std::move(joined));
  }

  absl::Status ReadGateUp(const Joined& joined, int64_t first, int64_t count, DType target,
                          char* to) const {
    const size_t row_bytes = static_cast<size_t>(joined.columns) * SizeOf(target);
    const size_t half_bytes = static_cast<size_t>(joined.rows) * row_bytes;
    const bool in_turn = joined.kind == Joined::Kind::kInTurn;
    std::vector<double> buffer =
        in_turn ? Buffer(joined.rows * joined.columns, SizeOf(target)) : std::vector<double>();
    for (int64_t expert = first; expert < first + count; ++expert) {
      for (size_t half = 0; half < 2; ++half) {
        char* place = to + (static_cast<size_t>(expert - first) * 2 + half) * half_bytes;
        void* read_to = in_turn ? static_cast<void*>(buffer.data()) : place;
        LORICA_RETURN_IF_ERROR(source_->Read(joined.names[half], expert, 1, target, read_to));
        if (!in_turn) continue;
        const char* from = reinterpret_cast<const char*>(buffer.data());
        char* of_expert = to + static_cast<size_t>(expert - first) * 2 * half_bytes;
        for (size_t row = 0; row < static_cast<size_t>(joined.rows); ++row) {
          std::memcpy(of_expert + (2 * row + half) * row_bytes, from + row * row_bytes, row_bytes);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadLatent(const Joined& joined, int64_t first, int64_t count, DType target,
                          char* to) const {
    const int64_t keys = joined.keys, rank = joined.rank, of_head = keys + joined.values;
    const size_t size = SizeOf(target), row_bytes = static_cast<size_t>(rank) * size;
    std::vector<double> buffer = Buffer(std::max(keys, joined.values) * rank, size);
    const char* from = reinterpret_cast<const char*>(buffer.data());
    const int64_t end = first + count;
    for (int64_t head = first / of_head; head * of_head < end; ++head) {
      const int64_t begin = head * of_head;
      // Rows of this half of the head that are asked for, counted within it.
      const auto wanted = [&](int64_t offset, int64_t rows) {
        return std::pair(std::clamp<int64_t>(first - begin - offset, 0, rows),
                         std::clamp<int64_t>(end - begin - offset, 0, rows));
      };
      if (const auto [low, high] = wanted(0, keys); low < high) {
        LORICA_RETURN_IF_ERROR(source_->Read(joined.names[0], head, 1, target, buffer.data()));
        for (int64_t row = low; row < high; ++row) {
          char* place = to + static_cast<size_t>(begin + row - first) * row_bytes;
          for (int64_t i = 0; i < rank; ++i) {
            std::memcpy(place + static_cast<size_t>(i) * size,
                        from + static_cast<size_t>(i * keys + row) * size, size);
          }
        }
      }
      if (const auto [low, high] = wanted(keys, joined.values); low < high) {
        LORICA_RETURN_IF_ERROR(source_->Read(joined.names[1], head, 1, target, buffer.data()));
        std::memcpy(to + static_cast<size_t>(begin + keys + low - first) * row_bytes,
                    from + static_cast<size_t>(low) * row_bytes,
                    static_cast<size_t>(high - low) * row_bytes);
      }
    }
    return absl::OkStatus();
  }

  std::shared_ptr<const TensorSource> source_;
  ModelConfig config_;
  std::map<std::string, Joined> joined_;  // by our name
  std::vector<std::string> names_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const TensorSource>> JoinGgufHalves(
    std::shared_ptr<const TensorSource> source, const ModelConfig& config) {
  if (config.moe.experts == 0 && config.latent.kv_lora_rank == 0) return source;
  auto joined = std::make_shared<JoinedSource>(std::move(source), config);
  LORICA_RETURN_IF_ERROR(joined->Build());
  return joined;
}

}  // namespace lorica::internal

namespace lorica {

std::vector<GgufHalf> HalvesInGguf(absl::string_view path, const Tensor& values,
                                   const ModelConfig& config) {
  const std::string name = PlaceInGguf(path, config).name;
  absl::string_view block = name;
  if (absl::ConsumeSuffix(&block, "attn_kv_b.weight")) {
    const LatentSizes& latent = config.latent;
    const int64_t keys = latent.qk_nope_head_dim, of_values = latent.v_head_dim;
    const Tensor heads = values.WithShape({config.heads, keys + of_values, values.dim(1)});
    return {{absl::StrCat(block, "attn_k_b.weight"), heads.Narrow(1, 0, keys).Transpose(1, 2)},
            {absl::StrCat(block, "attn_v_b.weight"), heads.Narrow(1, keys, of_values)}};
  }
  const size_t at = name.find("ffn_gate_up_exps");
  if (at == std::string::npos) return {};
  block = absl::string_view(name).substr(0, at);
  const absl::string_view parameter = absl::string_view(name).substr(name.rfind('.'));
  const bool in_turn = config.moe.activation.interleaved;
  const int64_t width = values.dim(1) / 2;
  const auto half = [&](int64_t number) {
    Shape shape = values.shape();
    shape[1] = width;
    Shape strides = values.strides();
    const int64_t begin = (in_turn ? number : number * width) * strides[1];
    if (in_turn) strides[1] *= 2;
    return Tensor(values.storage(), shape, strides, values.offset() + begin, values.dtype());
  };
  return {{absl::StrCat(block, "ffn_gate_exps", parameter), half(0)},
          {absl::StrCat(block, "ffn_up_exps", parameter), half(1)}};
}

}  // namespace lorica
