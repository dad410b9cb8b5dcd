#include <cmath>

#include "kernel_fixture.h"
#include "simd_targets.h"

namespace lorica::test {
namespace {

struct State {
  HostTensor param, moment1, moment2;
};

State Start(int64_t n, DType dtype) {
  const std::vector<double> zeros(static_cast<size_t>(n), 0.0);
  return {HostTensor::Random({n}, dtype, 1), HostTensor({n}, dtype, zeros),
          HostTensor({n}, dtype, zeros)};
}

constexpr double kScale = 0.37, kLr = 0.01, kBeta1 = 0.9, kBeta2 = 0.98, kEps = 1e-6, kDecay = 0.1;

void Step(Backend& backend, State& state, const HostTensor& grad, int64_t step) {
  backend.AdamWStep({state.param.mutable_view(), state.moment1.mutable_view(),
                     state.moment2.mutable_view(), grad.view(), kScale, kLr, kBeta1, kBeta2, kEps,
                     kDecay, step});
}

TEST(AdamWTest, MatchesTheFormulasOverSteps) {
  for (DType dtype : {DType::kF32, DType::kF64}) {
    for (int64_t n : {1, 19, 40000}) {
      State first;
      for (int threads : {1, 2, 3}) {
        Machine machine(threads);
        State state = Start(n, dtype);
        for (int64_t step = 1; step <= 4; ++step) {
          Step(*machine.backend, state, HostTensor::Random({n}, dtype, 10 + step), step);
        }
        if (threads == 1) first = state;
        EXPECT_TRUE(SameBits(state.param, first.param));
        EXPECT_TRUE(SameBits(state.moment1, first.moment1));
        EXPECT_TRUE(SameBits(state.moment2, first.moment2));
      }
      std::vector<double> param = Start(n, dtype).param.ToDoubles();
      std::vector<double> m(param.size()), v(param.size());
      for (int64_t step = 1; step <= 4; ++step) {
        const HostTensor grad = HostTensor::Random({n}, dtype, 10 + step);
        for (size_t i = 0; i < param.size(); ++i) {
          const double g = grad.At(static_cast<int64_t>(i)) * kScale;
          param[i] *= 1 - kLr * kDecay;
          m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
          v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
          const double m_hat = m[i] / (1 - std::pow(kBeta1, step));
          const double v_hat = v[i] / (1 - std::pow(kBeta2, step));
          param[i] -= kLr * m_hat / (std::sqrt(v_hat) + kEps);
        }
      }
      ExpectClose(first.param, param, 8, 2);
      ExpectClose(first.moment1, m, 8);
      ExpectClose(first.moment2, v, 8);
    }
  }
}

TEST(AdamWTest, ZeroGradientOnlyDecays) {
  Machine machine(1);
  State state = Start(5, DType::kF64);
  const HostTensor before = state.param;
  Step(*machine.backend, state, HostTensor({5}, DType::kF64, {0, 0, 0, 0, 0}), 1);
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(state.param.At(i), before.At(i) * (1 - kLr * kDecay));
}

TEST(AdamWTest, NoParametersAreFine) {
  Machine machine(2);
  State state = Start(0, DType::kF32);
  Step(*machine.backend, state, HostTensor({0}, DType::kF32), 1);
}

TEST(AdamWTest, InstructionSetsAgree) {
  const HostTensor grad = HostTensor::Random({133}, DType::kF32, 2);
  std::vector<double> first;
  ForEachTarget([&] {
    Machine machine(1);
    State state = Start(133, DType::kF32);
    Step(*machine.backend, state, grad, 1);
    if (first.empty()) first = state.param.ToDoubles();
    ExpectClose(state.param, first, 4, 0, CpuTargetName());
  });
}

}  // namespace
}  // namespace lorica::test
