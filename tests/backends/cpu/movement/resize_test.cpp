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
    // Channels that move as one element.
    {{1, 5, 6, 4}, {1, 2, 2, 1}, {}},
    {{1, 9, 6, 2}, {}, {1, 4, 13, 2}},
};

OpCall call_of(const ResizeCase& one, Tensor x) {
  OpCall call{"Resize", {std::move(x), Value()}};
  if (!one.scales.empty()) {
    call.inputs.push_back(Tensor::from<float>({static_cast<std::int64_t>(one.scales.size())}, one.scales));
  } else {
    call.inputs.push_back(Value());
    call.inputs.push_back(Tensor::from<std::int64_t>({static_cast<std::int64_t>(one.sizes.size())}, one.sizes));
  }
  return call;
}

const std::string kCoordinates[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                    "asymmetric"};

TEST(CpuResize, MatchesReference) {
  for (const ResizeCase& one : kCases) {
    OpCall call = call_of(one, random_tensor(DType::f32, one.input, 1));
    for (const std::string& mode : kCoordinates) {
      call.attributes = {{"coordinate_transformation_mode", mode}, {"mode", std::string("linear")}};
      expect_matches_reference(call, Tolerance::epsilons(DType::f32, 8));
      for (const std::string nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
        call.attributes = {{"coordinate_transformation_mode", mode}, {"nearest_mode", nearest}};
        expect_matches_reference(call);
      }
    }
  }
}

// Every byte is as the reference rounds it.
TEST(CpuResize, BytesMatchReference) {
  for (const ResizeCase& one : kCases) {
    for (const DType type : {DType::u8, DType::i8}) {
      const double low = type == DType::u8 ? 0 : -128;
      OpCall call = call_of(one, random_tensor(type, one.input, 2, low, low + 255));
      for (const std::string& mode : kCoordinates) {
        call.attributes = {{"coordinate_transformation_mode", mode}, {"mode", std::string("linear")}};
        expect_matches_reference(call);
        call.attributes = {{"coordinate_transformation_mode", mode}};
        expect_matches_reference(call);
      }
    }
  }
}

TEST(CpuResize, PicksElementsOfAnyWidth) {
  for (const ResizeCase& one : kCases) {
    for (const DType type : {DType::boolean, DType::f16, DType::bf16, DType::i32, DType::i64, DType::f64}) {
      OpCall call = call_of(one, random_tensor(type, one.input, 3));
      call.attributes = {{"coordinate_transformation_mode", std::string("asymmetric")},
                         {"nearest_mode", std::string("floor")}};
      expect_matches_reference(call);
    }
  }
}

}  // namespace
}  // namespace tessera::test::resize_test
