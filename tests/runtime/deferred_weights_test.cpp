// Weights that passes scale are computed when kernels pack them, and are in memory for no longer.
#include <gtest/gtest.h>

#include <cmath>

#include "base/thread_pool.h"
#include "ops/builder.h"
#include "runtime/environment.h"
#include "support/random_tensor.h"

namespace tessera::runtime {
namespace {

// Layers whose weights are large enough to be deferred, each with a factor a channel behind it.
Model scaled_layers() {
  auto graph = std::make_shared<ir::Graph>();
  ops::GraphBuilder builder(*graph);
  std::uint64_t seed = 0;
  const auto constant = [&](Shape shape, double low) { return builder.constant(test::random_tensor(DType::f32, std::move(shape), ++seed, low, 1.0)); };
  const auto scaled = [&](ir::ValueId y, Shape factors) { return builder.add("Relu", {builder.add("Mul", {y, constant(std::move(factors), 0.5)})}); };
  const ir::ValueId x = graph->add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{1, 32, 9, 9}));
  ir::ValueId y = scaled(builder.add("Conv", {x, constant({64, 32, 3, 3}, -1)}), {64, 1, 1});
  y = scaled(builder.add("Conv", {y, constant({80, 64, 1, 1}, -1)}), {80, 1, 1});
  y = scaled(builder.add("ConvTranspose", {y, constant({80, 24, 2, 2}, -1)}), {24, 1, 1});
  y = scaled(builder.add("MatMul", {builder.add("Flatten", {y}), constant({24 * 64, 40}, -1)}), {40});
  graph->value(y).name = "y";
  graph->add_output(y);
  return Model(graph);
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

INSTANTIATE_TEST_SUITE_P(Kernels, DeferredWeights, testing::Values(SessionOptions{}, SessionOptions{.precision = DType::bf16}, SessionOptions{.without_passes = {"channels_last"}}));

}  // namespace
}  // namespace tessera::runtime
