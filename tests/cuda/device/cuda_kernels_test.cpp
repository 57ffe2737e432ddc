// Launches of the CUDA backend on the simulated driver, whose kernels run in the emulation, against the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/backend_table.h"
#include "support/device_call.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/tolerance.h"

namespace tessera::test::cuda_kernels_test {
namespace {

const backends::Device& gpu() {
  return backends::find_device("cuda");
}

// Directly and from a recording. `n`: epsilons of the result's type.
void expect_as_reference(const OpCall& call, const std::vector<bool>& constants = {}, double n = 16) {
  const Tensor actual = run_on_device(gpu(), call, constants), expected = run_op_tensor(call);
  EXPECT_TRUE(close_to(actual, expected, Tolerance::epsilons(expected.dtype(), n))) << call.op;
  EXPECT_TRUE(close_to(run_captured(gpu(), call, constants), actual, Tolerance::epsilons(expected.dtype(), 0)))
      << call.op << " captured";
}

Tensor matrix(DType type, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return random_tensor(type, {rows, columns}, seed);
}

constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

TEST(CudaKernels, GemmWithAndWithoutTransposedWeights) {
  for (const DType type : kTypes) {
    for (const std::int64_t depth : {1, 7, 32, 100}) {
      for (const std::int64_t transposed : {0, 1}) {
        const Tensor w = transposed != 0 ? matrix(type, 33, depth, 2) : matrix(type, depth, 33, 2);
        expect_as_reference(
            {"Gemm", {matrix(type, 5, depth, 1), w, random_tensor(type, {33}, 3)}, {{"transB", transposed}}},
            {false, true, true});
      }
    }
  }
}

TEST(CudaKernels, ProductsOfBatches) {
  expect_as_reference({"MatMul", {random_tensor(DType::f32, {2, 3, 17}, 1), matrix(DType::f32, 17, 70, 2)}},
                      {false, true});
}

TEST(CudaKernels, LinearWithItsEpilogue) {
  for (const char* const activation : {"", "Relu", "Gelu", "Sigmoid", "Tanh"}) {
    ir::Attributes attributes;
    if (*activation != '\0') attributes.insert({"activation", std::string(activation)});
    expect_as_reference({"tessera::Linear",
                         {matrix(DType::f32, 9, 20, 1), matrix(DType::f32, 20, 12, 2),
                          random_tensor(DType::f32, {12}, 3), matrix(DType::f32, 9, 12, 4)},
                         attributes},
                        {false, true, true, false});
  }
}

TEST(CudaKernels, Rows) {
  for (const DType type : kTypes) {
    for (const std::int64_t columns : {1, 5, 300}) {
      const Tensor x = random_tensor(type, {2, 3, columns}, 1), scale = random_tensor(type, {columns}, 2),
                   bias = random_tensor(type, {columns}, 3);
      expect_as_reference({"Softmax", {x}});
      expect_as_reference({"LogSoftmax", {x}});
      expect_as_reference({"RMSNormalization", {x, scale}});
      if (columns > 1) expect_as_reference({"LayerNormalization", {x, scale, bias}});
    }
  }
}

TEST(CudaKernels, ElementWiseOperatorsThatBroadcast) {
  const Tensor x = random_tensor(DType::f32, {2, 3, 1, 5}, 1), y = random_tensor(DType::f32, {4, 1}, 2);
  for (const char* const op : {"Add", "Sub", "Mul", "Div", "Min", "Max"}) expect_as_reference({op, {x, y}});
  for (const char* const op : {"Abs", "Neg", "Exp", "Erf", "Floor", "Round", "Relu", "Sigmoid", "Tanh", "HardSwish",
                               "LeakyRelu", "HardSigmoid", "Swish", "Reciprocal"})
    expect_as_reference({op, {x}});
}

TEST(CudaKernels, Convolutions) {
  for (const DType type : kTypes) {
    const Tensor x = random_tensor(type, {2, 4, 9, 7}, 1), bias = random_tensor(type, {6}, 3);
    expect_as_reference(
        {"Conv",
         {x, random_tensor(type, {6, 4, 3, 2}, 2), bias},
         {{"pads", std::vector<std::int64_t>{1, 0, 2, 1}}, {"strides", std::vector<std::int64_t>{2, 1}}}},
        {false, true, true});
    expect_as_reference({"Conv",
                         {x, random_tensor(type, {6, 2, 2, 3}, 2)},
                         {{"group", std::int64_t{2}}, {"dilations", std::vector<std::int64_t>{3, 2}}}},
                        {false, true});
  }
}

TEST(CudaKernels, Pooling) {
  const Tensor x = random_tensor(DType::f32, {2, 3, 9, 7}, 1);
  const ir::Attributes window{{"kernel_shape", std::vector<std::int64_t>{3, 2}},
                              {"strides", std::vector<std::int64_t>{2, 2}},
                              {"pads", std::vector<std::int64_t>{1, 0, 1, 1}}};
  ir::Attributes with_pads = window;
  with_pads.insert({"count_include_pad", std::int64_t{1}});
  expect_as_reference({"MaxPool", {x}, window});
  expect_as_reference({"AveragePool", {x}, window});
  expect_as_reference({"AveragePool", {x}, with_pads});
  expect_as_reference({"GlobalMaxPool", {x}});
  expect_as_reference({"GlobalAveragePool", {x}});
}

TEST(CudaKernels, ProductsOfComputedMatrices) {
  for (const DType type : kTypes) {
    const Tensor a = random_tensor(type, {2, 1, 5, 16}, 1);
    expect_as_reference({"MatMul", {a, random_tensor(type, {3, 16, 9}, 2)}});
    expect_as_reference({"MatMul", {a, random_tensor(type, {16, 7}, 2)}});
    expect_as_reference({"MatMul", {matrix(type, 4, 7, 1), random_tensor(type, {2, 7, 3}, 2)}});
  }
}

TEST(CudaKernels, Movement) {
  const auto list = [](std::vector<std::int64_t> values) {
    return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
  };
  for (const DType type : {DType::u8, DType::f16, DType::f32, DType::i64}) {
    const Tensor x = random_tensor(type, {3, 4, 5, 2}, 1, 0, 100);
    expect_as_reference({"Transpose", {x}, {{"perm", std::vector<std::int64_t>{2, 0, 3, 1}}}});
    expect_as_reference({"Transpose", {x}});
    expect_as_reference({"Expand", {random_tensor(type, {4, 1}, 2, 0, 100), list({2, 4, 3})}}, {false, true});
    expect_as_reference({"Slice", {x, list({2, -1}), list({-100, 0}), list({0, 2}), list({-1, -2})}},
                        {false, true, true, true, true});
    expect_as_reference({"Concat", {x, random_tensor(type, {3, 2, 5, 2}, 2, 0, 100), x}, {{"axis", std::int64_t{1}}}});
  }
  expect_as_reference({"Flatten", {random_tensor(DType::f32, {3, 2, 4}, 1)}});
  expect_as_reference({"Reshape", {random_tensor(DType::f32, {3, 8}, 1), list({4, 6})}}, {false, true});
  const OpCall split{"Split", {random_tensor(DType::f32, {3, 6}, 1), list({2, 4})}, {{"axis", std::int64_t{1}}}, 2};
  expect_as_reference(split, {false, true});
}

Tensor integers(DType type, const Shape& shape, const std::vector<std::int64_t>& values) {
  Tensor tensor(type, shape);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == DType::i64) tensor.mutable_data<std::int64_t>()[i] = values[i];
    else tensor.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
  }
  return tensor;
}

TEST(CudaKernels, GathersAndScatters) {
  for (const DType type : {DType::u8, DType::bf16, DType::f32, DType::i64}) {
    for (const DType index : {DType::i32, DType::i64}) {
      const Tensor x = random_tensor(type, {3, 5, 2, 7}, 1, 0, 100);
      for (const std::int64_t axis : {0, 1, -1})
        expect_as_reference({"Gather", {x, integers(index, {2, 2}, {0, -1, 1, 1})}, {{"axis", axis}}});
    }
    const Tensor x = random_tensor(type, {3, 5, 2, 7}, 1, 0, 100);
    expect_as_reference({"Gather", {x, integers(DType::i64, {}, {2})}});
    expect_as_reference({"GatherND", {x, integers(DType::i64, {2, 1, 2}, {2, -5, 0, 4})}});
    expect_as_reference(
        {"GatherND", {x, integers(DType::i64, {3, 2, 1}, {1, 0, 4, -1, 2, 2})}, {{"batch_dims", std::int64_t{1}}}});
    const Tensor flat = random_tensor(type, {3, 4}, 1, 0, 100);
    const Tensor places = integers(DType::i64, {2, 4}, {2, 0, -1, 1, 0, 1, 1, 2});
    expect_as_reference({"GatherElements", {flat, places}, {{"axis", std::int64_t{0}}}});
    expect_as_reference({"ScatterElements", {flat, places, random_tensor(type, {2, 4}, 2, 0, 100)}});
    expect_as_reference(
        {"ScatterND", {x, integers(DType::i64, {2, 2}, {2, -5, 0, 4}), random_tensor(type, {2, 2, 7}, 2, 0, 100)}});
  }
}

// The run fails where it waits for the device, and the next one is right.
TEST(CudaKernels, AnIndexOutsideItsAxisFails) {
  const Tensor x = random_tensor(DType::f32, {3, 4}, 1);
  for (const std::int64_t index : {3, -4}) {
    expect_error_containing(ErrorKind::failed, "index " + std::to_string(index) + " is outside [-3, 3)",
                            [&] { run_on_device(gpu(), {"Gather", {x, integers(DType::i64, {2}, {1, index})}}); });
  }
  expect_as_reference({"Gather", {x, integers(DType::i64, {2}, {1, 2})}});
}

TEST(CudaKernels, Reductions) {
  for (const DType type : kTypes) {
    const Tensor x = random_tensor(type, {3, 5, 2, 70}, 1, 0.5, 1.5);
    for (const char* const op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
                                 "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
      for (const std::vector<std::int64_t>& axes : {std::vector<std::int64_t>{-1}, {0, 2}, {1}, {1, 3}, {0, 1, 2, 3}}) {
        expect_as_reference({op,
                             {x, integers(DType::i64, {static_cast<std::int64_t>(axes.size())}, axes)},
                             {{"keepdims", static_cast<std::int64_t>(axes.size() % 2)}}},
                            {false, true}, 64);
      }
    }
    expect_as_reference({"ReduceProd", {random_tensor(type, {3, 7}, 1), integers(DType::i64, {1}, {1})}},
                        {false, true});
    expect_as_reference({"ReduceMean", {x}});
  }
  expect_as_reference({"ReduceMax", {Tensor::from<float>({3}, {1, NAN, 2})}});
  expect_as_reference({"ReduceSum", {Tensor(DType::f32, {2, 0}), integers(DType::i64, {1}, {1})}}, {false, true});
  expect_as_reference({"ReduceLogSumExp", {Tensor::from<float>({3}, {-INFINITY, -INFINITY, -INFINITY})}});
}

// Threads reduce a result each where there are many results and the innermost axis is kept.
TEST(CudaKernels, ReductionsOfOuterAxes) {
  expect_as_reference({"ReduceSum", {random_tensor(DType::f32, {70, 4100}, 1), integers(DType::i64, {1}, {0})}},
                      {false, true}, 64);
}

TEST(CudaKernels, PositionsOfExtremes) {
  for (const DType type : kTypes) {
    // Few values, so that many are equal.
    const Tensor x = run_op_tensor({"Round", {random_tensor(type, {3, 70, 2}, 1, -3, 3)}});
    for (const char* const op : {"ArgMax", "ArgMin"}) {
      for (const std::int64_t last : {0, 1}) {
        for (const std::int64_t axis : {0, 1, -1})
          expect_as_reference({op, {x}, {{"axis", axis}, {"select_last_index", last}, {"keepdims", last}}});
      }
    }
  }
  for (const std::int64_t last : {0, 1})
    expect_as_reference({"ArgMin", {Tensor::from<float>({4}, {1, NAN, -1, NAN})}, {{"select_last_index", last}}});
}

TEST(CudaKernels, ComparisonsChoicesAndLogic) {
  const auto bools = [](const Shape& shape, std::uint64_t seed) {
    return run_op_tensor({"Greater", {random_tensor(DType::f32, shape, seed), Tensor::from<float>({}, {0})}});
  };
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64}) {
    const Tensor a = random_tensor(type, {3, 1, 5}, 1, -2, 2), b = random_tensor(type, {4, 1}, 2, -2, 2);
    for (const char* const op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
      expect_as_reference({op, {a, b}});
    expect_as_reference({"Where", {bools({4, 5}, 3), a, b}});
  }
  for (const char* const op : {"And", "Or", "Xor"}) expect_as_reference({op, {bools({3, 4}, 1), bools({4}, 2)}});
  expect_as_reference({"Not", {bools({3, 4}, 1)}});
  expect_as_reference({"IsNaN", {Tensor::from<float>({4}, {NAN, -INFINITY, 0, 1})}});
  for (const DType type : {DType::i32, DType::i64}) {
    for (const char* const op : {"Add", "Sub", "Mul", "Min", "Max"})
      expect_as_reference({op, {random_tensor(type, {3, 1}, 1, -90, 90), random_tensor(type, {5}, 2, -90, 90)}});
  }
}

TEST(CudaKernels, Conversions) {
  const DType types[] = {DType::f32, DType::f16, DType::bf16, DType::i8,  DType::u8,
                         DType::i32, DType::i64, DType::u32,  DType::i16, DType::boolean};
  for (const DType from : types) {
    const Tensor x = random_tensor(from, {3, 5}, 1, 0, from == DType::boolean ? 1 : 100);
    for (const DType to : types) expect_as_reference({"Cast", {x}, {{"to", static_cast<std::int64_t>(to)}}});
  }
}

TEST(CudaKernels, ActivationsWithParameters) {
  for (const DType type : kTypes) {
    const Tensor x = random_tensor(type, {3, 5}, 1, -4, 4);
    const auto scalar = [&](float value) {
      return run_op_tensor({"Cast", {Tensor::from<float>({}, {value})}, {{"to", static_cast<std::int64_t>(type)}}});
    };
    expect_as_reference({"Clip", {x, scalar(0), scalar(2.5)}}, {false, true, true});
    expect_as_reference({"Clip", {x, Value(), scalar(1)}}, {false, true, true});
    expect_as_reference({"Gelu", {x}});
    expect_as_reference({"Gelu", {x}, {{"approximate", std::string("tanh")}}});
  }
}

TEST(CudaKernels, ConvolutionsOfOneAndThreeAxes) {
  const auto list = [](std::vector<std::int64_t> values) { return values; };
  for (const DType type : kTypes) {
    const Tensor line = random_tensor(type, {2, 4, 19}, 1), volume = random_tensor(type, {1, 2, 5, 6, 7}, 1);
    expect_as_reference({"Conv",
                         {line, random_tensor(type, {6, 2, 5}, 2), random_tensor(type, {6}, 3)},
                         {{"group", std::int64_t{2}}, {"pads", list({1, 2})}, {"strides", list({3})}}},
                        {false, true, true});
    // Computed weights.
    expect_as_reference(
        {"Conv",
         {volume, random_tensor(type, {3, 2, 2, 3, 2}, 2)},
         {{"pads", list({1, 0, 2, 0, 1, 1})}, {"strides", list({2, 1, 3})}, {"dilations", list({1, 2, 1})}}});
    expect_as_reference({"MaxPool", {volume}, {{"kernel_shape", list({2, 3, 2})}, {"strides", list({2, 1, 3})}}});
    expect_as_reference({"AveragePool", {line}, {{"kernel_shape", list({4})}, {"pads", list({1, 2})}}});
    expect_as_reference({"GlobalMaxPool", {line}});
    expect_as_reference({"GlobalAveragePool", {volume}});
  }
}

TEST(CudaKernels, TransposedConvolutions) {
  const auto list = [](std::vector<std::int64_t> values) { return values; };
  for (const DType type : kTypes) {
    const Tensor x = random_tensor(type, {2, 4, 5, 6}, 1), bias = random_tensor(type, {6}, 3);
    expect_as_reference({"ConvTranspose",
                         {x, random_tensor(type, {4, 6, 3, 2}, 2), bias},
                         {{"strides", list({2, 3})},
                          {"pads", list({1, 0, 0, 1})},
                          {"output_padding", list({1, 0})},
                          {"dilations", list({2, 1})}}},
                        {false, true, true});
    expect_as_reference({"ConvTranspose",
                         {x, random_tensor(type, {4, 3, 2, 2}, 2)},
                         {{"group", std::int64_t{2}}, {"strides", list({2, 2})}}},
                        {false, true});
    expect_as_reference({"ConvTranspose",
                         {random_tensor(type, {1, 2, 9}, 1), random_tensor(type, {2, 3, 4}, 2)},
                         {{"output_shape", list({19})}, {"strides", list({2})}}},
                        {false, true});
  }
}

TEST(CudaKernels, Resizing) {
  for (const DType type : kTypes) {
    const Tensor x = random_tensor(type, {2, 3, 5, 4}, 1);
    for (const char* const coordinates : {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"}) {
      const ir::Attributes linear{{"mode", std::string("linear")},
                                  {"coordinate_transformation_mode", std::string(coordinates)}};
      expect_as_reference({"Resize", {x, Value(), Tensor::from<float>({4}, {1, 1, 2, 3})}, linear},
                          {false, false, true});
      expect_as_reference({"Resize", {x, Value(), Value(), integers(DType::i64, {4}, {2, 3, 7, 3})}, linear},
                          {false, false, false, true});
      for (const char* const rounding : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}) {
        const ir::Attributes nearest{{"nearest_mode", std::string(rounding)},
                                     {"coordinate_transformation_mode", std::string(coordinates)}};
        expect_as_reference({"Resize", {x, Value(), Tensor::from<float>({4}, {1, 1, 0.6f, 3})}, nearest},
                            {false, false, true});
      }
    }
    // An axis that is not the last.
    expect_as_reference(
        {"Resize", {x, Value(), Tensor::from<float>({4}, {1, 2, 1, 1})}, {{"mode", std::string("linear")}}},
        {false, false, true});
  }
}

TEST(CudaKernels, PaddingAndTiling) {
  for (const DType type : {DType::u8, DType::f16, DType::f32, DType::i64}) {
    const Tensor x = random_tensor(type, {3, 4, 5}, 1, 0, 100);
    const Tensor pads = integers(DType::i64, {6}, {1, 0, 2, 0, -1, 3});
    for (const char* const mode : {"constant", "reflect", "edge", "wrap"})
      expect_as_reference({"Pad", {x, pads}, {{"mode", std::string(mode)}}}, {false, true});
    expect_as_reference(
        {"Pad",
         {x, integers(DType::i64, {2}, {2, 1}), random_tensor(type, {}, 2, 3, 9), integers(DType::i64, {1}, {-1})}},
        {false, true, false, true});
    expect_as_reference({"Tile", {x, integers(DType::i64, {3}, {2, 1, 3})}}, {false, true});
  }
}

TEST(CudaKernels, RecurrentLayers) {
  for (const DType type : kTypes) {
    for (const char* const direction : {"forward", "reverse", "bidirectional"}) {
      const std::int64_t directions = direction[0] == 'b' ? 2 : 1, inputs = 37, hidden = 5;
      const ir::Attributes attributes{{"hidden_size", hidden}, {"direction", std::string(direction)}};
      ir::Attributes gru = attributes;
      gru.insert({"linear_before_reset", std::int64_t{1}});
      const Tensor x = random_tensor(type, {4, 2, inputs}, 1);
      const auto operands = [&](std::int64_t gates) {
        return std::vector<Value>{x,
                                  random_tensor(type, {directions, gates * hidden, inputs}, 2, -0.3, 0.3),
                                  random_tensor(type, {directions, gates * hidden, hidden}, 3),
                                  random_tensor(type, {directions, 2 * gates * hidden}, 4),
                                  Value(),
                                  random_tensor(type, {directions, 2, hidden}, 5)};
      };
      std::vector<Value> lstm = operands(4);
      lstm.push_back(random_tensor(type, {directions, 2, hidden}, 6));
      const std::vector<bool> constants{false, true, true, true};
      expect_as_reference({"LSTM", lstm, attributes, 3}, constants);
      expect_as_reference({"GRU", operands(3), gru, 2}, constants);
      lstm.resize(3);  // no bias, and zeros to begin with
      expect_as_reference({"LSTM", lstm, attributes}, constants);
    }
  }
}

TEST(CudaKernels, NotANumberStays) {
  const Tensor x = Tensor::from<float>({4}, {NAN, -INFINITY, INFINITY, -0.0f});
  for (const char* const op : {"Relu", "Sigmoid", "Tanh", "Abs"}) expect_as_reference({op, {x}});
  for (const char* const op : {"Min", "Max", "Add"}) expect_as_reference({op, {x, Tensor::from<float>({1}, {1.0f})}});
}

TEST(CudaKernels, NothingOfNothing) {
  expect_as_reference({"Relu", {Tensor(DType::f32, {0, 3})}});
  expect_as_reference({"Softmax", {Tensor(DType::f32, {0, 3})}});
  expect_as_reference({"MatMul", {Tensor(DType::f32, {0, 4}), matrix(DType::f32, 4, 3, 1)}}, {false, true});
}

}  // namespace
}  // namespace tessera::test::cuda_kernels_test
