// Operators that are asked for results of huge, negative and overflowing size: none gets the memory, and none takes the
// time.
#include <gtest/gtest.h>

#include <cmath>

#include "support/hostile_call.h"

namespace tessera::test::hostile_shape_test {
namespace {

using Integers = std::vector<std::int64_t>;
constexpr std::int64_t kTera = std::int64_t{1} << 40, kHigh = INT64_MAX, kLow = INT64_MIN;

Tensor integers(const Integers& values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}
Tensor floats(const std::vector<float>& values) {
  return Tensor::from<float>({static_cast<std::int64_t>(values.size())}, values);
}
Tensor integer(std::int64_t value) {
  return Tensor::scalar(value);
}
Tensor zeros(const Shape& shape, DType type = DType::f32) {
  Tensor tensor(type, shape);
  std::fill_n(static_cast<std::byte*>(tensor.mutable_raw()), tensor.bytes(), std::byte{0});
  return tensor;
}
ir::Attributes with(std::string_view name, ir::Attribute value) {
  return {{std::string(name), std::move(value)}};
}

TEST(HostileShape, FillsAndExpansions) {
  const Tensor one = zeros({1});
  for (const Integers& shape : {Integers{kTera}, Integers{kTera, kTera}, Integers{kHigh}, Integers{1 << 20, 1 << 20}}) {
    expect_call_refused({"ConstantOfShape", {integers(shape)}}, "");
    expect_call_refused({"Expand", {one, integers(shape)}}, "");
    expect_call_refused({"Reshape", {one, integers(shape)}}, "");
  }
  for (const std::int64_t dim : {std::int64_t{-1}, kLow}) {
    expect_call_refused({"ConstantOfShape", {integers({2, dim})}},
                        "dimension " + std::to_string(dim) + " in the requested shape");
    expect_call_refused({"Expand", {one, integers({dim})}},
                        "dimension " + std::to_string(dim) + " in the requested shape");
    expect_call_refused({"CenterCropPad", {zeros({4}), integers({dim})}},
                        "dimension " + std::to_string(dim) + " in the requested shape");
  }
  expect_call_refused({"ConstantOfShape", {integers(Integers(1000, 1))}}, "a result of rank 1000, expected at most 64");
  expect_call_refused({"Expand", {one, integers(Integers(1000, 1))}}, "a result of rank 1000, expected at most 64");
  expect_call_refused({"Reshape", {one, integers(Integers(1000, 1))}}, "a result of rank 1000, expected at most 64");
  expect_call_refused({"Reshape", {one, integers({-1, -1})}}, "more than one -1");
  expect_call_refused({"Reshape", {one, integers({-2})}}, "dimension -2 in the requested shape");
  expect_call_refused({"CenterCropPad", {zeros({4}), integers({kTera})}}, "");
  expect_call_refused({"Unsqueeze", {one, integers({0, 0})}}, "axis 0 is listed more than once");
  for (const std::int64_t axis : {std::int64_t{9}, kHigh, kLow}) {
    expect_call_refused({"Unsqueeze", {one, integers({axis})}}, "axis " + std::to_string(axis) + " is outside");
    expect_call_refused({"Squeeze", {one, integers({axis})}}, "axis " + std::to_string(axis) + " is outside");
    expect_call_refused({"Concat", {one, one}, with("axis", axis)}, "axis " + std::to_string(axis) + " is outside");
    expect_call_refused({"CumSum", {one, integer(axis)}}, "axis " + std::to_string(axis) + " is outside");
    expect_call_refused({"Flatten", {one}, with("axis", axis)}, "axis " + std::to_string(axis) + " is outside");
    expect_call_refused({"Softmax", {one}, with("axis", axis)}, "axis " + std::to_string(axis) + " is outside");
    expect_call_refused({"ArgMax", {one}, with("axis", axis)}, "axis " + std::to_string(axis) + " is outside");
    expect_call_refused({"ReduceSum", {one, integers({axis})}}, "axis " + std::to_string(axis) + " is outside");
  }
}

TEST(HostileShape, TilesAndPads) {
  const Tensor row = zeros({2});
  expect_call_refused({"Tile", {row, integers({kTera})}}, "");
  expect_call_refused({"Tile", {row, integers({kHigh})}}, "");
  expect_call_refused({"Tile", {row, integers({-1})}}, "");
  expect_call_refused({"Tile", {row, integers({2, 2})}}, "2 repeats for a tensor of rank 1");
  for (const char* mode : {"constant", "edge", "reflect", "wrap"}) {
    const ir::Attributes attributes = with("mode", std::string(mode));
    expect_call_refused({"Pad", {row, integers({0, kTera})}, attributes}, "");
    expect_call_refused({"Pad", {row, integers({kHigh, kHigh})}, attributes}, "");
    expect_call_refused({"Pad", {row, integers({kHigh, 0})}, attributes}, "");
    expect_call_refused({"Pad", {row, integers({kLow, 0})}, attributes}, "");
    expect_call_refused({"Pad", {row, integers({-2, -1})}, attributes}, "");
    expect_call_refused({"Pad", {row, integers({1})}, attributes}, "");
    expect_call_harmless({"Pad", {row, integers({-2, 5})}, attributes});
    expect_call_harmless({"Pad", {zeros({0}), integers({1, 1})}, attributes});
  }
  // Small types make long axes of few bytes.
  expect_call_harmless(
      {"Pad", {zeros({2}, DType::u8), integers({0, 60 << 20}), Value()}, with("mode", std::string("edge"))});
}

TEST(HostileShape, RangesAndWindows) {
  const auto range = [](auto start, auto limit, auto delta) {
    return OpCall{"Range", {Tensor::scalar(start), Tensor::scalar(limit), Tensor::scalar(delta)}};
  };
  expect_call_refused(range(std::int64_t{0}, kHigh, std::int64_t{1}), "");
  expect_call_refused(range(kLow, kHigh, std::int64_t{1}), "");
  expect_call_refused(range(kHigh, kLow, std::int64_t{-1}), "");
  expect_call_refused(range(std::int64_t{0}, std::int64_t{1}, std::int64_t{0}), "delta is 0");
  expect_call_harmless(range(kLow, kHigh, kHigh));
  expect_call_harmless(range(kHigh, kLow, kLow));
  expect_call_refused(range(0.0f, 1.0f, 0.0f), "delta is 0");
  expect_call_refused(range(0.0f, 1.0f, NAN), "a range from 0 to 1 by nan");
  expect_call_refused(range(0.0f, INFINITY, 1.0f), "a range from 0 to inf by 1");
  expect_call_refused(range(0.0, 1.0, 1e-300), "the range has too many elements");
  expect_call_refused(range(0.0, 1e18, 1.0), "");
  expect_call_refused(range(0.0, -1e300, -1e-300), "");
  for (const char* window : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    for (const std::int64_t size : {kTera, kHigh, kLow, std::int64_t{-1}, std::int64_t{1} << 33})
      expect_call_refused({window, {integer(size)}}, "");
  }
  const auto mel = [](std::int64_t bins, std::int64_t length, std::int64_t rate, float low, float high) {
    return OpCall{"MelWeightMatrix",
                  {integer(bins), integer(length), integer(rate), Tensor::scalar(low), Tensor::scalar(high)}};
  };
  expect_call_refused(mel(kTera - 1, 16, 8000, 0, 4000), "");
  expect_call_refused(mel(8, kTera - 1, 8000, 0, 4000), "");
  expect_call_refused(mel(-1, 16, 8000, 0, 4000), "num_mel_bins is -1");
  expect_call_harmless(mel(8, 16, 0, 0, 4000));
  expect_call_harmless(mel(8, 16, kLow, 0, 4000));
  expect_call_harmless(mel(8, 16, 8000, NAN, 4000));
  expect_call_harmless(mel(8, 16, 8000, -INFINITY, INFINITY));
  expect_call_harmless(mel(8, 16, 8000, 4000, 0));
}

TEST(HostileShape, OneHotDepthsAndCounts) {
  const Tensor indices = integers({0, 1}), values = floats({0, 1});
  expect_call_refused({"OneHot", {indices, integer(kTera), values}}, "");
  expect_call_refused({"OneHot", {indices, integer(kHigh), values}}, "");
  expect_call_refused({"OneHot", {indices, integer(-1), values}}, "depth is -1");
  expect_call_refused({"OneHot", {indices, Tensor::scalar(NAN), values}}, "depth is nan");
  expect_call_refused({"OneHot", {indices, Tensor::scalar(INFINITY), values}}, "depth is inf");
  expect_call_refused({"OneHot", {indices, integer(2), floats({0, 1, 2})}},
                      "input 'values' has 3 elements, expected [off, on]");
  const Tensor row = floats({3, 1, 2});
  for (const std::int64_t k : {kHigh, kTera, std::int64_t{4}, std::int64_t{-1}, kLow})
    expect_call_refused({"TopK", {row, integers({k})}, {}, 2}, "K is " + std::to_string(k));
  const Tensor square = zeros({3, 3});
  for (const std::int64_t k : {kHigh, kLow, std::int64_t{-4}}) {
    expect_call_gives({"Trilu", {square, integer(k)}}, square);
    expect_call_gives({"EyeLike", {square}, with("k", k)}, square);
  }
  expect_call_refused({"Split", {row, integers({-1, 4})}, {}, 2}, "a part of size -1");
  expect_call_refused({"Split", {row, integers({kHigh, kHigh})}, {}, 2}, "size overflow");
  expect_call_refused({"Split", {row, integers({1, 1})}, {}, 2}, "the parts add up to 2, but the dimension is 3");
  expect_call_refused({"SplitToSequence", {row, integer(0)}}, "cannot split into parts of 0");
  expect_call_refused({"SplitToSequence", {row, integer(kLow)}}, "cannot split into parts of -9223372036854775808");
  expect_call_refused({"SplitToSequence", {row, integers({kHigh, 4})}}, "");
  expect_call_refused({"Multinomial", {zeros({1, 3})}, with("sample_size", kTera)}, "");
  expect_call_refused({"Multinomial", {zeros({1, 3})}, with("sample_size", std::int64_t{-1})}, "");
  expect_call_refused({"RandomNormal", {}, with("shape", Integers{kTera})}, "");
  expect_call_refused({"RandomUniform", {}, with("shape", Integers{kHigh, 2})}, "");
  expect_call_refused({"RandomUniform", {}, with("shape", Integers{-1})}, "");
}

TEST(HostileShape, Slices) {
  const Tensor row = Tensor::from<float>({4}, {0, 1, 2, 3});
  const auto slice = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
    return OpCall{"Slice", {row, integers({start}), integers({end}), integers({0}), integers({step})}};
  };
  expect_call_gives(slice(0, kHigh, kHigh), floats({0}));
  expect_call_gives(slice(kHigh, kLow, kLow), floats({3}));
  expect_call_gives(slice(kHigh, kLow, -1), floats({3, 2, 1, 0}));
  expect_call_gives(slice(kLow, kHigh, 1), row);
  expect_call_gives(slice(kHigh, kHigh, 1), zeros({0}));
  expect_call_refused(slice(0, 1, 0), "");
  expect_call_refused({"Slice", {row, integers({0}), integers({1}), integers({kLow})}},
                      "axis -9223372036854775808 is outside");
  expect_call_refused({"Slice", {row, integers({0, 0}), integers({1})}}, "");
}

TEST(HostileShape, BlocksOfPixels) {
  const Tensor image = zeros({1, 4, 2, 2});
  for (const std::int64_t size : {kHigh, kLow, kTera, std::int64_t{0}, std::int64_t{-1}, (std::int64_t{1} << 31) - 1}) {
    expect_call_refused({"DepthToSpace", {image}, with("blocksize", size)}, "");
    expect_call_refused({"SpaceToDepth", {image}, with("blocksize", size)}, "");
  }
  const Tensor columns = zeros({1, 4, 4});
  expect_call_refused({"Col2Im", {columns, integers({kTera, kTera}), integers({2, 2})}}, "");
  expect_call_refused({"Col2Im", {columns, integers({3, 3}), integers({kHigh, kHigh})}}, "");
  expect_call_refused({"Col2Im", {columns, integers({3, 3}), integers({0, 2})}}, "");
  expect_call_refused({"Col2Im", {columns, integers({3, 3}), integers({-2, -2})}}, "");
  for (const char* name : {"dilations", "strides"}) {
    for (const std::int64_t value : {kHigh, kLow, std::int64_t{0}})
      expect_call_refused({"Col2Im", {columns, integers({3, 3}), integers({2, 2})}, with(name, Integers{value, value})},
                          "");
  }
  expect_call_refused(
      {"Col2Im", {columns, integers({3, 3}), integers({2, 2})}, with("pads", Integers{kHigh, kHigh, kHigh, kHigh})},
      "");
  expect_call_refused({"AffineGrid", {zeros({1, 2, 3}), integers({1, 1, kTera, kTera})}}, "");
  expect_call_refused({"AffineGrid", {zeros({1, 2, 3}), integers({1, 1, -1, 2})}}, "");
  expect_call_refused(
      {"RoiAlign", {image, zeros({1, 4}), integers({0})}, {{"output_height", kTera}, {"output_width", kTera}}}, "");
  expect_call_refused(
      {"RoiAlign",
       {image, zeros({1, 4}), integers({0})},
       {{"output_height", std::int64_t{1}}, {"output_width", std::int64_t{1}}, {"sampling_ratio", kHigh}}},
      "");
  expect_call_refused({"MaxRoiPool", {image, zeros({1, 5})}, with("pooled_shape", Integers{kTera, kTera})}, "");
}

TEST(HostileShape, Transforms) {
  const Tensor signal = zeros({1, 16, 1});
  for (const std::int64_t length : {kTera - 1, kHigh, kLow, std::int64_t{0}, std::int64_t{-1}}) {
    expect_call_refused({"DFT", {signal, integer(length)}}, "");
  }
  expect_call_refused({"DFT", {signal, Value(), integer(2)}}, "");
  expect_call_refused({"DFT", {signal, Value(), integer(kLow)}}, "");
  for (const std::int64_t step : {kLow, std::int64_t{0}, std::int64_t{-1}})
    expect_call_refused({"STFT", {signal, integer(step), Value(), integer(8)}},
                        "frame_step is " + std::to_string(step));
  for (const std::int64_t length : {kHigh, kLow, std::int64_t{0}, std::int64_t{17}})
    expect_call_refused({"STFT", {signal, integer(4), Value(), integer(length)}},
                        "a frame of " + std::to_string(length));
  expect_call_harmless({"STFT", {signal, integer(kHigh), Value(), integer(8)}});
  expect_call_harmless({"STFT", {signal, integer(4), zeros({16})}});
}

TEST(HostileShape, Resizes) {
  const Tensor image = zeros({1, 1, 4, 4});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    const ir::Attributes attributes = with("mode", std::string(mode));
    const auto scaled = [&](float y, float x) {
      return OpCall{"Resize", {image, Value(), floats({1, 1, y, x})}, attributes};
    };
    const auto sized = [&](std::int64_t y, std::int64_t x) {
      return OpCall{"Resize", {image, Value(), Value(), integers({1, 1, y, x})}, attributes};
    };
    expect_call_refused(scaled(1e10f, 1e10f), "");
    expect_call_refused(scaled(3e38f, 1), "");
    expect_call_refused(scaled(NAN, 1), "scale nan of axis 2");
    expect_call_refused(scaled(INFINITY, 1), "scale inf of axis 2");
    expect_call_refused(scaled(0, 1), "scale 0 of axis 2");
    expect_call_refused(scaled(-1, 1), "scale -1 of axis 2");
    expect_call_harmless(scaled(1e-30f, 1));
    expect_call_refused(sized(kTera, kTera), "");
    expect_call_refused(sized(kHigh, 1), "");
    expect_call_refused(sized(-1, 1), "size -1 of axis 2");
    // The first axis grows beyond everything before the second shrinks.
    expect_call_harmless({"Resize", {zeros({1 << 20, 1}), Value(), Value(), integers({1, 1 << 20})}, attributes});
  }
  expect_call_refused({"Resize", {image, Value(), floats({1, 1, 2})}}, "");
  const ir::Attributes crop{{"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                            {"mode", std::string("linear")}};
  for (const float bound : {NAN, INFINITY, -INFINITY, 1e30f}) {
    expect_call_harmless(
        {"Resize", {image, floats({0, 0, 0, 0, 1, 1, bound, bound}), Value(), integers({1, 1, 4, 4})}, crop});
    expect_call_harmless({"Resize", {image, floats({0, 0, 0, 0, 1, 1, bound, bound}), floats({1, 1, 1, 1})}, crop});
  }
}

TEST(HostileShape, SlidingWindows) {
  const Tensor image = zeros({1, 1, 4, 4}), weights = zeros({1, 1, 2, 2});
  for (const char* pool : {"MaxPool", "AveragePool", "LpPool"}) {
    for (const std::int64_t value : {kHigh, kTera, kLow, std::int64_t{0}, std::int64_t{-1}})
      expect_call_refused({pool, {image}, with("kernel_shape", Integers{value, 2})}, "");
    for (const std::int64_t value : {kLow, std::int64_t{0}, std::int64_t{-1}}) {
      expect_call_refused({pool, {image}, {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{value, 1}}}},
                          "strides");
      expect_call_refused({pool, {image}, {{"kernel_shape", Integers{2, 2}}, {"dilations", Integers{value, 1}}}},
                          "dilations");
    }
    expect_call_refused({pool, {image}, {{"kernel_shape", Integers{2, 2}}, {"dilations", Integers{kHigh, 1}}}}, "");
    expect_call_harmless({pool, {image}, {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{kHigh, kHigh}}}});
    expect_call_refused({pool, {image}, {{"kernel_shape", Integers{2, 2}}, {"pads", Integers{kHigh, 0, kHigh, 0}}}},
                        "");
    expect_call_refused(
        {pool, {image}, {{"kernel_shape", Integers{2, 2}}, {"pads", Integers{kTera, kTera, kTera, kTera}}}}, "");
    expect_call_harmless(
        {pool, {image}, {{"kernel_shape", Integers{kTera, kTera}}, {"pads", Integers{kTera, kTera, kTera, kTera}}}});
    expect_call_harmless(
        {pool, {zeros({1, 1, 100'000})}, {{"kernel_shape", Integers{65'000}}, {"strides", Integers{50'000}}}});
    expect_call_refused({pool, {image}, with("kernel_shape", Integers{2})}, "kernel_shape");
    expect_call_refused({pool, {image}, with("kernel_shape", Integers{})}, "kernel_shape");
  }
  for (const char* name : {"strides", "dilations"}) {
    for (const std::int64_t value : {kLow, std::int64_t{0}}) {
      expect_call_refused({"Conv", {image, weights}, with(name, Integers{value, 1})}, name);
      expect_call_refused({"ConvTranspose", {image, weights}, with(name, Integers{value, 1})}, name);
    }
    expect_call_refused({"ConvTranspose", {image, weights}, with(name, Integers{kHigh, 1})}, "");
    expect_call_refused({"ConvTranspose", {image, weights}, with(name, Integers{kTera, kTera})}, "");
  }
  expect_call_refused({"Conv", {image, weights}, with("pads", Integers{kTera, kTera, kTera, kTera})}, "");
  expect_call_refused({"Conv", {image, weights}, with("group", std::int64_t{0})}, "group is 0");
  expect_call_refused({"Conv", {image, weights}, with("group", kLow)}, "group is -9223372036854775808");
  expect_call_refused({"Conv", {image, weights}, with("group", kHigh)}, "");
  for (const Integers& shape :
       {Integers{kTera, kTera}, Integers{kHigh, 4}, Integers{-1, 4}, Integers{0, 4}, Integers{4}}) {
    expect_call_refused({"ConvTranspose", {image, weights}, with("output_shape", shape)}, "");
  }
  expect_call_refused({"ConvTranspose", {image, weights}, with("output_padding", Integers{kTera, kTera})}, "");
  expect_call_refused({"ConvTranspose", {image, weights}, with("pads", Integers{kHigh, kHigh, kHigh, kHigh})}, "");
  expect_call_refused({"LRN", {image}, with("size", std::int64_t{0})}, "");
  expect_call_harmless({"LRN", {image}, with("size", kHigh)});
}

}  // namespace
}  // namespace tessera::test::hostile_shape_test
