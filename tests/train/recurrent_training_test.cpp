// Recurrent nets as PyTorch's exporters write them, whose initial states are zeros that the graph computes.
#include <gtest/gtest.h>

#include "ir/constant_role.h"
#include "ops/core/builder.h"
#include "support/random_tensor.h"
#include "tessera/train.h"

namespace tessera::train::recurrent_training_test {
namespace {

using ir::ValueId;

constexpr std::int64_t kTime = 6, kFeatures = 3, kWidth = 4;

// x [batch, time, features] -> LSTM -> the last state -> Gemm. With a fixed batch the states are a literal.
Model lstm(std::int64_t directions, std::int64_t fixed_batch) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::Dim batch = fixed_batch > 0 ? ir::Dim(fixed_batch) : ir::Dim::symbol("batch");
  const ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{batch, kTime, kFeatures}));
  ValueId zeros;
  if (fixed_batch > 0) {
    Tensor state(DType::f32, {directions, fixed_batch, kWidth});
    std::ranges::fill(state.mutable_values<float>(), 0.0f);
    zeros = builder.constant(state, "/l/Constant_output_0");
    ir::set_role(graph, zeros, ir::ConstantRole::literal);
  } else {
    const ValueId size = builder.add("Shape", {x}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
    const ValueId shape = builder.add("Concat", {builder.integers({directions}), size, builder.integers({kWidth})},
                                      {{"axis", std::int64_t{0}}});
    zeros = builder.add("ConstantOfShape", {shape});
    graph.value(zeros).name = "/l/ConstantOfShape_output_0";
  }
  const auto weight = [&](const char* name, const Shape& shape, std::uint64_t seed) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed, -0.5, 0.5), name);
  };
  const ValueId steps = builder.add("Transpose", {x}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
  const ir::Attributes attributes{{"hidden_size", kWidth},
                                  {"direction", std::string(directions == 2 ? "bidirectional" : "forward")}};
  const std::vector<ValueId> states = builder.add_multi("LSTM",
                                                        {steps,
                                                         weight("W", {directions, 4 * kWidth, kFeatures}, 1),
                                                         weight("R", {directions, 4 * kWidth, kWidth}, 2),
                                                         weight("B", {directions, 8 * kWidth}, 3),
                                                         {},
                                                         zeros,
                                                         zeros},
                                                        2, attributes);
  const ValueId last = builder.add("Gather", {states[1], builder.scalar(0, DType::i64)}, {{"axis", std::int64_t{0}}});
  const ValueId logits = builder.add("Gemm", {last, weight("V", {kWidth, 2}, 4)});
  graph.value(logits).name = "logits";
  graph.add_output(logits);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

TEST(RecurrentTraining, StatesOfZerosAreNoWeights) {
  constexpr std::int64_t kSamples = 40, kBatch = 8;
  TrainingConfig config;
  Tensor x = test::random_tensor(DType::f32, {kSamples, kTime, kFeatures}, 7, -1, 1), y(DType::i64, {kSamples});
  for (std::int64_t i = 0; i < kSamples; ++i)
    y.mutable_data<std::int64_t>()[i] = x.data<float>()[i * kTime * kFeatures + (kTime - 1) * kFeatures] > 0;
  config.data.train_arrays = config.data.test_arrays = {{"x", x}, {"y", y}};
  config.data.batch = kBatch;
  config.optimiser.name = "adam";
  config.optimiser.learning_rate = 0.03;
  config.steps = 60;
  for (const std::int64_t directions : {1, 2}) {
    for (const std::int64_t fixed_batch : {std::int64_t{0}, kBatch}) {
      Trainer trainer(lstm(directions, fixed_batch), config);
      EXPECT_EQ(trainer.weights().names, (std::vector<std::string>{"W", "R", "B", "V"}));
      const TrainingResult result = trainer.run();
      ASSERT_TRUE(result.evaluation.has_value());
      EXPECT_GT(result.evaluation->value, 0.8) << directions << " " << fixed_batch;
    }
  }
}

}  // namespace
}  // namespace tessera::train::recurrent_training_test
