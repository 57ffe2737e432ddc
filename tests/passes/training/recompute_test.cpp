#include "passes/training/recompute.h"

#include <gtest/gtest.h>

#include <cstring>

#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "tessera/session.h"
#include "train/net/training_graph.h"

namespace tessera::passes::recompute_test {
namespace {

Model step_of(const char* net, std::int64_t batch, std::int64_t recompute_bytes) {
  train::TrainingGraphOptions options;
  options.optimiser.momentum = 0.9;
  options.recompute_bytes = recompute_bytes;
  const ir::Graph graph = models::build_model(net, {.dims = {{"batch", batch}}});
  options.target_dims = {ir::Dim(batch)};
  return Model(std::make_shared<const ir::Graph>(train::make_training_graph(graph, options).graph));
}

NamedValues inputs_of(const Model& step) {
  NamedValues inputs = runtime::random_inputs(step, 1);
  inputs.insert_or_assign("learning_rate", Tensor::scalar(0.01f));
  return inputs;
}

// The same arithmetic on the same numbers.
TEST(Recompute, KeepsAllBitsInLessMemory) {
  for (const char* net : {"mlp", "lenet5", "cnn_digits", "resnet8"}) {
    const Model kept = step_of(net, 16, 0), again = step_of(net, 16, 1);
    Session a(kept, {.without_passes = {"fuse_element_wise"}}), b(again, {.without_passes = {"fuse_element_wise"}});
    const NamedValues inputs = inputs_of(kept);
    for (int i = 0; i < 2; ++i) {
      const NamedValues x = a.run(inputs), y = b.run(inputs);
      EXPECT_EQ(x.at("loss").tensor().data<float>()[0], y.at("loss").tensor().data<float>()[0]) << net;
    }
    for (const std::string& name : a.variables()->names()) {
      const Tensor x = a.variable(name), y = b.variable(name);
      EXPECT_EQ(std::memcmp(x.raw(), y.raw(), static_cast<std::size_t>(x.bytes())), 0) << net << " " << name;
    }
  }
}

TEST(Recompute, DropsNoMoreThanTheBudgetAsks) {
  train::TrainingGraphOptions options;
  options.target_dims = {ir::Dim(8)};
  const ir::Graph net = models::build_model("resnet8", {.dims = {{"batch", 8}}});
  const auto largest = [&](std::int64_t budget) {
    options.recompute_bytes = budget;
    const Model step(std::make_shared<const ir::Graph>(train::make_training_graph(net, options).graph));
    return Session(step).plan_memory(inputs_of(step)).largest_live_bytes;
  };
  const std::int64_t all = largest(0), none = largest(1), roomy = largest(std::int64_t{1} << 40);
  EXPECT_EQ(roomy, all);
  EXPECT_LT(none, all * 4 / 5);
  const std::int64_t most = largest(all * 9 / 10);
  EXPECT_LE(none, most);
}

}  // namespace
}  // namespace tessera::passes::recompute_test
