// The choice of sparse attention against its definition.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_fixture.h"
#include "simd_targets.h"

namespace lorica::test {
namespace {

struct ChooseCase {
  std::vector<AttentionSpan> spans;
  int64_t heads, size, top_k;

  int64_t q_rows() const { return spans.back().q_begin + spans.back().q_length; }
  int64_t k_rows() const { return spans.back().k_begin + spans.back().k_length; }
  int64_t words() const {
    int64_t longest = 0;
    for (const AttentionSpan& span : spans) longest = std::max(longest, span.k_length);
    return (longest + 63) / 64;
  }
};

std::vector<ChooseCase> ChooseCases() {
  return {
      {{{0, 1, 0, 1}}, 1, 4, 1},
      {{{0, 150, 0, 150}}, 5, 7, 9},
      {{{0, 40, 0, 40}, {40, 200, 40, 200}, {240, 3, 240, 3}}, 32, 16, 64},
      {{{0, 1, 0, 300}, {1, 5, 300, 129}}, 6, 20, 33},
      {{{0, 70, 0, 70}}, 400, 3, 11},
  };
}

struct ChooseInputs {
  ChooseInputs(const ChooseCase& test, DType dtype)
      : q(HostTensor::Random({test.q_rows(), test.heads, test.size}, dtype, 5)),
        k(HostTensor::Random({test.k_rows(), 1, test.size}, dtype, 6)),
        weights(HostTensor::Random({test.q_rows(), test.heads}, dtype, 7, -1, 1)) {}
  HostTensor q, k, weights;
};

std::vector<int64_t> Choose(Backend& backend, const ChooseCase& test, const ChooseInputs& in) {
  std::vector<int64_t> chosen(static_cast<size_t>(test.q_rows() * test.words()), 0x5A5A);
  const Shape shape = {test.q_rows(), test.words()};
  backend.ChooseKeys({test.spans,
                      test.top_k,
                      in.q.view(),
                      in.k.view(),
                      in.weights.view(),
                      {chosen.data(), shape, ContiguousStrides(shape), DType::kI64}});
  return chosen;
}

bool Holds(const std::vector<int64_t>& chosen, const ChooseCase& test, int64_t query, int64_t key) {
  const auto word =
      static_cast<uint64_t>(chosen[static_cast<size_t>(query * test.words() + key / 64)]);
  return (word >> (key % 64) & 1) != 0;
}

double Score(const ChooseInputs& in, const ChooseCase& test, int64_t query, int64_t key) {
  double score = 0;
  for (int64_t h = 0; h < test.heads; ++h) {
    double dot = 0;
    for (int64_t i = 0; i < test.size; ++i) {
      dot += in.q.At((query * test.heads + h) * test.size + i) * in.k.At(key * test.size + i);
    }
    score += in.weights.At(query * test.heads + h) * std::max(dot, 0.0);
  }
  return score;
}

// As many keys as there shall be, none after the query, and none left out that is clearly better
// than one that was taken.
void ExpectGreatest(const std::vector<int64_t>& chosen, const ChooseCase& test,
                    const ChooseInputs& in, double tolerance) {
  for (const AttentionSpan& span : test.spans) {
    for (int64_t i = 0; i < span.q_length; ++i) {
      const int64_t query = span.q_begin + i, seen = span.k_length - span.q_length + i + 1;
      double least_taken = std::numeric_limits<double>::infinity(), best_left = -least_taken;
      int64_t count = 0;
      for (int64_t key = 0; key < test.words() * 64; ++key) {
        const bool taken = Holds(chosen, test, query, key);
        count += taken;
        if (key >= seen) {
          ASSERT_FALSE(taken) << "query " << query << " key " << key;
          continue;
        }
        const double score = Score(in, test, query, span.k_begin + key);
        if (taken) {
          least_taken = std::min(least_taken, score);
        } else {
          best_left = std::max(best_left, score);
        }
      }
      EXPECT_EQ(count, std::min(seen, test.top_k)) << "query " << query;
      EXPECT_LE(best_left, least_taken + tolerance) << "query " << query;
    }
  }
}

TEST(ChooseKeysTest, TakesTheGreatestOfWhatAQuerySees) {
  for (const ChooseCase& test : ChooseCases()) {
    for (DType dtype : ComputeTypes()) {
      const ChooseInputs in(test, dtype);
      std::vector<int64_t> first;
      for (int threads : {1, 2, 3}) {
        Machine machine(threads);
        const std::vector<int64_t> chosen = Choose(*machine.backend, test, in);
        if (threads == 1) first = chosen;
        EXPECT_EQ(chosen, first) << threads << " threads";
      }
      // Chains of D and of H terms, of values up to 4 D.
      const double terms = static_cast<double>(test.heads * test.size);
      const double tolerance = 8 * terms * Epsilon(AccumulatorOf(dtype)) * 4;
      ExpectGreatest(first, test, in, tolerance);
    }
  }
}

TEST(ChooseKeysTest, InstructionSetsAgree) {
  const ChooseCase test = ChooseCases()[2];
  const ChooseInputs in(test, DType::kF64);
  Machine best(1);
  const std::vector<int64_t> want = Choose(*best.backend, test, in);
  ForEachTarget([&] {
    Machine machine(1);
    EXPECT_EQ(Choose(*machine.backend, test, in), want) << CpuTargetName();
  });
}

TEST(ChooseKeysTest, ASequenceChoosesAsIfAlone) {
  const ChooseCase both{{{0, 130, 0, 130}, {130, 90, 130, 90}}, 5, 8, 20};
  const ChooseInputs in(both, DType::kF32);
  Machine machine(2);
  const std::vector<int64_t> packed = Choose(*machine.backend, both, in);
  for (const AttentionSpan& span : both.spans) {
    ChooseCase one = both;
    one.spans = {span};
    ChooseInputs own(one, DType::kF32);
    own.q = in.q;
    own.k = in.k;
    own.weights = in.weights;
    const std::vector<int64_t> alone = Choose(*machine.backend, one, own);
    for (int64_t query = span.q_begin; query < span.q_begin + span.q_length; ++query) {
      for (int64_t key = 0; key < span.k_length; ++key) {
        ASSERT_EQ(Holds(packed, both, query, key), Holds(alone, one, query, key))
            << query << " " << key;
      }
    }
  }
}

TEST(ChooseKeysTest, EqualScoresGoToTheLowestPositions) {
  const ChooseCase test{{{0, 200, 0, 200}}, 3, 5, 70};
  ChooseInputs in(test, DType::kF32);
  for (int64_t i = 0; i < in.weights.numel(); ++i) in.weights.Set(i, i % 2 == 0 ? 0.0 : -0.0);
  Machine machine(1);
  const std::vector<int64_t> chosen = Choose(*machine.backend, test, in);
  for (int64_t query = 0; query < 200; ++query) {
    for (int64_t key = 0; key < 200; ++key) {
      ASSERT_EQ(Holds(chosen, test, query, key), key <= query && key < 70) << query << " " << key;
    }
  }
}

TEST(ChooseKeysTest, NanCountsAsTheGreatest) {
  for (DType dtype : ComputeTypes()) {
    const ChooseCase test{{{0, 90, 0, 90}}, 3, 5, 4};
    ChooseInputs in(test, dtype);
    in.k.Set(40 * 5 + 2, std::numeric_limits<double>::quiet_NaN());
    Machine machine(1);
    const std::vector<int64_t> chosen = Choose(*machine.backend, test, in);
    for (int64_t query = 40; query < 90; ++query) {
      int64_t count = 0;
      for (int64_t key = 0; key <= query; ++key) count += Holds(chosen, test, query, key);
      EXPECT_EQ(count, 4);
      EXPECT_TRUE(Holds(chosen, test, query, 40)) << query;
    }
  }
}

}  // namespace
}  // namespace lorica::test
