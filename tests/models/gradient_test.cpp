// Which nets can be trained: gradients of all their weights.
#include <gtest/gtest.h>

#include "models/models.h"
#include "passes/differentiate.h"
#include "support/expect_error.h"

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
    if (net.name == "lstm") continue;
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

TEST(Gradients, OfRecurrentNetsAreMissing) {
  ir::Graph graph = models::build_model("lstm", {.fill_weights = false});
  const std::vector<ir::ValueId> weights = weights_of(graph);
  expect_error_containing(ErrorKind::unsupported, "no gradient is stated for LSTM",
                          [&] { passes::build_gradients(graph, graph.outputs()[0], weights); });
}

}  // namespace
}  // namespace tessera::test::gradient_test
