// Denormal numbers in runs: zeros where the CPU computes them (ADR 0012).
#include <gtest/gtest.h>

#include <algorithm>

#include "base/numbers/float_state.h"
#include "ops/core/builder.h"
#include "tessera/session.h"

namespace tessera::runtime::denormal_numbers_test {
namespace {

// The only output, for inputs "x" (and "y").
std::vector<double> outputs_on(const std::string& device, const ir::Graph& graph, const NamedValues& inputs) {
  const Tensor result =
      Session(Model(std::make_shared<const ir::Graph>(graph)), {.device = device}).run(inputs).at("result").tensor();
  std::vector<double> numbers;
  if (result.dtype() == DType::f32) std::ranges::copy(result.values<float>(), std::back_inserter(numbers));
  else std::ranges::copy(result.values<bool>(), std::back_inserter(numbers));
  return numbers;
}

ir::Graph graph_of(const std::string& op, const Tensor& constant) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId result = builder.add(
      op, {graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{4})), builder.constant(constant)});
  graph.value(result).name = "result";
  graph.add_output(result);
  return graph;
}

const Tensor kSmall = Tensor::from<float>({4}, {1e-20f, -1e-30f, 1.0f, 1e-40f});

TEST(DenormalNumbers, ResultsAreZeroOnTheCpu) {
  const ir::Graph graph = graph_of("Mul", Tensor::from<float>({4}, {1e-20f, 1e-10f, 1e-30f, 1e10f}));
  const std::vector<double> exact = outputs_on("reference", graph, {{"x", kSmall}}),
                            flushed = outputs_on("cpu", graph, {{"x", kSmall}});
  EXPECT_NEAR(exact[0], 1e-40, 1e-44);
  EXPECT_NEAR(exact[1], -1e-40, 1e-44);
  EXPECT_EQ(flushed[0], 0);
  EXPECT_EQ(flushed[1], 0);
  EXPECT_EQ(flushed[2], exact[2]);
  EXPECT_EQ(flushed[3], exact[3]);  // a denormal operand is what it is
}

TEST(DenormalNumbers, AreNoZerosInComparisons) {
  EXPECT_EQ(outputs_on("cpu", graph_of("Equal", Tensor::from<float>({4}, {0, 0, 1, 0})), {{"x", kSmall}}),
            (std::vector<double>{0, 0, 1, 0}));
}

TEST(DenormalNumbers, AreZerosAmongPackedWeights) {
  std::vector<float> weights(4 * 64);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i % 3 == 0 ? 1e-38f : 1.2e-38f * static_cast<float>(i);
  const Tensor x = Tensor::from<float>({4}, {1e30f, 1e30f, 1e30f, 1e30f});
  const std::vector<double> found =
      outputs_on("cpu", graph_of("MatMul", Tensor::from<float>({4, 64}, weights)), {{"x", x}});
  for (std::size_t column = 0; column < 64; ++column) {
    double sum = 0;
    for (std::size_t row = 0; row < 4; ++row)
      sum += (row * 64 + column) % 3 == 0 ? 0.0 : 1e30 * weights[row * 64 + column];
    EXPECT_NEAR(found[column], sum, 1e-10) << column;
  }
}

TEST(DenormalNumbers, TheCallersThreadKeepsItsState) {
  const std::uint32_t before = base::float_state();
  outputs_on("cpu", graph_of("Mul", Tensor::scalar(2.0f)), {{"x", kSmall}});
  EXPECT_EQ(base::float_state(), before);
}

}  // namespace
}  // namespace tessera::runtime::denormal_numbers_test
