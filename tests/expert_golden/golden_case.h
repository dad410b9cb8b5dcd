// What cases of experts and of routers share: a case's tensors, the comparison, the verdict.
#ifndef LORICA_TESTS_EXPERT_GOLDEN_GOLDEN_CASE_H_
#define LORICA_TESTS_EXPERT_GOLDEN_GOLDEN_CASE_H_

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "lorica/io/tensor_source.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/tensor.h"
#include "nlohmann/json.hpp"

namespace lorica::golden {

// A case that says something this program doesn't know, or a file that doesn't fit it.
class BadCase : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The largest error of a case relative to what is allowed; above 1 it has failed.
struct Verdict {
  double worst = 0;
  std::string where;
  std::vector<std::string> notes;

  // |got - want| <= relative |want| + absolute max(floor, max |want|), element by element. A NaN
  // counts as infinite.
  void Compare(const std::string& name, const std::vector<double>& got,
               const std::vector<double>& want, double relative, double absolute, double floor) {
    if (got.size() != want.size()) return Fail(name + " has another size");
    double largest = floor;
    for (double w : want) largest = std::max(largest, std::abs(w));
    for (size_t i = 0; i < got.size(); ++i) {
      const double bound = relative * std::abs(want[i]) + absolute * largest;
      const double error = std::abs(got[i] - want[i]);
      Count(name, error == 0 ? 0 : bound > 0 && error == error ? error / bound : INFINITY);
    }
  }
  void Exact(const std::string& name, const std::vector<double>& got,
             const std::vector<double>& want) {
    if (got.size() != want.size()) return Fail(name + " has another size");
    for (size_t i = 0; i < got.size(); ++i) Count(name, got[i] == want[i] ? 0 : INFINITY);
  }
  void Fail(const std::string& what) { Count(what, INFINITY); }
  bool passed() const { return worst <= 1; }

 private:
  void Count(const std::string& name, double ratio) {
    if (ratio <= worst) return;
    worst = ratio;
    where = name;
  }
};

// The tensors `<case>/<name>` of a file.
class CaseTensors {
 public:
  CaseTensors(Backend& backend, const TensorSource& source, std::string prefix)
      : backend_(backend), source_(source), prefix_(std::move(prefix)) {}

  bool Has(const std::string& name) const { return source_.Find(prefix_ + "/" + name) != nullptr; }

  // In `type`, of `shape`.
  Tensor Get(const std::string& name, const Shape& shape, DType type) const {
    const std::string full = prefix_ + "/" + name;
    const StoredTensorInfo* info = source_.Find(full);
    if (info == nullptr) throw BadCase("no tensor " + full);
    std::vector<int64_t> dims;
    for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
    if (info->shape != dims) throw BadCase(full + " has another shape than the case says");
    Tensor tensor = Tensor::Empty(backend_, shape, type);
    if (tensor.numel() > 0) {
      const absl::Status status = source_.ReadAll(full, type, tensor.mutable_view().data);
      if (!status.ok()) throw BadCase(std::string(status.message()));
    }
    return tensor;
  }
  std::vector<double> Doubles(const std::string& name, const Shape& shape) const {
    return Get(name, shape, DType::kF64).ToDoubles();
  }
  // Integers and booleans.
  std::vector<int64_t> Integers(const std::string& name, int64_t count) const {
    const std::string full = prefix_ + "/" + name;
    const StoredTensorInfo* info = source_.Find(full);
    if (info == nullptr) throw BadCase("no tensor " + full);
    const auto bytes = source_.Bytes(full);
    if (!bytes.ok()) throw BadCase(std::string(bytes.status().message()));
    std::vector<int64_t> values(static_cast<size_t>(count));
    const size_t width = count == 0 ? 0 : bytes->size() / static_cast<size_t>(count);
    if (bytes->size() != width * static_cast<size_t>(count) || (width != 8 && width > 1)) {
      throw BadCase(full + " has another size than the case says");
    }
    for (size_t i = 0; i < values.size(); ++i) {
      uint64_t value = 0;
      for (size_t b = 0; b < width; ++b) value |= uint64_t{(*bytes)[i * width + b]} << (8 * b);
      values[i] = static_cast<int64_t>(value);
    }
    return values;
  }
  // Every tensor of the case must have one of these names.
  void CheckNames(const std::set<std::string>& known) const {
    for (const std::string& name : source_.names()) {
      if (name.rfind(prefix_ + "/", 0) != 0) continue;
      if (known.count(name.substr(prefix_.size() + 1)) == 0)
        throw BadCase("unknown tensor " + name);
    }
  }

 private:
  Backend& backend_;
  const TensorSource& source_;
  std::string prefix_;
};

inline void CheckFields(const nlohmann::json& object, const std::set<std::string>& known) {
  for (const auto& item : object.items()) {
    if (known.count(item.key()) == 0) throw BadCase("unknown field \"" + item.key() + "\"");
  }
}

Verdict RunExpertCase(Backend& backend, const nlohmann::json& info, const TensorSource& source);
Verdict RunRouterCase(Backend& backend, const nlohmann::json& info, const TensorSource& source);

}  // namespace lorica::golden

#endif  // LORICA_TESTS_EXPERT_GOLDEN_GOLDEN_CASE_H_
