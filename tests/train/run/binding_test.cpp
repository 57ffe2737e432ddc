#include "train/run/binding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "support/expect_error.h"
#include "train/run/trainer_support.h"

namespace tessera::train::binding_test {
namespace {

using namespace test_training;
using test::expect_error_containing;

TEST(Binding, TargetsHaveTheTypeAndRankThatTheLossNeeds) {
  TrainingConfig config = small();
  config.steps = 20;
  const auto state_with = [&](const char* loss, const Tensor& y) {
    const test::TemporaryFolder folder;
    config.loss.name = loss;
    config.data.train_arrays["y"] = config.data.test_arrays["y"] = y;
    Trainer trainer(two_layers(), config);
    trainer.run();
    return state_of(trainer, folder);
  };
  const Tensor labels = clusters(1).at("y");
  Tensor as_double(DType::f64, {kSamples}), as_byte(DType::u8, {kSamples, 1});
  Tensor real(DType::f32, {kSamples, kClasses}), real_double(DType::f64, {kSamples, kClasses}),
      whole(DType::i32, {kSamples, kClasses}), truth(DType::boolean, {kSamples, kClasses});
  for (std::int64_t i = 0; i < kSamples; ++i) {
    as_double.mutable_data<double>()[i] = static_cast<double>(i % kClasses);
    as_byte.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i % kClasses);
    for (std::int64_t c = 0; c < kClasses; ++c) {
      const bool right = i % kClasses == c;
      real.mutable_data<float>()[i * kClasses + c] = right ? 1 : 0;
      real_double.mutable_data<double>()[i * kClasses + c] = right ? 1 : 0;
      whole.mutable_data<std::int32_t>()[i * kClasses + c] = right ? 1 : 0;
      truth.mutable_data<bool>()[i * kClasses + c] = right;
    }
  }
  const Checkpoint classes = state_with("cross_entropy", labels);
  for (const Tensor& y : {as_double, as_byte}) expect_same_state(classes, state_with("cross_entropy", y));
  for (const char* loss : {"mse", "bce"}) {
    const Checkpoint numbers = state_with(loss, real);
    for (const Tensor& y : {real_double, whole, truth}) expect_same_state(numbers, state_with(loss, y));
  }
}

TEST(Binding, ATargetOfOneNumberFitsAPredictionOfOne) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x =
      graph.add_input("x", ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), kFeatures}));
  const ir::ValueId y = builder.add(
      "MatMul", {x, graph.add_constant(test::random_tensor(DType::f32, {kFeatures, 1}, 3, -0.5, 0.5), "w")});
  graph.value(y).name = "price";
  graph.add_output(y);
  TrainingConfig config = small();
  config.loss.name = "mse";
  Tensor prices(DType::f64, {kSamples});
  for (std::int64_t i = 0; i < kSamples; ++i)
    prices.mutable_data<double>()[i] =
        static_cast<double>(config.data.train_arrays.at("x").data<float>()[i * kFeatures]);
  config.data.train_arrays["y"] = prices;
  config.data.test_arrays = config.data.train_arrays;
  config.steps = 300;
  config.optimiser.learning_rate = 0.05;
  const TrainingResult result = Trainer(Model(std::make_shared<const ir::Graph>(std::move(graph))), config).run();
  EXPECT_LT(result.evaluation->loss, 1e-2);
}

}  // namespace
}  // namespace tessera::train::binding_test
