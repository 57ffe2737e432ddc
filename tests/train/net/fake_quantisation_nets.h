// A net with everything that fake quantisation treats, and its data, for the tests of that and of the export.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "ops/core/builder.h"
#include "support/random_tensor.h"
#include "tessera/session.h"
#include "train/net/training_graph.h"

namespace tessera::train::fake_quantisation_nets {

inline constexpr std::int64_t kBatch = 8, kLength = 6, kWidth = 4, kClasses = 3;

// x -> Conv -> BatchNormalization -> Relu -> Conv with bias -> BatchNormalization -> Relu -> Flatten -> Gemm -> MatMul.
// Some of the normalisation's scales are negative.
inline ir::Graph small_net() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  std::uint64_t seed = 1;
  const auto weight = [&](const std::string& name, const Shape& shape, double low, double high) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed++, low, high), name);
  };
  const auto norm = [&](const std::string& name, ir::ValueId x) {
    return builder.add("Relu", {builder.add("BatchNormalization", {x, weight(name + ".scale", {kWidth}, -1, 1),
                                                                   weight(name + ".bias", {kWidth}, -0.2, 0.5),
                                                                   weight(name + ".mean", {kWidth}, -0.2, 0.2),
                                                                   weight(name + ".variance", {kWidth}, 0.5, 1)})});
  };
  const ir::Attributes same{{"pads", std::vector<std::int64_t>{1, 1}}};
  ir::ValueId y = graph.add_input(
      "x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), ir::Dim(2), ir::Dim(kLength)}));
  y = norm("norm1", builder.add("Conv", {y, weight("conv1", {kWidth, 2, 3}, -1, 1)}, same));
  y = norm("norm2",
           builder.add("Conv",
                       {y, weight("conv2", {kWidth, kWidth, 3}, -0.5, 0.5), weight("conv2.bias", {kWidth}, -0.5, 0.5)},
                       same));
  y = builder.add("Flatten", {y}, {{"axis", std::int64_t{1}}});
  y = builder.add("Gemm", {y, weight("fc1", {5, kWidth * kLength}, -0.4, 0.4), weight("fc1.bias", {5}, -0.4, 0.4)},
                  {{"transB", std::int64_t{1}}});
  y = builder.add("MatMul", {y, weight("fc2", {5, kClasses}, -1, 1)});
  graph.value(y).name = "logits";
  graph.add_output(y);
  return graph;
}

inline Model model_of(ir::Graph graph) {
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

inline std::map<std::string, Tensor> samples(std::uint64_t seed) {
  constexpr std::int64_t kSamples = 48;
  Tensor x = test::random_tensor(DType::f32, {kSamples, 2, kLength}, seed, -1, 1), y(DType::i64, {kSamples});
  for (std::int64_t i = 0; i < kSamples; ++i) {
    const float* values = x.data<float>() + i * 2 * kLength;
    y.mutable_data<std::int64_t>()[i] = std::max_element(values, values + kClasses) - values;
  }
  return {{"x", x}, {"y", y}};
}

inline TrainingConfig config_with(CompressOptions compress) {
  TrainingConfig config;
  config.data.train_arrays = samples(1);
  config.data.test_arrays = samples(2);
  config.data.batch = kBatch;
  config.data.workers = 1;
  config.optimiser = {.name = "adamw", .learning_rate = 0.01};
  config.steps = 30;
  config.log_every = 1;
  config.compress = std::move(compress);
  return config;
}

inline TrainingGraphOptions graph_options(CompressOptions compress) {
  TrainingGraphOptions options;
  options.target_dims = {ir::Dim(kBatch)};
  options.compress = std::move(compress);
  return options;
}

inline NamedValues batch(std::uint64_t seed, float rate) {
  Tensor y(DType::i64, {kBatch});
  for (std::int64_t i = 0; i < kBatch; ++i) y.mutable_data<std::int64_t>()[i] = i % kClasses;
  return {{"x", test::random_tensor(DType::f32, {kBatch, 2, kLength}, seed, -1, 1)},
          {"y", y},
          {"learning_rate", Tensor::scalar(rate)}};
}

inline ir::Graph sized_net() {
  return model_of(small_net()).with_dims({{"batch", kBatch}}).graph();
}

inline Session session_of(const TrainingGraphOptions& options) {
  return Session(model_of(make_training_graph(sized_net(), options).graph));
}

inline float loss_of(Session& session, const NamedValues& inputs) {
  return session.run(inputs).at("loss").tensor().data<float>()[0];
}

}  // namespace tessera::train::fake_quantisation_nets
