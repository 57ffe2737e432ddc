#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/machine/simd.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "support/tolerance.h"

namespace tessera::backends::cpu::pooling_test {
namespace {

void check(const std::string& op, const Tensor& x, ir::Attributes attributes = {}) {
  SCOPED_TRACE(op + to_string(x.shape()));
  const test::OpCall call{op, {x}, std::move(attributes)};
  const Tensor expected = test::run_op_tensor(call, "reference");
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    const ScopedIsa scoped(isa);
    const Tensor one = test::run_op_tensor(call, "cpu", 1);
    EXPECT_TRUE(test::close_to(one, expected, test::Tolerance::epsilons(DType::f32, 16)))
        << "isa " << static_cast<int>(isa);
    for (const int threads : {2, 3}) EXPECT_TRUE(identical(test::run_op_tensor(call, "cpu", threads), one));
  }
}

ir::Attribute list(std::vector<std::int64_t> values) {
  return ir::Attribute(std::move(values));
}
ir::Attribute flag() {
  return ir::Attribute(std::int64_t{1});
}

TEST(CpuPooling, WindowsOfEveryRank) {
  for (const std::string op : {"MaxPool", "AveragePool"}) {
    check(op, test::random_tensor(DType::f32, {2, 3, 40}, 1),
          {{"kernel_shape", list({3})}, {"strides", list({2})}, {"pads", list({1, 0})}});
    check(op, test::random_tensor(DType::f32, {1, 3, 23, 70}, 2),
          {{"kernel_shape", list({3, 3})}, {"strides", list({2, 2})}, {"pads", list({1, 1, 1, 1})}});
    check(op, test::random_tensor(DType::f32, {1, 2, 5, 6, 7}, 3),
          {{"kernel_shape", list({2, 2, 3})}, {"strides", list({2, 1, 2})}});
    check(op, test::random_tensor(DType::f32, {1, 2, 14, 15}, 4),
          {{"kernel_shape", list({3, 2})}, {"dilations", list({2, 3})}, {"strides", list({3, 4})}});
  }
}

TEST(CpuPooling, PairsOfLinesAndColumns) {
  const ir::Attributes window{{"kernel_shape", list({2, 2})}, {"strides", list({2, 2})}};
  for (const std::int64_t columns : {2, 3, 7, 16, 28, 31, 33, 64, 65, 97})
    check("MaxPool", test::random_tensor(DType::f32, {2, 3, 7, columns}, static_cast<std::uint64_t>(columns)), window);
  Tensor x = test::random_tensor(DType::f32, {1, 1, 4, 36}, 6);
  for (const std::int64_t i : {0, 37, 38, 75, 111}) x.mutable_data<float>()[i] = NAN;
  check("MaxPool", x, window);
}

TEST(CpuPooling, CeilModeAndCountedPadding) {
  const Tensor x = test::random_tensor(DType::f32, {1, 2, 10, 10}, 5);
  const ir::Attributes window{
      {"kernel_shape", list({3, 3})}, {"strides", list({2, 2})}, {"pads", list({1, 1, 1, 1})}, {"ceil_mode", flag()}};
  check("MaxPool", x, window);
  check("AveragePool", x, window);
  ir::Attributes counted = window;
  counted.emplace("count_include_pad", flag());
  check("AveragePool", x, counted);
}

TEST(CpuPooling, NanWinsAndPaddingNever) {
  const Tensor x = Tensor::from<float>({1, 1, 1, 4}, {-3.0f, NAN, -2.0f, -INFINITY});
  check("MaxPool", x, {{"kernel_shape", list({1, 2})}, {"pads", list({0, 1, 0, 1})}});
  check("GlobalMaxPool", x);
}

TEST(CpuPooling, Global) {
  for (const std::string op : {"GlobalMaxPool", "GlobalAveragePool"}) {
    check(op, test::random_tensor(DType::f32, {2, 3, 7, 7}, 6));
    check(op, test::random_tensor(DType::f32, {1, 5, 200}, 7));
    check(op, test::random_tensor(DType::f32, {0, 5, 2}, 7));
  }
}

}  // namespace
}  // namespace tessera::backends::cpu::pooling_test
