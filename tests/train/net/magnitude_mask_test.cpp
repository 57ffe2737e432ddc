#include "train/net/magnitude_mask.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::train::magnitude_mask_test {
namespace {

std::vector<bool> kept(const Tensor& mask) {
  const auto values = mask.values<bool>();
  return {values.begin(), values.end()};
}

TEST(MagnitudeMask, TakesTheSmallestAndTheirExactNumber) {
  const Tensor weights = Tensor::from<float>({2, 3}, {0.5f, -0.1f, 3, 0.1f, -2, 0});
  EXPECT_EQ(kept(magnitude_mask(weights, 0)), std::vector<bool>(6, true));
  EXPECT_EQ(kept(magnitude_mask(weights, 0.5)), (std::vector<bool>{true, false, true, false, true, false}));
  // Of equal magnitudes the earlier stays.
  EXPECT_EQ(kept(magnitude_mask(weights, 1.0 / 3)), (std::vector<bool>{true, true, true, false, true, false}));
  const Tensor equal = Tensor::from<float>({4}, {1, 1, 1, 1});
  EXPECT_EQ(kept(magnitude_mask(equal, 0.5)), (std::vector<bool>{true, true, false, false}));
}

TEST(MagnitudeMask, ComparesLayersWhereItIsGlobal) {
  const std::vector<Tensor> weights{Tensor::from<float>({3}, {1, 2, 3}), Tensor::from<float>({3}, {0.1f, 0.2f, 5})};
  const std::vector<Tensor> masks = global_magnitude_masks(weights, 0.5);
  EXPECT_EQ(kept(masks[0]), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(kept(masks[1]), (std::vector<bool>{false, false, true}));
}

TEST(MagnitudeMask, KeepsTheLargestOfEachGroup) {
  const Tensor weights = test::random_tensor(DType::f32, {6, 8, 3}, 5, -1, 1);
  for (const std::int64_t axis : {0, 1}) {
    const KeptOfGroup structure = axis == 0 ? KeptOfGroup{1, 3} : KeptOfGroup{2, 4};
    const Tensor mask = group_mask(weights, structure, axis);
    const std::int64_t stride = axis == 0 ? 24 : 3, size = weights.shape()[static_cast<std::size_t>(axis)];
    for (std::int64_t i = 0; i < weights.elements(); ++i) {
      const std::int64_t at = i / stride % size;
      if (at % structure.group != 0) continue;
      std::vector<std::pair<float, bool>> group;
      for (std::int64_t k = 0; k < structure.group; ++k)
        group.emplace_back(std::abs(weights.data<float>()[i + k * stride]), mask.data<bool>()[i + k * stride]);
      std::ranges::sort(group);
      for (std::int64_t k = 0; k < structure.group; ++k)
        EXPECT_EQ(group[static_cast<std::size_t>(k)].second, k >= structure.group - structure.kept);
    }
  }
}

TEST(MagnitudeMask, ReadsStructures) {
  EXPECT_FALSE(parse_structure("none").has_value());
  EXPECT_EQ(parse_structure("2:4")->kept, 2);
  EXPECT_EQ(parse_structure("1:16")->group, 16);
  for (const char* wrong : {"", "4", "4:2", "0:4", "2:4x", "2:", ":4", "2:128", "-1:4"})
    test::expect_error(
        ErrorKind::invalid_argument,
        std::string("the structure is '") + wrong + "', expected 'none' or 'N:M' with 0 < N < M <= 64, such as '2:4'",
        [&] { parse_structure(wrong); });
  test::expect_error(ErrorKind::invalid_argument, "weights [3] cannot be divided into groups of 2 along axis 0",
                     [] { group_mask(Tensor::from<float>({3}, {1, 2, 3}), {1, 2}, 0); });
}

}  // namespace
}  // namespace tessera::train::magnitude_mask_test
