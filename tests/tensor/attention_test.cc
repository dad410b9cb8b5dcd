#include <cmath>
#include <limits>

#include "attention_fixture.h"
#include "kernel_fixture.h"
#include "simd_targets.h"

namespace lorica::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(AttentionTest, MatchesReference) {
  for (const AttentionCase& test : AttentionCases()) {
    SCOPED_TRACE(test.name);
    for (DType dtype : ComputeTypes()) {
      const AttentionInputs in(test, dtype);
      AttentionOutputs first;
      for (int threads : {1, 2, 3}) {
        Machine machine(threads);
        AttentionOutputs out = RunAttention(*machine.backend, test, in);
        if (threads == 1) first = out;
        EXPECT_TRUE(SameBits(out.o, first.o)) << threads << " threads";
        EXPECT_TRUE(SameBits(out.lse, first.lse)) << threads << " threads";
      }
      const AttentionReference want = ReferenceAttention(test, in, first.o);
      // Scores of a few units, their dot products in chains of D: an absolute error of a few units
      // of them is a relative one of the probabilities.
      ExpectClose(first.o, want.o, 24, 2, "o");
      ExpectClose(first.lse, want.lse, 16, 0, "lse");
    }
  }
}

TEST(AttentionTest, GradientMatchesReference) {
  for (const AttentionCase& test : AttentionCases()) {
    SCOPED_TRACE(test.name);
    for (DType dtype : ComputeTypes()) {
      const AttentionInputs in(test, dtype);
      Machine single(1);
      const AttentionOutputs out = RunAttention(*single.backend, test, in);
      AttentionGrads first;
      // Many threads and few heads take the path that splits rows and keys; the bits must be the
      // same.
      for (int threads : {1, 2, 3, 7}) {
        Machine machine(threads);
        AttentionGrads grads = RunAttentionGrad(*machine.backend, test, in, out);
        if (threads == 1) first = grads;
        EXPECT_TRUE(SameBits(grads.dq, first.dq)) << threads << " threads";
        EXPECT_TRUE(SameBits(grads.dk, first.dk)) << threads << " threads";
        EXPECT_TRUE(SameBits(grads.dv, first.dv)) << threads << " threads";
      }
      const AttentionReference want = ReferenceAttention(test, in, out.o);
      const double units = 64;
      ExpectClose(first.dq, want.dq, units, 8, "dq");
      ExpectClose(first.dk, want.dk, units, 8, "dk");
      ExpectClose(first.dv, want.dv, units, 8, "dv");
    }
  }
}

TEST(AttentionTest, GradientMatchesCentralDifferences) {
  AttentionCase test{"", {{0, 4, 0, 6}, {4, 3, 6, 3}}, 4, 2, 3, 5};
  test.window = 3;
  AttentionInputs in(test, DType::kF64);
  Machine machine(1);
  const AttentionOutputs out = RunAttention(*machine.backend, test, in);
  const AttentionGrads grads = RunAttentionGrad(*machine.backend, test, in, out);
  const auto loss = [&] {
    const AttentionOutputs moved = RunAttention(*machine.backend, test, in);
    double sum = 0;
    for (int64_t i = 0; i < moved.o.numel(); ++i) sum += moved.o.At(i) * in.dy.At(i);
    return sum;
  };
  const auto check = [&](HostTensor& x, const HostTensor& dx, const char* name) {
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double at = x.At(i), h = 1e-5;
      x.Set(i, at + h);
      const double up = loss();
      x.Set(i, at - h);
      const double down = loss();
      x.Set(i, at);
      EXPECT_NEAR(dx.At(i), (up - down) / (2 * h), 1e-8) << name << " " << i;
    }
  };
  check(in.q, grads.dq, "dq");
  check(in.k, grads.dk, "dk");
  check(in.v, grads.dv, "dv");
}

TEST(AttentionTest, SequencesOfOneCallDoNotTouchEachOther) {
  for (DType dtype : ComputeTypes()) {
    AttentionCase both{"", {{0, 70, 0, 70}, {70, 101, 70, 101}}, 6, 2, 24, 24};
    const AttentionInputs in(both, dtype);
    Machine machine(2);
    const AttentionOutputs packed = RunAttention(*machine.backend, both, in);
    const AttentionGrads packed_grads = RunAttentionGrad(*machine.backend, both, in, packed);
    AttentionOutputs apart(both, dtype);
    AttentionGrads apart_grads(both, dtype);
    for (const AttentionSpan& span : both.spans) {
      AttentionCase one = both;
      one.spans = {span};
      RunAttention(*machine.backend, one, in, apart);
      RunAttentionGrad(*machine.backend, one, in, apart, apart_grads);
    }
    EXPECT_TRUE(SameBits(packed.o, apart.o)) << dtype;
    EXPECT_TRUE(SameBits(packed.lse, apart.lse)) << dtype;
    EXPECT_TRUE(SameBits(packed_grads.dq, apart_grads.dq)) << dtype;
    EXPECT_TRUE(SameBits(packed_grads.dk, apart_grads.dk)) << dtype;
    EXPECT_TRUE(SameBits(packed_grads.dv, apart_grads.dv)) << dtype;
  }
}

TEST(AttentionTest, DecodingGivesTheBitsOfThePrefill) {
  for (DType dtype : ComputeTypes()) {
    for (int64_t window : {0, 40}) {
      AttentionCase all{"", {{0, 150, 0, 150}}, 6, 2, 20, 20};
      all.window = window;
      const AttentionInputs in(all, dtype);
      Machine machine(2);
      const AttentionOutputs prefill = RunAttention(*machine.backend, all, in);
      AttentionOutputs decoded(all, dtype);
      for (int64_t t = 0; t < 150;) {
        const int64_t count = std::min<int64_t>(t % 3 + 1, 150 - t);
        AttentionCase step = all;
        step.spans = {{t, count, 0, t + count}};
        RunAttention(*machine.backend, step, in, decoded);
        t += count;
      }
      EXPECT_TRUE(SameBits(prefill.o, decoded.o)) << dtype << " window " << window;
      EXPECT_TRUE(SameBits(prefill.lse, decoded.lse)) << dtype << " window " << window;
    }
  }
}

TEST(AttentionTest, KeysThatARowDoesNotSeeDoNotMatter) {
  for (DType dtype : ComputeTypes()) {
    for (int64_t window : {0, 10}) {
      AttentionCase test{"", {{0, 90, 0, 90}}, 3, 1, 16, 16};
      test.window = window;
      const AttentionInputs in(test, dtype);
      AttentionInputs poisoned = in;
      for (int64_t i = 0; i < 16; ++i) {
        poisoned.k.Set(50 * 16 + i, kNan);
        poisoned.v.Set(50 * 16 + i, kNan);
      }
      Machine machine(1);
      const AttentionOutputs clean = RunAttention(*machine.backend, test, in);
      const AttentionOutputs dirty = RunAttention(*machine.backend, test, poisoned);
      for (int64_t t = 0; t < 90; ++t) {
        const bool sees = t >= 50 && (window == 0 || t - 50 < window);
        for (int64_t i = 0; i < 3 * 16; ++i) {
          const double got = dirty.o.At(t * 48 + i);
          if (sees) {
            EXPECT_TRUE(std::isnan(got)) << dtype << " " << t;
          } else {
            EXPECT_EQ(got, clean.o.At(t * 48 + i)) << dtype << " " << t;
          }
        }
        EXPECT_EQ(std::isnan(dirty.lse.At(t * 3)), sees);
      }
    }
  }
}

// A choice that leaves everything is no choice: not a bit differs.
TEST(AttentionTest, AllKeysChosenGiveTheBitsOfDenseAttention) {
  for (DType dtype : ComputeTypes()) {
    const AttentionCase test{"", {{0, 130, 0, 130}, {130, 2, 130, 70}}, 4, 2, 20, 12};
    const AttentionInputs dense(test, dtype);
    AttentionInputs all = dense;
    all.words = 3;
    all.chosen.assign(static_cast<size_t>(test.q_rows() * all.words), -1);
    Machine machine(2);
    const AttentionOutputs want = RunAttention(*machine.backend, test, dense);
    const AttentionOutputs got = RunAttention(*machine.backend, test, all);
    EXPECT_TRUE(SameBits(got.o, want.o)) << dtype;
    EXPECT_TRUE(SameBits(got.lse, want.lse)) << dtype;
    const AttentionGrads want_grads = RunAttentionGrad(*machine.backend, test, dense, want);
    const AttentionGrads got_grads = RunAttentionGrad(*machine.backend, test, all, got);
    EXPECT_TRUE(SameBits(got_grads.dq, want_grads.dq)) << dtype;
    EXPECT_TRUE(SameBits(got_grads.dk, want_grads.dk)) << dtype;
    EXPECT_TRUE(SameBits(got_grads.dv, want_grads.dv)) << dtype;
  }
}

TEST(AttentionTest, NanReachesOutputAndGradient) {
  for (DType dtype : ComputeTypes()) {
    AttentionCase test{"", {{0, 20, 0, 20}}, 2, 1, 8, 8};
    AttentionInputs in(test, dtype);
    in.q.Set(5 * 16 + 3, kNan);  // token 5, head 0
    Machine machine(1);
    const AttentionOutputs out = RunAttention(*machine.backend, test, in);
    const AttentionGrads grads = RunAttentionGrad(*machine.backend, test, in, out);
    EXPECT_TRUE(std::isnan(out.o.At(5 * 16)));
    EXPECT_FALSE(std::isnan(out.o.At(5 * 16 + 8)));
    EXPECT_TRUE(std::isnan(grads.dq.At(5 * 16)));
    EXPECT_TRUE(std::isnan(grads.dk.At(0)));
    EXPECT_TRUE(std::isnan(grads.dv.At(0)));
  }
}

TEST(AttentionTest, StridedHeadsOfOneProjection) {
  // q, k and v are columns of one matrix.
  const int64_t tokens = 30, heads = 4, groups = 2, size = 12;
  const int64_t width = (heads + 2 * groups) * size;
  for (DType dtype : ComputeTypes()) {
    AttentionCase test{"", {{0, tokens, 0, tokens}}, heads, groups, size, size};
    const AttentionInputs in(test, dtype);
    HostTensor wide({tokens, width}, dtype);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t i = 0; i < heads * size; ++i) {
        wide.Set(t * width + i, in.q.At(t * heads * size + i));
      }
      for (int64_t i = 0; i < groups * size; ++i) {
        wide.Set(t * width + heads * size + i, in.k.At(t * groups * size + i));
        wide.Set(t * width + (heads + groups) * size + i, in.v.At(t * groups * size + i));
      }
    }
    Machine machine(2);
    const AttentionOutputs want = RunAttention(*machine.backend, test, in);
    AttentionOutputs got(test, dtype);
    machine->Attention(
        {test.spans,
         test.scale,
         true,
         0,
         0,
         wide.Strided({tokens, heads, size}, {width, size, 1}),
         wide.Strided({tokens, groups, size}, {width, size, 1}, heads * size),
         wide.Strided({tokens, groups, size}, {width, size, 1}, (heads + groups) * size),
         got.o.mutable_view(),
         {}});
    EXPECT_TRUE(SameBits(got.o, want.o)) << dtype;
  }
}

TEST(AttentionTest, NoSpansAndNoTokens) {
  AttentionCase test{"", {}, 4, 2, 8, 8};
  const AttentionInputs in(test, DType::kF32);
  Machine machine(2);
  const AttentionOutputs out = RunAttention(*machine.backend, test, in);
  RunAttentionGrad(*machine.backend, test, in, out);
  test.spans = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  const AttentionOutputs again = RunAttention(*machine.backend, test, in);
  RunAttentionGrad(*machine.backend, test, in, again);
}

TEST(AttentionTest, InstructionSetsAgree) {
  const AttentionCase test{"", {{0, 100, 0, 100}}, 6, 2, 36, 36};
  const AttentionInputs in(test, DType::kF32);
  Machine best_machine(1);
  const AttentionReference want =
      ReferenceAttention(test, in, RunAttention(*best_machine.backend, test, in).o);
  ForEachTarget([&] {
    Machine machine(1);
    const AttentionOutputs out = RunAttention(*machine.backend, test, in);
    const AttentionGrads grads = RunAttentionGrad(*machine.backend, test, in, out);
    ExpectClose(out.o, want.o, 24, 2, CpuTargetName());
    ExpectClose(grads.dq, want.dq, 64, 8, CpuTargetName());
    ExpectClose(grads.dk, want.dk, 64, 8, CpuTargetName());
    ExpectClose(grads.dv, want.dv, 64, 8, CpuTargetName());
  });
}

}  // namespace
}  // namespace lorica::test
