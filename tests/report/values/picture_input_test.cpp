// Pictures as inputs: size, order, scale. Expected values are those of Pillow's BILINEAR and of numpy.
#include "report/values/picture_input.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::report::picture_input_test {
namespace {

using test::expect_error;
using test::expect_error_containing;

ValueDescription input(DType dtype, std::vector<std::int64_t> dims) {
  ValueDescription description{
      "image", std::string(name_of(dtype)) + to_string(Shape(dims.begin(), dims.end())), dtype, true, dims, {}};
  description.dim_names.resize(dims.size());
  return description;
}

class PictureInputTest : public testing::Test {
 protected:
  // 3 columns and 2 rows: red, green, blue; black, grey, white.
  PictureInputTest() {
    std::ofstream(path, std::ios::binary)
        << "P3\n3 2\n255\n255 0 0  0 255 0  0 0 255\n0 0 0  128 128 128  255 255 255\n";
    // One row of grey levels 0, 60, 120, 180.
    std::ofstream(ramp, std::ios::binary) << "P2\n4 1\n255\n0 60 120 180\n";
  }
  static std::vector<float> floats(const Tensor& tensor) {
    return {tensor.values<float>().begin(), tensor.values<float>().end()};
  }

  const test::TemporaryFolder folder;
  const std::filesystem::path path = folder / "picture.ppm", ramp = folder / "ramp.pgm";
};

TEST_F(PictureInputTest, ChannelsStandWhereTheInputHasThem) {
  const PictureInput front = read_picture_input(path, input(DType::f32, {1, 3, 2, 3}));
  EXPECT_EQ(front.tensor.shape(), (Shape{1, 3, 2, 3}));
  const float grey = 128.0f / 255;
  EXPECT_EQ(floats(front.tensor), (std::vector<float>{1, 0, 0, 0, grey, 1, 0, 1, 0, 0, grey, 1, 0, 0, 1, 0, grey, 1}));
  EXPECT_EQ(front.description, "3 x 2, RGB as f32[1, 3, 2, 3], values 0 to 1");
  const PictureInput back = read_picture_input(path, input(DType::u8, {-1, -1, -1, 3}));
  EXPECT_EQ(back.tensor.shape(), (Shape{1, 2, 3, 3}));
  EXPECT_TRUE(identical(
      back.tensor.reshaped({18}),
      Tensor::from<std::uint8_t>({18}, {255, 0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 128, 128, 128, 255, 255, 255})));
  EXPECT_EQ(back.description, "3 x 2, RGB as u8[1, 2, 3, 3], values 0 to 255");
  EXPECT_EQ(read_picture_input(path, input(DType::f32, {4, -1, -1})).tensor.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(read_picture_input(path, input(DType::f16, {-1, -1, 1})).tensor.shape(), (Shape{2, 3, 1}));
}

TEST_F(PictureInputTest, IsStretchedToFixedSizes) {
  // Shrinking averages: with a triangle of twice the width, weights 3, 3, 1 of 7 at the ends.
  const PictureInput half = read_picture_input(ramp, input(DType::f32, {1, 1, 1, 2}), PictureScale::none);
  ASSERT_EQ(half.tensor.elements(), 2);
  EXPECT_NEAR(half.tensor.data<float>()[0], (3 * 0 + 3 * 60 + 120) / 7.0, 1e-4);
  EXPECT_NEAR(half.tensor.data<float>()[1], (60 + 3 * 120 + 3 * 180) / 7.0, 1e-4);
  EXPECT_EQ(half.description, "4 x 1, resized to 2 x 1, grey as f32[1, 1, 1, 2], values 0 to 255");
  // Growing interpolates between the centres of pixels, and repeats the ends.
  const PictureInput twice = read_picture_input(ramp, input(DType::f32, {1, 1, 1, 8}), PictureScale::none);
  EXPECT_EQ(floats(twice.tensor), (std::vector<float>{0, 15, 45, 75, 105, 135, 165, 180}));
  // Bytes are rounded, not cut.
  EXPECT_TRUE(identical(read_picture_input(ramp, input(DType::u8, {1, 1, 1, 2})).tensor,
                        Tensor::from<std::uint8_t>({1, 1, 1, 2}, {43, 137})));
}

TEST_F(PictureInputTest, KeepsItsProportionsWhereOneSideIsFixed) {
  EXPECT_EQ(read_picture_input(path, input(DType::f32, {-1, 3, 48, -1})).tensor.shape(), (Shape{1, 3, 48, 72}));
  EXPECT_EQ(read_picture_input(path, input(DType::f32, {-1, 3, -1, 6})).tensor.shape(), (Shape{1, 3, 4, 6}));
}

TEST_F(PictureInputTest, IsScaledAsAsked) {
  const ValueDescription three = input(DType::f32, {1, 3, 2, 3});
  EXPECT_EQ(read_picture_input(path, three, PictureScale::symmetric).tensor.data<float>()[0], 1);
  EXPECT_EQ(read_picture_input(path, three, PictureScale::symmetric).tensor.data<float>()[1], -1);
  const Tensor imagenet = read_picture_input(path, three, PictureScale::imagenet).tensor;
  EXPECT_FLOAT_EQ(imagenet.data<float>()[0], static_cast<float>((1 - 0.485) / 0.229));
  EXPECT_FLOAT_EQ(imagenet.data<float>()[6], static_cast<float>((0 - 0.456) / 0.224));
  EXPECT_FLOAT_EQ(imagenet.data<float>()[14], static_cast<float>((1 - 0.406) / 0.225));
  EXPECT_EQ(parse_picture_scale("-1-1"), PictureScale::symmetric);
  expect_error(ErrorKind::invalid_argument, "pictures are normalised by none, 0-1, -1-1 or imagenet, not '0-255'",
               [] { parse_picture_scale("0-255"); });
}

TEST_F(PictureInputTest, SaysWhatIsNoPictureOrTakesNone) {
  const auto refuses = [&](const ValueDescription& description, const std::string& message,
                           PictureScale scale = PictureScale::usual) {
    expect_error(ErrorKind::invalid_argument, message, [&] { read_picture_input(path, description, scale); });
  };
  refuses(input(DType::f32, {1, 10}), "input 'image' is f32[1, 10]: a picture goes into inputs of 3 or 4 dimensions");
  refuses(input(DType::f32, {1, 7, 8, 8}),
          "input 'image' is f32[1, 7, 8, 8]: a picture has 1, 3 or 4 channels, in front or at the end");
  refuses(input(DType::f32, {2, 3, 8, 8}), "input 'image' is f32[2, 3, 8, 8]: a picture is a batch of 1");
  refuses(input(DType::i8, {1, 3, 8, 8}),
          "input 'image' is i8[1, 3, 8, 8]: a picture goes into inputs of floats, or of integers that hold 0 to 255");
  refuses(input(DType::u8, {1, 3, 8, 8}),
          "input 'image' is u8[1, 3, 8, 8]: pictures in integers are not normalised, so only none is for it",
          PictureScale::unit);
  refuses(input(DType::f32, {1, 1, 8, 8}),
          "input 'image' is f32[1, 1, 8, 8]: ImageNet's mean and deviation are for 3 channels", PictureScale::imagenet);
  refuses(input(DType::f32, {1, 3, 0, 8}), "input 'image' is f32[1, 3, 0, 8], which holds no pixel");
  std::ofstream(path) << "no picture";
  expect_error_containing(ErrorKind::unsupported, "none of the picture formats that are read",
                          [&] { read_picture_input(path, input(DType::f32, {1, 3, 8, 8})); });
  expect_error_containing(ErrorKind::not_found, "missing.png",
                          [&] { read_picture_input(folder / "missing.png", input(DType::f32, {1, 3, 8, 8})); });
}

}  // namespace
}  // namespace tessera::report::picture_input_test
