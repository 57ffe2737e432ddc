#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::rotary_embedding_test {
namespace {

// Packed and apart, halves and neighbours, by position and by row, with sizes that fill vectors and that do not.
TEST(CpuRotaryEmbedding, MatchesReference) {
  for (const std::int64_t pairs : {1, 3, 8, 19, 32}) {
    for (const std::int64_t rest : {0, 5}) {
      for (const std::int64_t interleaved : {0, 1}) {
        const std::int64_t size = 2 * pairs + rest;
        const ir::Attributes turned{{"interleaved", interleaved}, {"rotary_embedding_dim", 2 * pairs}};
        ir::Attributes packed = turned;
        packed.insert({"num_heads", std::int64_t{3}});
        const Tensor cosines = random_tensor(DType::f32, {2, 4, pairs}, 1, -1, 1),
                     sines = random_tensor(DType::f32, {2, 4, pairs}, 2, -1, 1);
        expect_matches_reference(
            {"RotaryEmbedding", {random_tensor(DType::f32, {2, 4, 3 * size}, 3, -1, 1), cosines, sines}, packed},
            Tolerance{1e-6, 1e-6});
        const Tensor positions = random_tensor(DType::i64, {2, 4}, 4, 0, 6);
        expect_matches_reference(
            {"RotaryEmbedding",
             {random_tensor(DType::f32, {2, 3, 4, size}, 5, -1, 1), random_tensor(DType::f32, {7, pairs}, 6, -1, 1),
              random_tensor(DType::f32, {7, pairs}, 7, -1, 1), positions},
             turned},
            Tolerance{1e-6, 1e-6});
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test::rotary_embedding_test
