// A small classification that trains in a moment, for tests of the trainer.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "ops/core/builder.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/train.h"
#include "train/run/checkpoint.h"

namespace tessera::train::test_training {

inline constexpr std::int64_t kSamples = 96, kClasses = 3, kFeatures = 8;

// Classes that lie around three centres.
inline std::map<std::string, Tensor> clusters(std::uint64_t seed) {
  Tensor x = test::random_tensor(DType::f32, {kSamples, kFeatures}, seed, -1, 1), y(DType::i64, {kSamples});
  const Tensor centres = test::random_tensor(DType::f32, {kClasses, kFeatures}, 77, -1, 1);
  for (std::int64_t i = 0; i < kSamples; ++i) {
    y.mutable_data<std::int64_t>()[i] = i % kClasses;
    for (std::int64_t k = 0; k < kFeatures; ++k)
      x.mutable_data<float>()[i * kFeatures + k] += 2 * centres.data<float>()[i % kClasses * kFeatures + k];
  }
  return {{"x", x}, {"y", y}};
}

// x -> Gemm -> Relu -> Gemm -> logits, any batch
inline Model two_layers(std::int64_t width = 16) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x =
      graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), kFeatures}));
  const auto weight = [&](const char* name, const Shape& shape, std::uint64_t seed) {
    return graph.add_constant(test::random_tensor(DType::f32, shape, seed, -0.5, 0.5), name);
  };
  const ir::ValueId hidden =
      builder.add("Relu", {builder.add("Gemm", {x, weight("w1", {kFeatures, width}, 1), weight("b1", {width}, 2)})});
  const ir::ValueId logits =
      builder.add("Gemm", {hidden, weight("w2", {width, kClasses}, 3), weight("b2", {kClasses}, 4)});
  graph.value(logits).name = "logits";
  graph.add_output(logits);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

inline TrainingConfig small() {
  TrainingConfig config;
  config.data.train_arrays = clusters(1);
  config.data.test_arrays = clusters(2);
  config.data.batch = 16;
  config.data.workers = 1;
  config.optimiser.name = "adam";
  config.optimiser.learning_rate = 0.01;
  config.steps = 60;
  config.log_every = 1;
  config.seed = 5;
  return config;
}

// Every variable of a checkpoint, byte for byte.
inline void expect_same_state(const Checkpoint& a, const Checkpoint& b) {
  ASSERT_EQ(a.variables.size(), b.variables.size());
  EXPECT_EQ(a.step, b.step);
  for (const auto& [name, value] : a.variables) {
    const Tensor& other = b.variables.at(name);
    ASSERT_EQ(value.bytes(), other.bytes()) << name;
    EXPECT_EQ(std::memcmp(value.raw(), other.raw(), static_cast<std::size_t>(value.bytes())), 0) << name;
  }
}

inline Checkpoint state_of(const Trainer& trainer, const test::TemporaryFolder& folder) {
  const std::string path = (folder.path() / "state.npz").string();
  trainer.save(path);
  return read_checkpoint(path);
}

}  // namespace tessera::train::test_training
