#include "compress/quantise/adaptive_rounding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compress/quantise/adapt_weights.h"
#include "compress/quantise/input_moments.h"
#include "io/npz.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"

namespace tessera::compress::adaptive_rounding_test {
namespace {

// Moments of inputs that depend on a quarter as many numbers, as those of layers in nets do.
Tensor correlated_moments(std::int64_t groups, std::int64_t inputs) {
  constexpr std::int64_t kSamples = 200;
  Tensor moments(DType::f32, {groups, inputs, inputs});
  std::ranges::fill(moments.mutable_values<float>(), 0.0f);
  const std::int64_t hidden = std::max<std::int64_t>(1, inputs / 4);
  for (std::int64_t group = 0; group < groups; ++group) {
    const Tensor mix = test::random_tensor(DType::f32, {inputs, hidden}, static_cast<std::uint64_t>(group) + 7);
    for (std::int64_t sample = 0; sample < kSamples; ++sample) {
      const Tensor z = test::random_tensor(DType::f32, {hidden}, static_cast<std::uint64_t>(sample) + 100);
      std::vector<float> x(static_cast<std::size_t>(inputs), 0.1f);
      for (std::int64_t i = 0; i < inputs * hidden; ++i)
        x[static_cast<std::size_t>(i / hidden)] += mix.data<float>()[i] * z.data<float>()[i % hidden];
      for (std::int64_t i = 0; i < inputs * inputs; ++i)
        moments.mutable_data<float>()[group * inputs * inputs + i] +=
            x[static_cast<std::size_t>(i / inputs)] * x[static_cast<std::size_t>(i % inputs)];
    }
  }
  return moments;
}

TEST(AdaptiveRounding, LowersTheErrorOfOutputsBySeveralDecibels) {
  constexpr std::int64_t kGroups = 2, kRows = 12, kInputs = 48;
  for (const int bits : {4, 8}) {
    for (const std::int64_t block : {kInputs, std::int64_t{16}}) {
      RoundingProblem problem{.weights = test::random_tensor(DType::f32, {kGroups, kRows, kInputs}, 3, -0.5, 0.5),
                              .scales = Tensor(DType::f32, {kGroups, kRows, kInputs / block}),
                              .block = block,
                              .moments = correlated_moments(kGroups, kInputs),
                              .least = -(1 << (bits - 1)),
                              .most = (1 << (bits - 1)) - 1};
      std::ranges::fill(problem.scales.mutable_values<float>(), 0.5f / static_cast<float>(problem.most));
      const Tensor nearest = round_to_nearest(problem), adaptive = round_adaptively(problem, {.steps = 300});
      const double gain_db = 10 * std::log10(output_error(problem, nearest) / output_error(problem, adaptive));
      EXPECT_GT(gain_db, 3) << bits << " bits, blocks of " << block;
      for (std::int64_t i = 0; i < nearest.elements(); ++i) {
        const int number = adaptive.data<std::int8_t>()[i];
        ASSERT_LE(std::abs(number - nearest.data<std::int8_t>()[i]), 1) << i;
        ASSERT_GE(number, problem.least);
        ASSERT_LE(number, problem.most);
      }
    }
  }
}

TEST(AdaptiveRounding, KeepsTheNearestWhereInputsAreIndependent) {
  RoundingProblem problem{.weights = test::random_tensor(DType::f32, {1, 4, 8}, 3),
                          .scales = Tensor(DType::f32, {1, 4, 1}),
                          .block = 8,
                          .moments = Tensor(DType::f32, {1, 8, 8})};
  std::ranges::fill(problem.scales.mutable_values<float>(), 0.01f);
  std::ranges::fill(problem.moments.mutable_values<float>(), 0.0f);
  for (std::int64_t i = 0; i < 8; ++i) problem.moments.mutable_data<float>()[i * 9] = static_cast<float>(i);
  const Tensor nearest = round_to_nearest(problem), adaptive = round_adaptively(problem, {.steps = 50});
  EXPECT_NEAR(output_error(problem, adaptive), output_error(problem, nearest), 1e-7);
}

// One layer over inputs "x", and data for it.
class AdaptWeights : public testing::Test {
 protected:
  // The error of the layer's outputs in a run of the model, and what the adapter says that it is.
  void expect_lower(const char* op, const Shape& data, const Shape& weights, const ir::Attributes& attributes,
                    std::int64_t group, int bits) {
    ir::Graph graph;
    ops::GraphBuilder builder(graph);
    ir::Dims dims = ir::to_dims(data);
    dims[0] = ir::Dim::symbol("n");
    const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, dims));
    const ir::ValueId y =
        builder.add(op, {x, builder.constant(test::random_tensor(DType::f32, weights, 11))}, attributes);
    graph.value(y).name = "y";
    graph.add_output(y);
    // Neighbours that are alike.
    Tensor inputs = test::random_tensor(DType::f32, data, 5);
    for (std::int64_t i = 1; i < inputs.elements(); ++i)
      inputs.mutable_data<float>()[i] = 0.8f * inputs.data<float>()[i - 1] + 0.2f * inputs.data<float>()[i];
    io::write_npz(folder_ / "data.npz", {{"x", inputs}});
    const WeightForm form{group > 0 ? StoredAs::blocks : StoredAs::channels, bits, group, 0};
    AdaptOptions options{.forms = {form}, .steps = 200};
    options.data.path = folder_ / "data.npz";
    const std::vector<QuantisableLayer> layers = quantisable_layers(graph);
    ASSERT_EQ(layers.size(), 1u);
    const AdaptedWeights adapted =
        adapt_weights(graph, layers, {0}, [](const auto&) { return std::vector<double>(); }, options);
    const auto error = [&](const RoundedWeights& rounded) {
      ir::Graph changed = quantise_weights(graph, layers, {0}, {form}, rounded);
      Session float_session(Model(std::make_shared<const ir::Graph>(graph))),
          session(Model(std::make_shared<const ir::Graph>(std::move(changed))));
      const Tensor a = float_session.run({{"x", inputs}}).at("y").tensor(),
                   b = session.run({{"x", inputs}}).at("y").tensor();
      double sum = 0;
      for (std::int64_t i = 0; i < a.elements(); ++i)
        sum += std::pow(static_cast<double>(a.data<float>()[i] - b.data<float>()[i]), 2);
      return sum;
    };
    const double nearest = error({}), adaptive = error(adapted.rounded);
    EXPECT_LT(adaptive, 0.7 * nearest) << op << " " << to_string(weights);
    // All positions were looked at, so that the moments are those of the run, but for the damping.
    EXPECT_NEAR(adapted.errors.at(0).nearest / nearest, 1, 0.2) << op << " " << to_string(weights);
    EXPECT_NEAR(adapted.errors.at(0).adaptive / adaptive, 1, 0.4) << op << " " << to_string(weights);
  }

  test::TemporaryFolder folder_;
};

using Integers = std::vector<std::int64_t>;

TEST_F(AdaptWeights, OfProductsInGroups) {
  expect_lower("MatMul", {8, 10, 64}, {64, 12}, {}, 32, 4);
  expect_lower("Gemm", {60, 40}, {12, 40}, {{"transB", std::int64_t{1}}}, 16, 4);
  expect_lower("MatMul", {8, 10, 64}, {64, 12}, {}, 32, 8);
  expect_lower("MatMul", {8, 10, 24}, {24, 12}, {}, 0, 8);  // per channel
}

TEST_F(AdaptWeights, OfConvolutions) {
  expect_lower("Conv", {8, 4, 6, 7}, {6, 4, 3, 3}, {{"pads", Integers{1, 0, 1, 2}}, {"strides", Integers{1, 2}}}, 0, 8);
  expect_lower("Conv", {8, 6, 9, 5}, {12, 2, 3, 2}, {{"group", std::int64_t{3}}, {"dilations", Integers{2, 1}}}, 0, 8);
  expect_lower("Conv", {8, 8, 20}, {8, 1, 5}, {{"group", std::int64_t{8}}, {"pads", Integers{2, 2}}}, 0, 8);
}

TEST_F(AdaptWeights, RowsBeyondTheBoundAreSpreadOverTheData) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{100, 2}));
  graph.add_output(builder.add("MatMul", {x, builder.constant(test::random_tensor(DType::f32, {2, 3}, 1))}));
  Tensor data(DType::f32, {100, 2});
  for (std::int64_t i = 0; i < 200; ++i) data.mutable_data<float>()[i] = static_cast<float>(i);
  const Tensor rows = input_rows(graph, quantisable_layers(graph)[0], data, 10, 1);
  for (std::int64_t i = 0; i < 10; ++i) {
    const float first = rows.data<float>()[2 * i];
    EXPECT_GE(first, static_cast<float>(20 * i));
    EXPECT_LT(first, static_cast<float>(20 * (i + 1)));
    EXPECT_EQ(rows.data<float>()[2 * i + 1], first + 1);
  }
}

}  // namespace
}  // namespace tessera::compress::adaptive_rounding_test
