#include "ops/convolutions/channels_last.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/machine/simd.h"
#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::channels_last_test {
namespace {

using test::random_tensor;
using Integers = std::vector<std::int64_t>;

struct Case {
  Shape x, w;  // with the channels first, as in ONNX
  ir::Attributes attributes = {};
  bool bias = true, addend = false;
};

constexpr double kLostToTransforms = 4;  // of the digits of a sum, by the transforms of Winograd's algorithm

// By the kernel that is chosen, and by all that could be.
void expect_like_reference(const test::OpCall& call, double terms) {
  const Tensor expected = test::run_op_tensor(call, "reference", 1);
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa);
    const Tensor one = test::run_op_tensor(call, "cpu", 1);
    EXPECT_TRUE(test::close_to(one, expected, test::Tolerance::epsilons(DType::f32, 8 + terms)))
        << "isa " << static_cast<int>(isa);
    for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), one));
    for (const std::string& kernel : test::accepting_cpu_kernels(call)) {
      SCOPED_TRACE(kernel);
      const Tensor other = test::run_op_tensor_by(call, kernel);
      const double digits = kernel == "cpu_channels_last_winograd" ? kLostToTransforms : 1;
      EXPECT_TRUE(test::close_to(other, expected, test::Tolerance::epsilons(DType::f32, digits * (8 + terms))))
          << "isa " << static_cast<int>(isa);
      EXPECT_TRUE(identical(test::run_op_tensor_by(call, kernel, 3), other));
    }
  }
}

void check(const Case& c) {
  SCOPED_TRACE(to_string(c.x) + " * " + to_string(c.w));
  test::OpCall call{"tessera::ChannelsLastConv",
                    {random_tensor(DType::f32, ops::channels_last(c.x), 1), random_tensor(DType::f32, c.w, 2)},
                    c.attributes};
  if (c.bias) call.inputs.emplace_back(random_tensor(DType::f32, {c.w[0]}, 3));
  if (c.addend) {
    const Shape y = test::run_op_tensor(call, "reference", 1).shape();
    call.inputs.resize(4);
    call.inputs[3] = random_tensor(DType::f32, y, 4);
  }
  expect_like_reference(call, static_cast<double>(element_count(c.w)) / static_cast<double>(c.w[0]));
}

ir::Attributes with(ir::Attributes attributes, std::string_view name, ir::Attribute value) {
  attributes.insert_or_assign(std::string(name), std::move(value));
  return attributes;
}

const ir::Attributes kSame{{"pads", Integers{1, 1, 1, 1}}};

TEST(CpuChannelsLastConv, Pointwise) {
  check({{2, 7, 5, 9}, {13, 7, 1, 1}});
  check({{1, 40, 30}, {70, 40, 1}, {}, false});
  check({{1, 33, 4, 4}, {16, 33, 1, 1}, {{"strides", Integers{2, 2}}}});
}

TEST(CpuChannelsLastConv, WindowsOfEveryRank) {
  check({{2, 3, 50}, {5, 3, 4}, {{"pads", Integers{2, 1}}}});
  check({{1, 3, 13, 37}, {16, 3, 3, 3}, kSame});
  check({{2, 36, 7, 7}, {33, 36, 3, 3}, kSame});
  check({{1, 2, 5, 6, 7}, {3, 2, 3, 2, 3}, {{"pads", Integers{1, 0, 2, 0, 1, 1}}}});
  check({{1, 34, 4, 5, 6}, {40, 34, 2, 3, 3}, {{"pads", Integers{1, 0, 2, 0, 1, 1}}}});
}

TEST(CpuChannelsLastConv, StridesDilationsAndUnevenPads) {
  check({{1, 3, 15, 41}, {8, 3, 3, 3}, {{"strides", Integers{2, 2}}, {"pads", Integers{0, 1, 1, 0}}}});
  check({{1, 3, 20, 41},
         {8, 3, 3, 5},
         {{"strides", Integers{1, 3}}, {"dilations", Integers{2, 3}}, {"pads", Integers{2, 6, 3, 5}}}});
  check({{1, 40, 11, 11}, {6, 40, 5, 3}, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Integers{2, 1}}}});
}

TEST(CpuChannelsLastConv, Groups) {
  check({{1, 8, 11, 11}, {18, 4, 5, 3}, {{"group", std::int64_t{2}}, {"auto_pad", std::string("SAME_UPPER")}}});
  check({{2, 6, 4, 4}, {27, 2, 1, 1}, {{"group", std::int64_t{3}}}});
}

TEST(CpuChannelsLastConv, PaddingWiderThanTheImage) {
  check({{1, 2, 3, 2}, {3, 2, 7, 9}, {{"pads", Integers{5, 9, 4, 8}}}});
  check({{1, 33, 3, 2}, {3, 33, 7, 9}, {{"pads", Integers{5, 9, 4, 8}}}});
}

TEST(CpuChannelsLastConv, ManyChannelsAndTiles) {
  check({{1, 96, 20, 20}, {130, 96, 3, 3}, {{"strides", Integers{2, 1}}}});
  check({{1, 600, 3, 3}, {200, 600, 3, 3}, kSame});
  check({{1, 24, 182, 182}, {3, 24, 3, 3}, {{"strides", Integers{2, 2}}}});
}

// Winograd's transforms lose some digits: measured over all of the result.
double distance(const Tensor& a, const Tensor& b) {
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < b.elements(); ++i) {
    const double x = a.data<float>()[i], y = b.data<float>()[i];
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return std::sqrt(difference / norm);
}

void check_winograd(const Shape& x, const Shape& w, ir::Attributes attributes) {
  test::OpCall call{"tessera::ChannelsLastConv",
                    {random_tensor(DType::f32, ops::channels_last(x), 1), random_tensor(DType::f32, w, 2)},
                    std::move(attributes)};
  call.inputs.emplace_back(random_tensor(DType::f32, {w[0]}, 3));
  call.inputs.emplace_back(random_tensor(DType::f32, test::run_op_tensor(call, "reference", 1).shape(), 4));
  for (const char* activation : {"Relu", "HardSwish"}) {
    call.attributes.insert_or_assign("activation", std::string(activation));
    SCOPED_TRACE(to_string(x) + " * " + to_string(w) + ", " + activation);
    const Tensor expected = test::run_op_tensor(call, "reference", 1);
    for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
      const ScopedIsa scoped(isa);
      const Tensor one = test::run_op_tensor_by(call, "cpu_channels_last_winograd", 1);
      EXPECT_LT(distance(one, expected), 2e-6) << "isa " << static_cast<int>(isa);
      EXPECT_TRUE(identical(test::run_op_tensor_by(call, "cpu_channels_last_winograd", 3), one));
    }
  }
}

TEST(CpuChannelsLastConv, WindowsOfThreeByMinimalFiltering) {
  for (const Shape& x : {Shape{1, 16, 13, 17}, Shape{2, 35, 12, 12}, Shape{1, 64, 30, 18}}) {
    for (const std::int64_t outputs : {16, 37}) {
      for (const Integers& pads : {Integers{1, 1, 1, 1}, Integers{0, 0, 0, 0}, Integers{2, 0, 1, 3}})
        check_winograd(x, {outputs, x[1], 3, 3}, {{"pads", pads}});
    }
  }
  check_winograd({1, 16, 220, 217}, {2, 16, 3, 3}, kSame);  // more data than is cached
}

TEST(CpuChannelsLastConv, WindowsOfSlicesByMinimalFiltering) {
  const Integers same{1, 1, 1, 1, 1, 1};
  check_winograd({1, 16, 16, 25, 27}, {16, 16, 3, 3, 3}, {{"pads", same}});  // blocks of every thread's own
  check_winograd({2, 35, 5, 9, 6}, {37, 35, 3, 3, 3}, {{"pads", same}});
  check_winograd({1, 7, 17, 3, 3}, {20, 7, 3, 3, 3}, {{"pads", Integers{0, 0, 2, 2, 1, 0}}});
  check_winograd({1, 40, 3, 14, 5}, {17, 40, 1, 3, 3}, {{"pads", Integers{0, 1, 1, 0, 1, 1}}});
  check_winograd({1, 19, 9, 7, 8}, {9, 19, 2, 3, 3},
                 {{"pads", Integers{1, 3, 1, 0, 0, 2}}, {"strides", Integers{3, 1, 1}}});
  check_winograd(
      {2, 5, 11, 7, 5}, {33, 5, 3, 3, 3},
      {{"pads", Integers{3, 1, 1, 4, 1, 1}}, {"strides", Integers{2, 1, 1}}, {"dilations", Integers{4, 1, 1}}});
  check_winograd({1, 18, 2, 6, 6}, {18, 18, 7, 3, 3}, {{"pads", Integers{5, 1, 1, 3, 1, 1}}});
}

TEST(CpuChannelsLastConv, SumsAndActivations) {
  const auto active = [](std::string name, std::vector<float> values) {
    return with(with(kSame, "activation", std::move(name)), "activation_params", std::move(values));
  };
  for (const bool addend : {false, true}) {
    check({{1, 5, 9, 9}, {21, 5, 3, 3}, active("Relu", {}), true, addend});
    check({{1, 5, 9, 9}, {21, 5, 3, 3}, active("Clip", {-0.5f, 0.75f}), false, addend});
    for (const char* name : {"HardSwish", "Sigmoid", "Tanh", "Mish", "Softplus"})
      check({{1, 5, 9, 9}, {21, 5, 3, 3}, active(name, {}), true, addend});
    check({{1, 5, 9, 9}, {21, 5, 3, 3}, active("Swish", {1.5f}), true, addend});
    check({{1, 5, 9, 9}, {21, 5, 3, 3}, active("LeakyRelu", {0.1f}), true, addend});
    check({{1, 5, 9, 9}, {21, 5, 3, 3}, active("HardSigmoid", {0.3f, 0.4f}), true, addend});
    check({{1, 21, 9, 9}, {21, 1, 3, 3}, with(active("Swish", {1.0f}), "group", std::int64_t{21}), true, addend});
    check({{1, 21, 9, 9}, {21, 1, 3, 3}, with(active("Clip", {0.0f, 0.25f}), "group", std::int64_t{21}), true, addend});
  }
}

TEST(CpuChannelsLastConv, Depthwise) {
  const auto grouped = [](std::int64_t group, ir::Attributes more = {}) {
    return with(std::move(more), "group", group);
  };
  check({{2, 5, 9, 75}, {5, 1, 3, 3}, grouped(5, kSame)});
  check({{1, 40, 9, 8}, {40, 1, 3, 3}, grouped(40, kSame), false});
  check({{1, 17, 14, 14}, {17, 1, 5, 5}, grouped(17, {{"pads", Integers{2, 2, 2, 2}}, {"strides", Integers{2, 2}}})});
  check({{1, 16, 14, 15}, {16, 1, 3, 2}, grouped(16, {{"dilations", Integers{2, 3}}, {"pads", Integers{2, 0, 1, 5}}})});
  check({{1, 24, 9, 27}, {24, 1, 7, 7}, grouped(24, {{"pads", Integers{3, 3, 3, 3}}})});
  check({{1, 40, 9, 14}, {40, 1, 7, 7}, grouped(40, {{"pads", Integers{3, 1, 3, 0}}, {"strides", Integers{2, 1}}})});
  check({{1, 9, 30}, {9, 1, 7}, grouped(9, {{"pads", Integers{3, 3}}})});
  check({{1, 9, 4, 5, 6}, {9, 1, 3, 3, 3}, grouped(9, {{"pads", Integers{1, 1, 1, 1, 1, 1}}})});
  check({{1, 16, 2, 3}, {16, 1, 7, 9}, grouped(16, {{"pads", Integers{5, 9, 4, 8}}})});
}

TEST(CpuChannelsLastConv, NotANumberStays) {
  test::OpCall call{"tessera::ChannelsLastConv",
                    {random_tensor(DType::f32, {1, 4, 4, 3}, 1), random_tensor(DType::f32, {20, 3, 1, 1}, 2)},
                    {{"activation", std::string("Relu")}}};
  Tensor x = call.inputs[0].tensor().clone();
  x.mutable_data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  call.inputs[0] = x;
  expect_like_reference(call, 4);
}

TEST(CpuChannelsLastConvTranspose, WindowsSideBySide) {
  const auto check_transposed = [](const Shape& x, const Shape& w, ir::Attributes attributes, bool bias = true) {
    SCOPED_TRACE(to_string(x) + " * " + to_string(w));
    test::OpCall call{"tessera::ChannelsLastConvTranspose",
                      {random_tensor(DType::f32, ops::channels_last(x), 1), random_tensor(DType::f32, w, 2)},
                      std::move(attributes)};
    if (bias) call.inputs.emplace_back(random_tensor(DType::f32, {w[1]}, 3));
    expect_like_reference(call, static_cast<double>(x[1]));
  };
  check_transposed({2, 7, 5, 9}, {7, 21, 2, 2}, {{"strides", Integers{2, 2}}});
  check_transposed({1, 40, 6, 5}, {40, 33, 3, 2}, {{"strides", Integers{3, 2}}, {"activation", std::string("Relu")}},
                   false);
  check_transposed({1, 16, 11}, {16, 5, 4}, {{"strides", Integers{4}}, {"activation", std::string("HardSwish")}});
  check_transposed({2, 8, 3, 4, 5}, {8, 9, 2, 2, 2}, {{"strides", Integers{2, 2, 2}}});
  check_transposed({1, 24, 3, 30}, {24, 1, 2, 2},
                   {{"strides", Integers{2, 2}}, {"activation", std::string("Sigmoid")}});
  // Elsewhere they overlap or leave gaps, and ONNX's operator runs between transposes.
  check_transposed({1, 8, 5, 6}, {8, 9, 3, 3}, {{"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}});
}

TEST(CpuChannelsLastPool, EveryWindow) {
  const auto pool = [](const char* op, Shape x, ir::Attributes attributes) {
    SCOPED_TRACE(op + to_string(x));
    expect_like_reference({op, {random_tensor(DType::f32, ops::channels_last(x), 1)}, std::move(attributes)}, 20);
  };
  for (const char* op : {"tessera::ChannelsLastMaxPool", "tessera::ChannelsLastAveragePool"}) {
    pool(op, {1, 19, 12, 13},
         {{"kernel_shape", Integers{3, 3}}, {"strides", Integers{2, 2}}, {"pads", Integers{1, 1, 1, 1}}});
    pool(op, {2, 16, 9, 9},
         {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{2, 2}}, {"ceil_mode", std::int64_t{1}}});
    pool(op, {1, 5, 20}, {{"kernel_shape", Integers{4}}, {"auto_pad", std::string("SAME_LOWER")}});
    pool(op, {1, 33, 5, 6, 7}, {{"kernel_shape", Integers{2, 3, 2}}, {"dilations", Integers{2, 1, 3}}});
  }
  pool("tessera::ChannelsLastAveragePool", {1, 19, 12, 13},
       {{"kernel_shape", Integers{3, 3}},
        {"pads", Integers{1, 1, 1, 1}},
        {"count_include_pad", std::int64_t{1}},
        {"ceil_mode", std::int64_t{1}},
        {"strides", Integers{2, 3}}});
}

}  // namespace
}  // namespace tessera::backends::cpu::channels_last_test
