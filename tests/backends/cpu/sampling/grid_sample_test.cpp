#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::grid_sample_test {
namespace {

Tensor random_floats(const Shape& shape, std::uint64_t seed, double reach = 2) {
  return random_tensor(DType::f32, shape, seed, -reach, reach);
}

ir::Attributes attributes(const char* mode, const char* padding, std::int64_t align_corners) {
  return {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}, {"align_corners", align_corners}};
}

// Places within the image, beyond its edges, on pixels and between them.
TEST(CpuGridSample, MatchesReferenceInEveryMode) {
  const Tensor x = random_floats({2, 3, 5, 7}, 1), grid = random_floats({2, 9, 31, 2}, 2, 1.8);
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const std::int64_t align_corners : {0, 1}) {
        SCOPED_TRACE(std::string(mode) + " " + padding + (align_corners == 1 ? " align_corners" : ""));
        const ir::Attributes how = attributes(mode, padding, align_corners);
        expect_matches_reference({"GridSample", {x, grid}, how}, Tolerance::epsilons(DType::f32, 64));
        expect_matches_reference({"tessera::GridSampleGradient", {x, grid, random_floats({2, 3, 9, 31}, 3)}, how, 2},
                                 Tolerance::epsilons(DType::f32, 512));
      }
    }
  }
}

TEST(CpuGridSample, MatchesReferenceOnManyChannelsAndSmallImages) {
  expect_matches_reference({"GridSample", {random_floats({1, 19, 1, 1}, 1), random_floats({1, 1, 1, 2}, 2)}},
                           Tolerance::epsilons(DType::f32, 16));
  const Tensor x = random_floats({1, 21, 4, 3}, 1), grid = random_floats({1, 17, 16, 2}, 2, 1);
  expect_matches_reference({"GridSample", {x, grid}}, Tolerance::epsilons(DType::f32, 32));
  expect_matches_reference({"tessera::GridSampleGradient", {x, grid, random_floats({1, 21, 17, 16}, 3)}, {}, 2},
                           Tolerance::epsilons(DType::f32, 1024));
}

// Places that are no numbers read zeros; a pixel that is infinite spoils only what it takes part in.
TEST(CpuGridSample, MatchesReferenceOnEdgeValues) {
  const Tensor grid = Tensor::from<float>({1, 1, 6, 2}, {NAN, 0, INFINITY, 0, 1e30f, -1e30f, 0.2f, 0.3f, -1, -1, 1, 1});
  Tensor x = random_floats({1, 2, 6, 6}, 1);
  x.mutable_data<float>()[0] = INFINITY;
  for (const char* mode : {"nearest", "linear"})
    expect_matches_reference({"GridSample", {x, grid}, attributes(mode, "zeros", 1)},
                             Tolerance::epsilons(DType::f32, 16));
}

}  // namespace
}  // namespace tessera::test::grid_sample_test
