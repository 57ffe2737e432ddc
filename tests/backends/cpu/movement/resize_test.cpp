#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"

namespace tessera::test::resize_test {
namespace {

struct ResizeCase {
  Shape input;
  std::vector<float> scales;
  std::vector<std::int64_t> sizes;
};
const ResizeCase kCases[] = {
    {{1, 3, 7, 9}, {1, 1, 2, 2}, {}},
    {{2, 3, 7, 9}, {1, 1, 0.6f, 1.7f}, {}},
    {{1, 2, 8, 8}, {}, {1, 2, 3, 5}},
    {{5, 70}, {1, 2}, {}},
    {{5, 70}, {3, 1}, {}},
    {{1, 4, 60, 70}, {}, {1, 4, 120, 140}},
    {{1, 1, 1, 1}, {}, {1, 1, 4, 3}},
    {{3, 4}, {}, {3, 4}},
    // The last axis stays.
    {{1, 7, 9, 5}, {1, 2, 2, 1}, {}},
    {{2, 7, 9, 17}, {1, 0.6f, 1.7f, 1}, {}},
    {{1, 8, 8, 1}, {}, {1, 3, 5, 1}},
    {{4, 6, 3}, {}, {9, 6, 3}},
};

TEST(CpuResize, MatchesReference) {
  for (const ResizeCase& one : kCases) {
    OpCall call{"Resize", {random_tensor(DType::f32, one.input, 1), Value()}};
    if (!one.scales.empty()) {
      call.inputs.push_back(Tensor::from<float>({static_cast<std::int64_t>(one.scales.size())}, one.scales));
    } else {
      call.inputs.push_back(Value());
      call.inputs.push_back(Tensor::from<std::int64_t>({static_cast<std::int64_t>(one.sizes.size())}, one.sizes));
    }
    for (const std::string mode :
         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
      call.attributes = {{"coordinate_transformation_mode", mode}, {"mode", std::string("linear")}};
      expect_matches_reference(call, Tolerance::epsilons(DType::f32, 8));
      for (const std::string nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
        call.attributes = {{"coordinate_transformation_mode", mode}, {"nearest_mode", nearest}};
        expect_matches_reference(call);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test::resize_test
