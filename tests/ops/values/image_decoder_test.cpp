#include <gtest/gtest.h>

#include "support/error_of.h"
#include "support/expect_error.h"
#include "support/run_op.h"
#include "tessera/graph.h"
#include "tessera/images.h"
#include "tessera/session.h"

namespace tessera::test::image_decoder_test {
namespace {

Tensor stream(std::string_view text) {
  return Tensor::from<std::uint8_t>({static_cast<std::int64_t>(text.size())},
                                    {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

Tensor decode(std::string_view file, const std::string& format) {
  return run_op_tensor({"ImageDecoder", {stream(file)}, {{"pixel_format", format}}});
}

constexpr std::string_view kPicture = "P3 2 1 255\n255 0 0  1 2 3";

TEST(ImageDecoder, OrdersChannels) {
  EXPECT_TRUE(identical(decode(kPicture, "RGB"), Tensor::from<std::uint8_t>({1, 2, 3}, {255, 0, 0, 1, 2, 3})));
  EXPECT_TRUE(identical(decode(kPicture, "BGR"), Tensor::from<std::uint8_t>({1, 2, 3}, {0, 0, 255, 3, 2, 1})));
  EXPECT_TRUE(identical(decode(kPicture, "Grayscale"), Tensor::from<std::uint8_t>({1, 2, 1}, {76, 2})));
  EXPECT_TRUE(identical(decode("P2 1 2 255 7 9", "RGB"), Tensor::from<std::uint8_t>({2, 1, 3}, {7, 7, 7, 9, 9, 9})));
}

TEST(ImageDecoder, WhatCannotBeDecodedIsEmpty) {
  for (const std::string_view file : {"", "GIF89a", "P3 2 1 255\n255 0 0  1 2"})
    EXPECT_EQ(decode(file, "RGB").shape(), (Shape{0, 0, 3})) << file;
  EXPECT_EQ(decode("P3", "Grayscale").shape(), (Shape{0, 0, 1}));
}

TEST(ImageDecoder, TooLargeIsAnError) {
  expect_error(ErrorKind::over_budget, "picture of 100000 x 100000 pixels, more than the limit of 67108864 pixels",
               [] { decode("P6 100000 100000 255\n", "RGB"); });
}

TEST(ImageDecoder, CountsWhatDecodingTakesBeforeItTakesIt) {
  NetBuilder net("decoder");
  const NetValue file = net.input("file", DType::u8, {std::string("bytes")});
  net.output("image", net.add("ImageDecoder", {file}, {{"pixel_format", std::string("RGB")}}));
  Session session(net.build(), {.memory_limit_bytes = 8 << 20});
  const auto run = [&](std::string_view bytes) {
    NamedValues inputs;
    inputs.emplace("file", stream(bytes));
    session.run(inputs);
  };
  run(kPicture);
  const std::string error = error_of([&] { run("P6 2000 2000 255\n"); });
  EXPECT_NE(error.find("of the limit of 8.0 MiB"), std::string::npos) << error;
}

TEST(ImageDecoder, WithoutCodecsSaysHowToGetThem) {
  set_image_decoder(nullptr);
  expect_error(ErrorKind::unsupported,
               "pictures need image codecs, which this program has not registered: link tessera::images and call "
               "tessera::register_image_codecs(), or tessera_register_image_codecs() from C",
               [] { decode(kPicture, "RGB"); });
  set_image_decoder([](std::span<const std::byte>, const ImageOptions& options) {
    return Tensor(DType::u8, {5, 4, options.channels});
  });
  EXPECT_EQ(decode("any format of the application's", "Grayscale").shape(), (Shape{5, 4, 1}));
  register_image_codecs();
  EXPECT_EQ(decode(kPicture, "RGB").shape(), (Shape{1, 2, 3}));
}

TEST(ImageDecoder, InfersChannels) {
  const ir::ValueType bytes = ir::ValueType::tensor(DType::u8, ir::Dims{ir::Dim::symbol("n")});
  EXPECT_EQ(ir::to_string(infer_op("ImageDecoder", {bytes})[0]), "u8[?, ?, 3]");
  EXPECT_EQ(ir::to_string(infer_op("ImageDecoder", {bytes}, {{"pixel_format", std::string("Grayscale")}})[0]),
            "u8[?, ?, 1]");
  expect_error(ErrorKind::invalid_model, "pixel_format 'CMYK' is none of RGB, BGR, Grayscale",
               [&] { infer_op("ImageDecoder", {bytes}, {{"pixel_format", std::string("CMYK")}}); });
  expect_error(ErrorKind::invalid_model, "encoded_stream has rank 2, expected 1",
               [] { infer_op("ImageDecoder", {ir::ValueType::tensor(DType::u8, ir::Dims{1, 1})}); });
}

}  // namespace
}  // namespace tessera::test::image_decoder_test
