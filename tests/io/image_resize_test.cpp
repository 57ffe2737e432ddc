#include "io/image_resize.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace tessera::io::image_resize_test {
namespace {

std::vector<float> resized(const Tensor& image, std::int64_t height, std::int64_t width, ImageWindow window) {
  std::vector<float> values(static_cast<std::size_t>(height * width * image.shape()[2]), -1.0f);
  resize_image(image, window, height, width, values.data());
  return values;
}

ImageWindow whole(const Tensor& image) {
  return {0, 0, static_cast<double>(image.shape()[0]), static_cast<double>(image.shape()[1])};
}

TEST(ImageResize, LeavesAnImageOfTheSameSizeAsItIs) {
  const Tensor image = Tensor::from<std::uint8_t>({2, 2, 1}, {1, 2, 3, 4});
  EXPECT_EQ(resized(image, 2, 2, whole(image)), (std::vector<float>{1, 2, 3, 4}));
}

TEST(ImageResize, AveragesWhereTheImageShrinks) {
  // Weights 3, 3, 1 of 7 at the ends, as in Pillow.
  const Tensor row = Tensor::from<std::uint8_t>({1, 4, 1}, {0, 70, 140, 210});
  const std::vector<float> half = resized(row, 1, 2, whole(row));
  EXPECT_NEAR(half[0], 50, 1e-4);
  EXPECT_NEAR(half[1], 160, 1e-4);
  const Tensor column = Tensor::from<std::uint8_t>({4, 1, 1}, {0, 70, 140, 210});
  EXPECT_EQ(resized(column, 2, 1, whole(column)), half);
}

TEST(ImageResize, InterpolatesWhereItGrows) {
  const Tensor image = Tensor::from<std::uint8_t>({1, 2, 3}, {0, 10, 20, 100, 110, 120});
  const std::vector<float> found = resized(image, 1, 4, whole(image));
  const std::vector<float> expected{0, 10, 20, 25, 35, 45, 75, 85, 95, 100, 110, 120};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
}

TEST(ImageResize, TakesAWindow) {
  const Tensor image = Tensor::from<std::uint8_t>({1, 6, 1}, {0, 0, 40, 80, 0, 0});
  EXPECT_EQ(resized(image, 1, 2, {0, 2, 1, 2}), (std::vector<float>{40, 80}));
}

TEST(ImageResize, TakesSidesOfAnyLength) {
  for (const auto& [rows, columns] : {std::pair{3000, 5}, std::pair{5, 3000}, std::pair{1, 1}, std::pair{1, 9000}}) {
    Tensor image(DType::u8, {rows, columns, 3});
    std::fill_n(image.mutable_data<std::uint8_t>(), image.elements(), std::uint8_t{77});
    for (const float value : resized(image, 48, 64, whole(image))) EXPECT_NEAR(value, 77, 1e-3);
  }
}

TEST(ImageResize, Stops) {
  const Tensor image(DType::u8, {9, 9, 1});
  std::vector<float> values(4);
  const auto stop = [] { throw std::runtime_error("stopped"); };
  EXPECT_THROW(resize_image(image, whole(image), 2, 2, values.data(), stop), std::runtime_error);
}

}  // namespace
}  // namespace tessera::io::image_resize_test
