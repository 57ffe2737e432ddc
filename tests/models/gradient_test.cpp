// Which nets can be trained: gradients of all their weights, and their values against central differences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "models/models.h"
#include "ops/core/builder.h"
#include "passes/training/differentiate.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "support/float64_graph.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::test::gradient_test {
namespace {

std::vector<ir::ValueId> weights_of(const ir::Graph& graph) {
  std::vector<ir::ValueId> weights;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* constant = graph.constant(id);
    if (constant != nullptr && is_float(constant->dtype()) && constant->rank() > 0) weights.push_back(id);
  }
  return weights;
}

TEST(Gradients, OfEveryNetWithSymbolicShapes) {
  for (const models::ModelEntry& net : models::all_models()) {
    SCOPED_TRACE(net.name);
    ir::Graph graph = models::build_model(net.name, {.fill_weights = false});
    const std::vector<ir::ValueId> weights = weights_of(graph);
    ASSERT_FALSE(weights.empty());
    const std::vector<ir::ValueId> gradients = passes::build_gradients(graph, graph.outputs()[0], weights);
    ASSERT_EQ(gradients.size(), weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i)
      EXPECT_EQ(graph.value(gradients[i]).type, graph.value(weights[i]).type) << graph.value(weights[i]).name;
  }
}

// A net of float64 whose weights are inputs and whose result is one number: a weighted sum of the elements of its first
// output, with weights that make no derivative vanish because a softmax sums to one.
struct Trainable {
  ir::Graph graph;
  ir::ValueId loss;
  std::vector<ir::ValueId> weights;  // inputs
  NamedValues values;                // of the weights
};

Trainable trainable(ir::Graph net) {
  Trainable result{test::float64_graph(std::move(net)), {}, {}, {}};
  ir::Graph& graph = result.graph;
  graph.remove_dead_and_compact();
  std::vector<ir::ValueId> replacements(graph.value_count());
  for (const ir::ValueId weight : weights_of(graph)) {
    const std::string name = "weight_" + std::to_string(result.weights.size());
    result.values[name] = *graph.constant(weight);
    result.weights.push_back(graph.add_input(name, graph.value(weight).type));
    replacements[static_cast<std::size_t>(weight.index)] = result.weights.back();
  }
  graph.replace_uses(replacements);
  ops::GraphBuilder builder(graph);
  const ir::ValueId output = graph.outputs()[0];
  const ir::ValueId factors =
      graph.add_constant(random_tensor(DType::f64, *graph.value(output).type.shape(), 11, 1, 3));
  result.loss = builder.add("ReduceSum", {builder.add("Mul", {output, factors})}, {{"keepdims", std::int64_t{0}}});
  graph.set_outputs({result.loss});
  return result;
}

double sum_of_products(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

// The values of the weights moved by `step` along `directions`.
NamedValues moved(const NamedValues& inputs, const NamedValues& directions, double step) {
  NamedValues result = inputs;
  for (const auto& [name, direction] : directions) {
    const Tensor& from = inputs.at(name).tensor();
    Tensor to(DType::f64, from.shape());
    for (std::int64_t i = 0; i < to.elements(); ++i)
      to.mutable_data<double>()[i] = from.data<double>()[i] + step * direction.tensor().data<double>()[i];
    result[name] = to;
  }
  return result;
}

class GradientValues : public testing::TestWithParam<std::string> {};

// For each weight, along its gradient, where the derivative is the gradient's norm; and along one random direction of
// all weights.
TEST_P(GradientValues, AreThoseOfCentralDifferences) {
  constexpr double kStep = 1e-5, kTolerance = 1e-5, kRounding = 1e-8;
  models::BuildOptions options;
  for (const models::ModelEntry& net : models::all_models()) {
    if (net.name != GetParam()) continue;
    for (const char* dim : {"batch", "seq"}) {
      if (net.dims.find(dim) != std::string_view::npos) options.dims[dim] = dim == std::string_view("batch") ? 1 : 4;
    }
  }
  ir::Graph net = models::build_model(GetParam(), options);
  NamedValues inputs;
  for (const auto& [name, value] : runtime::random_inputs(Model(std::make_shared<const ir::Graph>(net)), 5))
    inputs.emplace(name, float64_tensor(value.tensor()));
  const Trainable forward = trainable(net);
  Trainable backward = trainable(std::move(net));
  inputs.insert(forward.values.begin(), forward.values.end());
  backward.graph.set_outputs(passes::build_gradients(backward.graph, backward.loss, backward.weights));
  std::vector<std::string> names;
  for (const ir::ValueId gradient : backward.graph.outputs()) names.push_back(backward.graph.value(gradient).name);
  const SessionOptions reference{.device = "reference"};
  Session gradients(Model(std::make_shared<const ir::Graph>(std::move(backward.graph))), reference);
  Session values(Model(std::make_shared<const ir::Graph>(forward.graph)), reference);
  const auto derivative = [&](const NamedValues& directions, double step) {
    double difference = 0;
    for (const int sign : {1, -1})
      difference += sign * *values.run(moved(inputs, directions, sign * step)).begin()->second.tensor().data<double>();
    return difference / (2 * step);
  };
  const NamedValues stated = gradients.run(inputs);
  NamedValues everywhere;
  double along_random = 0, all_norms = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string weight = "weight_" + std::to_string(i);
    SCOPED_TRACE(weight);
    const Tensor& gradient = stated.at(names[i]).tensor();
    ASSERT_EQ(gradient.shape(), inputs.at(weight).tensor().shape());
    const double norm = std::sqrt(sum_of_products(gradient, gradient));
    const Tensor random = random_tensor(DType::f64, gradient.shape(), 100 + i, -1, 1);
    everywhere[weight] = random;
    along_random += sum_of_products(gradient, random);
    all_norms += norm;
    if (norm == 0) continue;
    EXPECT_NEAR(derivative({{weight, gradient}}, kStep / norm) / norm, norm, kTolerance * norm + kRounding);
  }
  EXPECT_GT(all_norms, 0);
  // Over all weights the step is longer, and must pass the corner of no rectifier.
  EXPECT_NEAR(derivative(everywhere, kStep / 100), along_random, kTolerance * all_norms + kRounding);
}

// Small nets; those that take minutes too, where TESSERA_SLOW_TESTS is set.
std::vector<std::string> small_nets() {
  std::vector<std::string> names{"lenet5",          "mlp",
                                 "cnn_digits",      "conv1d",
                                 "dlrm_small",      "transformer_small",
                                 "masked_lm",       "gru_classifier",
                                 "lstm_classifier", "resnet8",
                                 "unet_small"};
  if (std::getenv("TESSERA_SLOW_TESTS") != nullptr) {
    for (const char* name : {"bert_mini", "mobilenet_v3_small", "resnet18"}) names.emplace_back(name);
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(Nets, GradientValues, testing::ValuesIn(small_nets()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tessera::test::gradient_test
