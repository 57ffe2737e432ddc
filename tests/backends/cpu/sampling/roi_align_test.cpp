#include <gtest/gtest.h>

#include <string>

#include "support/against_reference.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::test::roi_align_test {
namespace {

Tensor random_floats(const Shape& shape, std::uint64_t seed) {
  return random_tensor(DType::f32, shape, seed, -2, 2);
}

// Within the map, across its edges, outside of it, smaller than a pixel, without extent.
Tensor regions() {
  return Tensor::from<float>({5, 4},
                             {1, 1, 9.5f, 7, -3, -2, 4, 30, 40, 40, 50, 60, 3.2f, 3.3f, 3.4f, 3.5f, 6, 6, 6, 6});
}

TEST(CpuRoiAlign, MatchesReference) {
  const Tensor batch = Tensor::from<std::int64_t>({5}, {1, 0, 1, 1, 0});
  for (const char* mode : {"avg", "max"}) {
    for (const char* corners : {"half_pixel", "output_half_pixel"}) {
      for (const std::int64_t ratio : {0, 2}) {
        SCOPED_TRACE(std::string(mode) + " " + corners);
        const ir::Attributes how{
            {"mode", std::string(mode)},       {"coordinate_transformation_mode", std::string(corners)},
            {"sampling_ratio", ratio},         {"output_height", std::int64_t{3}},
            {"output_width", std::int64_t{2}}, {"spatial_scale", 0.75f}};
        const Tensor maps = random_floats({2, 11, 8, 9}, 1);
        expect_matches_reference({"RoiAlign", {maps, regions(), batch}, how}, Tolerance::epsilons(DType::f32, 64));
        expect_matches_reference(
            {"tessera::RoiAlignGradient", {maps, regions(), batch, random_floats({5, 11, 3, 2}, 2)}, how},
            Tolerance::epsilons(DType::f32, 128));
      }
    }
  }
}

TEST(CpuRoiAlign, RefusesAnImageThatIsNotThere) {
  const Tensor maps = random_floats({2, 3, 4, 4}, 1), roi = Tensor::from<float>({1, 4}, {0, 0, 2, 2}),
               batch = Tensor::from<std::int64_t>({1}, {2});
  expect_error(ErrorKind::failed, "batch index 2 is outside [0, 2)",
               [&] { run_op_by({"RoiAlign", {maps, roi, batch}}, "cpu_roi_align"); });
  expect_error(ErrorKind::failed, "batch index 2 is outside [0, 2)", [&] {
    run_op_by({"tessera::RoiAlignGradient", {maps, roi, batch, random_floats({1, 3, 1, 1}, 2)}},
              "cpu_roi_align_gradient");
  });
}

}  // namespace
}  // namespace tessera::test::roi_align_test
