#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/machine/simd.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::conv_test {
namespace {

using test::random_tensor;

struct Case {
  Shape x, w;
  ir::Attributes attributes = {};
  bool bias = true;
};

ir::Attribute list(std::vector<std::int64_t> values) {
  return ir::Attribute(std::move(values));
}

// Every instruction set close to the reference; any number of threads the same bits.
void check(const Case& c, const std::string& op = "Conv") {
  SCOPED_TRACE(to_string(c.x) + " * " + to_string(c.w));
  test::OpCall call{op, {random_tensor(DType::f32, c.x, 1), random_tensor(DType::f32, c.w, 2)}, c.attributes};
  const bool transposed = op == "ConvTranspose";
  const std::int64_t group = c.attributes.contains("group") ? std::get<std::int64_t>(c.attributes.at("group")) : 1;
  if (c.bias) call.inputs.emplace_back(random_tensor(DType::f32, {transposed ? c.w[1] * group : c.w[0]}, 3));
  const Tensor expected = test::run_op_tensor(call, "reference");
  const double length = static_cast<double>(element_count(c.w)) / static_cast<double>(transposed ? c.w[1] : c.w[0]);
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa);
    const Tensor one = test::run_op_tensor(call, "cpu", 1);
    EXPECT_TRUE(test::close_to(one, expected, test::Tolerance::epsilons(DType::f32, 8 + length)))
        << "isa " << static_cast<int>(isa);
    for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), one));
  }
}

TEST(CpuConv, Pointwise) {
  check({{2, 7, 5, 9}, {13, 7, 1, 1}});
  check({{1, 40, 30}, {70, 40, 1}, {}, false});
  check({{2, 6, 4, 4}, {4, 3, 1, 1}, {{"group", std::int64_t{2}}}});
}

TEST(CpuConv, WindowsOfEveryRank) {
  check({{2, 3, 50}, {5, 3, 4}, {{"pads", list({2, 1})}}});
  check({{1, 3, 13, 37}, {16, 3, 3, 3}, {{"pads", list({1, 1, 1, 1})}}});
  check({{2, 4, 7, 7}, {33, 4, 3, 3}, {{"pads", list({1, 1, 1, 1})}}});
  check({{1, 2, 5, 6, 7}, {3, 2, 3, 2, 3}, {{"pads", list({1, 0, 2, 0, 1, 1})}}});
}

TEST(CpuConv, StridesDilationsAndUnevenPads) {
  check({{1, 3, 15, 41}, {8, 3, 3, 3}, {{"strides", list({2, 2})}, {"pads", list({0, 1, 1, 0})}}});
  check({{1, 3, 20, 41},
         {8, 3, 3, 5},
         {{"strides", list({1, 3})}, {"dilations", list({2, 3})}, {"pads", list({2, 6, 3, 5})}}});
  check({{1, 3, 9, 35}, {4, 3, 1, 1}, {{"strides", list({2, 2})}}});
  check({{1, 8, 11, 11},
         {6, 4, 5, 3},
         {{"group", std::int64_t{2}}, {"auto_pad", std::string("SAME_UPPER")}, {"strides", list({2, 1})}}});
}

TEST(CpuConv, PaddingWiderThanTheImage) {
  check({{1, 2, 3, 2}, {3, 2, 7, 9}, {{"pads", list({5, 9, 4, 8})}}});
}

TEST(CpuConv, ManyChannelsAndTiles) {
  check({{1, 96, 20, 20}, {130, 96, 3, 3}, {{"pads", list({1, 1, 1, 1})}}});
}

TEST(CpuConv, Depthwise) {
  const auto grouped = [](std::int64_t group, ir::Attributes more = {}) {
    more.emplace("group", group);
    return more;
  };
  check({{2, 5, 9, 75}, {5, 1, 3, 3}, grouped(5, {{"pads", list({1, 1, 1, 1})}})});
  check({{1, 3, 7, 7}, {3, 1, 5, 5}, grouped(3, {{"pads", list({2, 2, 2, 2})}})});
  check({{1, 4, 40, 33}, {8, 1, 3, 3}, grouped(4, {{"pads", list({0, 1, 1, 0})}, {"strides", list({2, 2})}})});
  check({{1, 4, 20, 43},
         {4, 1, 2, 4},
         grouped(4, {{"pads", list({2, 5, 1, 4})}, {"strides", list({1, 3})}, {"dilations", list({3, 2})}})});
  check({{1, 2, 50}, {2, 1, 31}, grouped(2, {{"pads", list({15, 15})}})});
  check({{1, 2, 4, 5, 6},
         {4, 1, 3, 2, 3},
         grouped(2, {{"pads", list({1, 1, 1, 1, 0, 1})}, {"strides", list({2, 1, 2})}})});
  check({{1, 3, 3, 3}, {3, 1, 1, 1}, grouped(3, {{"strides", list({2, 5})}})});
}

TEST(CpuConvTranspose, StridesPadsGroupsAndRanks) {
  const auto upsample = [](std::int64_t rank, std::int64_t stride) {
    return ir::Attributes{{"strides", list(std::vector<std::int64_t>(static_cast<std::size_t>(rank), stride))}};
  };
  check({{2, 5, 6, 9}, {5, 7, 2, 2}, upsample(2, 2)}, "ConvTranspose");
  check({{1, 4, 11}, {4, 3, 5}, {{"pads", list({2, 1})}, {"strides", list({3})}, {"output_padding", list({1})}}},
        "ConvTranspose");
  check({{1, 6, 5, 7},
         {6, 2, 3, 3},
         {{"group", std::int64_t{2}}, {"pads", list({1, 1, 1, 0})}, {"dilations", list({2, 1})}}},
        "ConvTranspose");
  check({{1, 3, 3, 4, 5}, {3, 2, 2, 3, 2}, upsample(3, 2), false}, "ConvTranspose");
  check({{1, 2, 4, 4}, {2, 2, 3, 3}, {{"strides", list({2, 2})}, {"output_shape", list({4, 12})}}}, "ConvTranspose");
}

TEST(CpuConv, EmptyBatch) {
  check({{0, 3, 5, 5}, {4, 3, 3, 3}});
}

}  // namespace
}  // namespace tessera::backends::cpu::conv_test
