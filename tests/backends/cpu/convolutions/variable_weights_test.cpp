// Convolutions with the channels last whose weights and bias are variables.
#include <gtest/gtest.h>

#include "ops/convolutions/channels_last.h"
#include "support/random_tensor.h"
#include "support/variable_operands.h"

namespace tessera::backends::cpu::variable_weights_test {
namespace {

using test::random_tensor;
using Integers = std::vector<std::int64_t>;

struct Case {
  Shape x, w;  // with the channels first, as in ONNX
  ir::Attributes attributes = {};
  bool bias = true;
};

ir::Attributes pads(Integers values) {
  return {{"pads", std::move(values)}};
}

void check(const std::string& op, const Case& c) {
  SCOPED_TRACE(op + " " + to_string(c.x) + " * " + to_string(c.w));
  const bool transposed = op == "tessera::ChannelsLastConvTranspose";
  test::OpCall call{
      op, {random_tensor(DType::f32, ops::channels_last(c.x), 1), random_tensor(DType::f32, c.w, 2)}, c.attributes};
  const auto group = c.attributes.find("group");
  const std::int64_t groups = group == c.attributes.end() ? 1 : std::get<std::int64_t>(group->second);
  if (c.bias) call.inputs.emplace_back(random_tensor(DType::f32, {transposed ? c.w[1] * groups : c.w[0]}, 3));
  const double terms = static_cast<double>(element_count(c.w)) / static_cast<double>(transposed ? c.w[1] : c.w[0]);
  for (const char* activation : {"", "Relu", "Tanh"}) {
    if (activation[0] != 0) call.attributes.insert_or_assign("activation", std::string(activation));
    test::expect_variables_match_reference(call, 8 + terms);
  }
}

TEST(CpuVariableWeights, Conv) {
  const std::string conv = "tessera::ChannelsLastConv";
  check(conv, {{2, 7, 5, 9}, {13, 7, 1, 1}});
  check(conv, {{1, 40, 30}, {70, 40, 1}, {}, false});
  check(conv, {{2, 3, 50}, {5, 3, 4}, pads({2, 1})});
  check(conv, {{2, 36, 7, 7}, {33, 36, 3, 3}, pads({1, 1, 1, 1})});
  check(conv, {{1, 70, 9, 6}, {100, 70, 3, 3}, pads({0, 1, 2, 1}), false});
  check(conv, {{1, 3, 20, 41},
               {8, 3, 3, 5},
               {{"strides", Integers{1, 3}}, {"dilations", Integers{2, 3}}, {"pads", Integers{2, 6, 3, 5}}}});
  check(conv, {{1, 8, 11, 11}, {18, 4, 5, 3}, {{"group", std::int64_t{2}}}});
  check(conv, {{2, 35, 6, 7}, {35, 1, 3, 3}, {{"group", std::int64_t{35}}, {"strides", Integers{2, 1}}}});
  check(conv, {{1, 34, 4, 5, 6}, {40, 34, 2, 3, 3}, pads({1, 0, 2, 0, 1, 1})});
}

TEST(CpuVariableWeights, ConvRoundedToBf16) {
  const auto rounded = [](ir::Attributes attributes) {
    attributes.emplace("precision", std::string("bf16"));
    return attributes;
  };
  const std::string conv = "tessera::ChannelsLastConv";
  check(conv, {{2, 7, 5, 9}, {13, 7, 1, 1}, rounded({})});
  check(conv, {{2, 3, 50}, {5, 3, 4}, rounded(pads({2, 1}))});
  check(conv, {{2, 36, 7, 7}, {33, 36, 3, 3}, rounded(pads({1, 1, 1, 1}))});
  check(conv, {{1, 8, 11, 11}, {18, 4, 5, 3}, rounded({{"group", std::int64_t{2}}}), false});
}

TEST(CpuVariableWeights, ConvTransposeOfStrideOne) {
  const std::string transpose = "tessera::ChannelsLastConvTranspose";
  check(transpose, {{2, 7, 5, 9}, {7, 13, 1, 1}});
  check(transpose, {{2, 36, 7, 7}, {36, 33, 3, 3}, pads({1, 1, 1, 1})});
  check(transpose, {{1, 70, 9, 6}, {70, 100, 3, 3}, pads({0, 2, 1, 1}), false});
  check(transpose, {{2, 5, 12}, {5, 6, 4}, pads({5, 1})});  // padding beyond what the windows reach
  check(transpose, {{1, 18, 9, 8}, {18, 20, 3, 3}, {{"dilations", Integers{2, 3}}, {"pads", Integers{2, 3, 1, 0}}}});
  check(transpose, {{1, 17, 4, 5, 6}, {17, 20, 2, 3, 3}, pads({1, 0, 2, 0, 1, 1})});
  check(transpose, {{1, 18, 6, 5}, {18, 10, 3, 2}, {{"group", std::int64_t{2}}}});
}

TEST(CpuVariableWeights, ConvTransposeOfLongerStrides) {
  const std::string transpose = "tessera::ChannelsLastConvTranspose";
  check(transpose, {{2, 36, 4, 5}, {36, 70, 3, 3}, {{"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}}});
  check(transpose, {{2, 9, 4, 5},
                    {9, 7, 3, 3},
                    {{"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}, {"output_padding", Integers{1, 1}}}});
  check(transpose, {{1, 8, 5, 3}, {8, 33, 2, 2}, {{"strides", Integers{2, 2}}}});
  check(transpose, {{2, 6, 4, 3}, {6, 5, 1, 1}, {{"strides", Integers{3, 2}}, {"output_padding", Integers{1, 1}}}});
  check(transpose, {{1, 4, 6}, {4, 3, 5}, {{"strides", Integers{3}}, {"dilations", Integers{2}}}});
  check(transpose,
        {{1, 5, 3, 4, 2}, {5, 18, 3, 2, 3}, {{"strides", Integers{2, 1, 3}}, {"pads", Integers{1, 0, 1, 1, 1, 0}}}});
  check(transpose, {{1, 18, 6, 5}, {18, 10, 3, 3}, {{"group", std::int64_t{2}}, {"strides", Integers{2, 1}}}});
  check(transpose, {{1, 3, 4, 4}, {3, 4, 3, 3}, {{"strides", Integers{2, 2}}, {"output_shape", Integers{11, 12}}}});
}

TEST(CpuVariableWeights, DepthwiseConvTranspose) {
  const std::string transpose = "tessera::ChannelsLastConvTranspose";
  const auto depthwise = [&](std::int64_t channels, Integers strides, Integers pads) {
    check(transpose, {{2, channels, 5, 6},
                      {channels, 1, 3, 5},
                      {{"group", channels}, {"strides", std::move(strides)}, {"pads", std::move(pads)}}});
  };
  depthwise(35, {1, 1}, {1, 2, 1, 2});
  depthwise(16, {2, 3}, {1, 0, 0, 2});
  depthwise(5, {1, 2}, {0, 0, 0, 0});
}

}  // namespace
}  // namespace tessera::backends::cpu::variable_weights_test
