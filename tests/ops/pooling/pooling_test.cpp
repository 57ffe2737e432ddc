#include <gtest/gtest.h>

#include <cmath>

#include "support/run_op.h"
#include "support/tolerance.h"
#include "tessera/error.h"

namespace tessera::test::pooling_test {
namespace {

using Integers = std::vector<std::int64_t>;

Tensor row(std::initializer_list<float> values) {
  return Tensor::from<float>({1, 1, static_cast<std::int64_t>(values.size())}, values);
}

TEST(MaxPool, CeilModeDropsWindowsThatStartInPadding) {
  const ir::Attributes ceil{{"kernel_shape", Integers{2}}, {"strides", Integers{2}}, {"ceil_mode", std::int64_t{1}}};
  EXPECT_TRUE(close_to(run_op_tensor({"MaxPool", {row({1, 2, 3})}, ceil}), row({2, 3})));
  ir::Attributes padded = ceil;
  padded["pads"] = Integers{1, 1};
  EXPECT_TRUE(close_to(run_op_tensor({"MaxPool", {row({1, 2, 3})}, padded}), row({1, 3})));
}

TEST(MaxPool, IndicesInBothOrders) {
  const Tensor x = Tensor::from<float>({1, 2, 2, 3}, {1, 2, 3, 4, 9, 6, 8, 1, 2, 3, 4, 5});
  const ir::Attributes attributes{{"kernel_shape", Integers{2, 2}}};
  std::vector<Value> y = run_op({"MaxPool", {x}, attributes, 2});
  EXPECT_TRUE(close_to(y[0].tensor(), Tensor::from<float>({1, 2, 1, 2}, {9, 9, 8, 5})));
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<std::int64_t>({1, 2, 1, 2}, {4, 4, 6, 11})));
  ir::Attributes columns = attributes;
  columns["storage_order"] = std::int64_t{1};
  y = run_op({"MaxPool", {x}, columns, 2});
  EXPECT_TRUE(close_to(y[1].tensor(), Tensor::from<std::int64_t>({1, 2, 1, 2}, {3, 3, 6, 11})));
}

TEST(MaxPool, Bytes) {
  const Tensor x = Tensor::from<std::int8_t>({1, 1, 3}, {-5, -7, -9});
  EXPECT_TRUE(close_to(run_op_tensor({"MaxPool", {x}, {{"kernel_shape", Integers{2}}, {"pads", Integers{1, 0}}}}),
                       Tensor::from<std::int8_t>({1, 1, 3}, {-5, -5, -7})));
}

TEST(AveragePool, PaddingInOrOut) {
  const ir::Attributes out{{"kernel_shape", Integers{3}}, {"pads", Integers{1, 1}}};
  EXPECT_TRUE(close_to(run_op_tensor({"AveragePool", {row({3, 6, 9})}, out}), row({4.5f, 6, 7.5f})));
  ir::Attributes in = out;
  in["count_include_pad"] = std::int64_t{1};
  EXPECT_TRUE(close_to(run_op_tensor({"AveragePool", {row({3, 6, 9})}, in}), row({3, 6, 5})));
}

TEST(AveragePool, CeilModeCountsNothingBeyondThePadding) {
  const ir::Attributes attributes{{"kernel_shape", Integers{3}},
                                  {"strides", Integers{2}},
                                  {"ceil_mode", std::int64_t{1}},
                                  {"count_include_pad", std::int64_t{1}}};
  EXPECT_TRUE(close_to(run_op_tensor({"AveragePool", {row({3, 6, 9, 12})}, attributes}), row({6, 10.5f})));
}

TEST(LpPool, Norm) {
  EXPECT_TRUE(close_to(run_op_tensor({"LpPool", {row({3, -4, 0})}, {{"kernel_shape", Integers{2}}}}), row({5, 4})));
}

TEST(GlobalPooling, ReducesSpace) {
  const Tensor x = Tensor::from<float>({1, 2, 2}, {1, 3, -6, 8});
  EXPECT_TRUE(close_to(run_op_tensor({"GlobalAveragePool", {x}}), Tensor::from<float>({1, 2, 1}, {2, 1})));
  EXPECT_TRUE(close_to(run_op_tensor({"GlobalMaxPool", {x}}), Tensor::from<float>({1, 2, 1}, {3, 8})));
  EXPECT_TRUE(close_to(run_op_tensor({"GlobalLpPool", {x}}), Tensor::from<float>({1, 2, 1}, {std::sqrt(10.0f), 10}),
                       Tolerance::epsilons(DType::f32, 2)));
}

TEST(MaxUnpool, ScattersIntoTheAskedShape) {
  const Tensor x = Tensor::from<float>({1, 1, 2}, {5, 7});
  const Tensor indices = Tensor::from<std::int64_t>({1, 1, 2}, {1, 2});
  const ir::Attributes attributes{{"kernel_shape", Integers{2}}, {"strides", Integers{2}}};
  EXPECT_TRUE(close_to(run_op_tensor({"MaxUnpool", {x, indices}, attributes}), row({0, 5, 7, 0})));
  const Tensor shape = Tensor::from<std::int64_t>({3}, {1, 1, 5});
  EXPECT_TRUE(close_to(run_op_tensor({"MaxUnpool", {x, indices, shape}, attributes}), row({0, 5, 7, 0, 0})));
}

TEST(MaxUnpool, RefusesIndicesOutside) {
  try {
    run_op({"MaxUnpool", {row({5}), Tensor::from<std::int64_t>({1, 1, 1}, {-1})}, {{"kernel_shape", Integers{2}}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failed);
    EXPECT_EQ(error.message(), "index -1 is outside [0, 2)");
  }
}

TEST(Pooling, KeepsSymbolicBatch) {
  const ir::Dim batch = ir::Dim::symbol("batch");
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, ir::Dims{batch, 3, 8, 8});
  EXPECT_EQ(infer_op("AveragePool", {x}, {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{2, 2}}})[0],
            ir::ValueType::tensor(DType::f32, ir::Dims{batch, 3, 4, 4}));
  EXPECT_EQ(infer_op("GlobalMaxPool", {x})[0], ir::ValueType::tensor(DType::f32, ir::Dims{batch, 3, 1, 1}));
}

TEST(Pooling, RefusesWindowsLargerThanTheInput) {
  try {
    run_op({"MaxPool", {row({1, 2, 3})}, {{"kernel_shape", Integers{5}}}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_model);
    EXPECT_EQ(error.message(),
              "a window of 5 positions (kernel 5, dilation 1) is larger than the padded input of 3 at spatial axis 0");
  }
}

// As onnxruntime has it: the window is clipped, or there is no result.
TEST(Pooling, WindowsLittleLargerThanTheInputAreClipped) {
  struct Case {
    const char* op;
    Integers kernel, strides, pads;
    std::int64_t ceil_mode;
    std::vector<float> x, y;
  };
  for (const Case& each : std::vector<Case>{{"MaxPool", {4}, {1}, {0, 0}, 0, {1, 2, 3}, {}},
                                            {"MaxPool", {4}, {2}, {0, 0}, 0, {1, 2, 3}, {3}},
                                            {"MaxPool", {4}, {2}, {0, 0}, 0, {1, 2}, {}},
                                            {"MaxPool", {4}, {1}, {1, 0}, 0, {1, 2}, {}},
                                            {"MaxPool", {4}, {4}, {0, 0}, 0, {1}, {1}},
                                            {"MaxPool", {3}, {2}, {0, 0}, 1, {1, 2}, {2}},
                                            {"MaxPool", {3}, {2}, {0, 0}, 1, {1}, {}},
                                            {"AveragePool", {4}, {2}, {0, 0}, 0, {1, 2, 3}, {2}},
                                            {"AveragePool", {4}, {4}, {0, 0}, 0, {1, 2}, {1.5}},
                                            {"LpPool", {4}, {4}, {0, 0}, 0, {3, 4}, {5}}}) {
    const auto row_of = [](const std::vector<float>& values) {
      return Tensor::from<float>({1, 1, static_cast<std::int64_t>(values.size())}, std::span(values));
    };
    const OpCall call{
        each.op,
        {row_of(each.x)},
        {{"kernel_shape", each.kernel}, {"strides", each.strides}, {"pads", each.pads}, {"ceil_mode", each.ceil_mode}}};
    const Tensor want = row_of(each.y);
    EXPECT_TRUE(close_to(run_op_tensor(call), want)) << each.op << " of " << each.x.size();
    EXPECT_TRUE(close_to(run_op_tensor(call, "cpu"), want)) << each.op << " of " << each.x.size() << " on cpu";
  }
}

}  // namespace
}  // namespace tessera::test::pooling_test
