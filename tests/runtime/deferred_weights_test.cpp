// Weights that passes scale are computed when kernels pack them, and are in memory for no longer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/numbers/half.h"
#include "io/onnx/writer.h"
#include "ops/core/builder.h"
#include "runtime/session/environment.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"

namespace tessera::runtime::deferred_weights_test {
namespace {

// As a file has it, in memory that is mapped.
Model from_file(const ir::Graph& graph) {
  const test::TemporaryFolder folder;
  io::write_model(graph, folder.path() / "model.onnx");
  return Model::load(folder.path() / "model.onnx");
}

// Layers whose weights are large enough to be deferred, each with a factor a channel behind it.
Model scaled_layers() {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  std::uint64_t seed = 0;
  const auto constant = [&](Shape shape, double low) {
    return builder.constant(test::random_tensor(DType::f32, std::move(shape), ++seed, low, 1.0));
  };
  const auto scaled = [&](ir::ValueId y, Shape factors) {
    return builder.add("Relu", {builder.add("Mul", {y, constant(std::move(factors), 0.5)})});
  };
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{1, 32, 9, 9}));
  ir::ValueId y = scaled(builder.add("Conv", {x, constant({64, 32, 3, 3}, -1)}), {64, 1, 1});
  y = scaled(builder.add("Conv", {y, constant({80, 64, 1, 1}, -1)}), {80, 1, 1});
  y = scaled(builder.add("ConvTranspose", {y, constant({80, 24, 2, 2}, -1)}), {24, 1, 1});
  y = scaled(builder.add("MatMul", {builder.add("Flatten", {y}), constant({24 * 64, 40}, -1)}), {40});
  graph->value(y).name = "y";
  graph->add_output(y);
  return from_file(*graph);
}

std::int64_t deferred_constants(const ir::Graph& graph) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Tensor* constant = graph.constant(ir::ValueId{static_cast<std::int32_t>(i)});
    count += constant != nullptr && constant->is_deferred() ? 1 : 0;
  }
  return count;
}

// The norm of what parts them, of the norm of what is expected.
double distance(const Tensor& actual, const Tensor& expected) {
  double parts = 0, whole = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(expected.elements()); ++i) {
    parts += std::pow(actual.values<float>()[i] - expected.values<float>()[i], 2);
    whole += std::pow(expected.values<float>()[i], 2);
  }
  return std::sqrt(parts / whole);
}

class DeferredWeights : public testing::TestWithParam<SessionOptions> {};

TEST_P(DeferredWeights, KernelsPackThemAndKeepNothingElse) {
  const Model model = scaled_layers();
  const Tensor x = test::random_tensor(DType::f32, {1, 32, 9, 9}, 9, -1.0, 1.0);
  const ProgramEnvironment environment = make_environment(model, GetParam());
  const std::unique_ptr<Program> program = make_program(model, GetParam(), environment);
  RunControl control;
  const std::vector<Value> outputs = program->run({x}, control);
  EXPECT_EQ(deferred_constants(program->plan_for({x})->plan->graph), 4);

  SessionOptions plain = GetParam();
  plain.precision = DType::f32;
  plain.without_passes.emplace_back("fold_channel_arithmetic");
  const Tensor expected = Session(model, plain).run({{"x", x}}).at("y").tensor();
  EXPECT_LT(distance(outputs[0].tensor(), expected), GetParam().precision == DType::f32 ? 1e-5 : 2e-2);
}

TEST(DeferredWeightsOnce, HalvesBecomeFloatsWhileTheyArePacked) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f16, ir::Dims{3, 128}));
  const Tensor weights = test::random_tensor(DType::f16, {128, 96}, 1);
  graph->add_output(builder.add("MatMul", {x, builder.constant(weights)}));
  const Model model = from_file(*graph);
  const Tensor data = test::random_tensor(DType::f16, {3, 128}, 2);
  const ProgramEnvironment environment = make_environment(model, {});
  const std::unique_ptr<Program> program = make_program(model, {}, environment);
  RunControl control;
  const Tensor y = program->run({data}, control)[0].tensor();
  EXPECT_EQ(deferred_constants(program->plan_for({data})->plan->graph), 1);
  for (std::int64_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < 128; ++k)
      sum += base::to_float(data.values<f16_t>()[static_cast<std::size_t>(i * 128 + k)]) *
             base::to_float(weights.values<f16_t>()[static_cast<std::size_t>(k * 96)]);
    EXPECT_NEAR(base::to_float(y.values<f16_t>()[static_cast<std::size_t>(i * 96)]), sum, 1e-2);
  }
}

// Weights of bytes as exporters of weight-only models spell them out: by the axis of the columns, or of the rows.
ir::ValueId weights_of_bytes(ops::GraphBuilder& builder, const std::string& how) {
  const bool by_rows = how.ends_with("rows"), is_signed = !how.starts_with("u8");
  const std::int64_t count = by_rows ? 128 : 96;
  const ir::ValueId bytes = builder.constant(test::random_tensor(is_signed ? DType::i8 : DType::u8, {128, 96}, 1,
                                                                 is_signed ? -128 : 0, is_signed ? 127 : 255));
  const Tensor scales = test::random_tensor(DType::f32, {count}, 2, 0.01, 0.02),
               zeros = test::random_tensor(is_signed ? DType::i8 : DType::u8, {count}, 3, 0, 99);
  if (how.find("dequantised") != std::string::npos)
    return builder.add("DequantizeLinear", {bytes, builder.constant(scales), builder.constant(zeros)},
                       {{"axis", std::int64_t{by_rows ? -2 : 1}}});
  const Shape shape = by_rows ? Shape{count, 1} : Shape{count};
  const ir::ValueId floats = builder.cast(bytes, DType::f32),
                    shifts = builder.cast(builder.constant(zeros.reshaped(shape)), DType::f32);
  return builder.add("Mul", {builder.constant(scales.reshaped(shape)),
                             builder.add("Add", {builder.add("Sub", {floats, shifts}), builder.scalar(0.5)})});
}

class WeightsOfBytes : public testing::TestWithParam<std::string> {};

TEST_P(WeightsOfBytes, AreWidenedWhileTheyArePacked) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{3, 128}));
  ir::ValueId y = builder.add("MatMul", {x, weights_of_bytes(builder, GetParam())});
  graph->value(y).name = "y";
  graph->add_output(y);
  const Model model = from_file(*graph);
  const Tensor data = test::random_tensor(DType::f32, {3, 128}, 4, -1.0, 1.0);
  const ProgramEnvironment environment = make_environment(model, {});
  const std::unique_ptr<Program> program = make_program(model, {}, environment);
  RunControl control;
  const Tensor result = program->run({data}, control)[0].tensor();
  EXPECT_EQ(deferred_constants(program->plan_for({data})->plan->graph), 1);
  EXPECT_EQ(program->plan_for({data})->plan->graph.node_count(), 1u);
  const Tensor expected =
      Session(model, {.device = "reference", .without_passes = {"fold_constants"}}).run({{"x", data}}).at("y").tensor();
  EXPECT_LT(distance(result, expected), 1e-6);
}

// Weights of a convolution, by output channel and by input channel.
TEST(DeferredWeightsOnce, BytesByAnAxisInTheMiddle) {
  for (const std::int64_t axis : {0, 1, -3}) {
    auto graph = std::make_shared<ir::Graph>();
    ops::GraphBuilder builder(*graph);
    const std::int64_t count = axis == 0 ? 24 : 40;
    const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{1, 40, 7, 7}));
    const ir::ValueId bytes = builder.constant(test::random_tensor(DType::i8, {24, 40, 3, 3}, 1, -128, 127));
    const ir::ValueId scales = builder.constant(test::random_tensor(DType::f32, {count}, 2, 0.01, 0.02)),
                      zeros = builder.constant(test::random_tensor(DType::i8, {count}, 3, 0, 99));
    const ir::ValueId factors = builder.constant(test::random_tensor(DType::f32, {40, 1, 1}, 4, 0.5, 1.0));
    const ir::ValueId weights =
        builder.add("Mul", {builder.add("DequantizeLinear", {bytes, scales, zeros}, {{"axis", axis}}), factors});
    const ir::ValueId y = builder.add("Conv", {x, weights});
    graph->value(y).name = "y";
    graph->add_output(y);
    const Model model = from_file(*graph);
    const Tensor data = test::random_tensor(DType::f32, {1, 40, 7, 7}, 5, -1.0, 1.0);
    const ProgramEnvironment environment = make_environment(model, {});
    const std::unique_ptr<Program> program = make_program(model, {}, environment);
    RunControl control;
    const Tensor result = program->run({data}, control)[0].tensor();
    EXPECT_EQ(deferred_constants(program->plan_for({data})->plan->graph), 1) << axis;
    const Tensor expected = Session(model, {.device = "reference", .without_passes = {"fold_constants"}})
                                .run({{"x", data}})
                                .at("y")
                                .tensor();
    EXPECT_LT(distance(result, expected), 1e-6) << axis;
  }
}

// By what makes a constant larger, differs along two axes or is as large itself.
TEST(DeferredWeightsOnce, SumsOfConstantsOfManyShapes) {
  for (const Shape& shape : {Shape{3, 64, 96}, Shape{64, 96}, Shape{64 * 96}}) {
    auto graph = std::make_shared<ir::Graph>();
    ops::GraphBuilder builder(*graph);
    const bool is_vector = shape.size() == 1;
    const Tensor a = test::random_tensor(DType::f32, is_vector ? shape : Shape{64, 96}, 1),
                 b = test::random_tensor(DType::f32, shape, 2);
    const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{1}));
    const ir::ValueId y = builder.add("Mul", {builder.add("Add", {builder.constant(a), builder.constant(b)}), x});
    graph->value(y).name = "y";
    graph->add_output(y);
    const Model model = from_file(*graph);
    const Tensor one = Tensor::from<float>({1}, {1});
    const ProgramEnvironment environment = make_environment(model, {});
    const std::unique_ptr<Program> program = make_program(model, {}, environment);
    RunControl control;
    const Tensor result = program->run({one}, control)[0].tensor();
    for (std::size_t i = 0; i < static_cast<std::size_t>(b.elements()); i += 17) {
      EXPECT_EQ(result.values<float>()[i],
                a.values<float>()[i % static_cast<std::size_t>(a.elements())] + b.values<float>()[i])
          << i;
    }
  }
}

// As a hostile file may have it: reading the last must not take the stack of all.
TEST(DeferredWeightsOnce, LongChainsOfSums) {
  constexpr int kSums = 40000;
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  ir::ValueId weights = builder.constant(Tensor::from<float>({64, 64}, std::vector<float>(64 * 64, 1.0f)));
  const ir::ValueId one = builder.scalar(1);
  for (int i = 0; i < kSums; ++i) weights = builder.add("Add", {weights, one});
  const ir::ValueId y =
      builder.add("MatMul", {graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{1, 64})), weights});
  graph->value(y).name = "y";
  graph->add_output(y);
  const SessionOptions options{.max_folded_bytes = std::int64_t{4} << 30, .max_folded_operations = 1e12};
  const Tensor x = Tensor::from<float>({1, 64}, std::vector<float>(64, 1.0f));
  EXPECT_EQ(Session(from_file(*graph), options).run({{"x", x}}).at("y").tensor().values<float>()[0],
            64.0f * (kSums + 1));
}

INSTANTIATE_TEST_SUITE_P(Forms, WeightsOfBytes,
                         testing::Values("i8 columns", "u8 rows", "i8 dequantised columns", "u8 dequantised rows"));

TEST(DeferredWeightsOnce, WhatAKernelReadsAsItIsIsCharged) {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  const auto deferred = [&](Shape shape) {
    return builder.constant(Tensor::deferred(
        DType::f32, shape, [shape](void* to) { std::fill_n(static_cast<float*>(to), element_count(shape), 1.0f); }));
  };
  const ir::ValueId rows = graph->add_input("rows", ir::ValueType::tensor(DType::i64, ir::Dims{5}));
  graph->add_output(builder.add("MatMul", {builder.add("Gather", {deferred({400, 64}), rows}), deferred({64, 128})}));
  const Model model(graph);
  const ProgramEnvironment environment = make_environment(model, {});
  const std::unique_ptr<Program> program = make_program(model, {}, environment);
  const std::int64_t before = environment.account->used(Purpose::weights);
  RunControl control;
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(
        program->run({Tensor::from<std::int64_t>({5}, {0, 1, 2, 3, 399})}, control)[0].tensor().values<float>()[7],
        64.0f);
    EXPECT_EQ(environment.account->used(Purpose::weights) - before, 400 * 64 * 4);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, DeferredWeights,
                         testing::Values(SessionOptions{}, SessionOptions{.precision = DType::bf16},
                                         SessionOptions{.without_passes = {"channels_last"}}));

}  // namespace
}  // namespace tessera::runtime::deferred_weights_test
