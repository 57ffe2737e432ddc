#include "compress/quantise/equalise_channels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "io/npz.h"
#include "ops/core/builder.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "support/tolerance.h"
#include "tessera/quantise.h"

namespace tessera::compress::equalise_channels_test {
namespace {

constexpr std::int64_t kFeatures = 32;

Tensor vector_of(std::uint64_t seed, double low, double high) {
  return test::random_tensor(DType::f32, {kFeatures}, seed, low, high);
}

// A normalisation whose scale makes some channels large, as in trained transformers, and products behind it.
struct Block {
  const char* normalisation = "LayerNormalization";  // "Mul": a scale and a shift as operators of their own
  bool residual = false;                             // something else reads what is normalised
};

void PrintTo(const Block& block, std::ostream* to) {
  *to << block.normalisation << (block.residual ? " with a residual" : "");
}

Model model_of(const Block& block) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, {ir::Dim::symbol("n"), kFeatures}));
  Tensor scale = vector_of(2, 0.5, 1);
  for (const std::int64_t channel : {3, 17}) scale.mutable_data<float>()[channel] = 60;
  const ir::ValueId shift = builder.constant(vector_of(3, -0.1, 0.1));
  const std::string op = block.normalisation;
  if (op == "LayerNormalization") x = builder.add(op, {x, builder.constant(scale), shift});
  else if (op == "RMSNormalization") x = builder.add(op, {x, builder.constant(scale)});
  else x = builder.add("Add", {builder.add("Mul", {builder.add("Tanh", {x}), builder.constant(scale)}), shift});
  std::vector<ir::ValueId> results;
  for (const std::uint64_t seed : {4, 5}) {
    Tensor weights = test::random_tensor(DType::f32, {kFeatures, kFeatures}, seed, -0.3, 0.3);
    for (const std::int64_t channel : {3, 17}) {
      for (std::int64_t i = 0; i < kFeatures; ++i) weights.mutable_data<float>()[channel * kFeatures + i] *= 0.02f;
    }
    results.push_back(builder.add("MatMul", {x, builder.constant(weights)}));
  }
  ir::ValueId y = builder.add("Mul", {results[0], builder.add("Sigmoid", {results[1]})});
  if (block.residual) y = builder.add("Add", {y, builder.add("Mul", {x, builder.scalar(0.01)})});
  graph.value(y).name = "y";
  graph.add_output(y);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

std::int64_t count(const ir::Graph& graph, const char* op) {
  std::int64_t found = 0;
  for (const ir::NodeId id : graph.order()) found += graph.node(id).op == op ? 1 : 0;
  return found;
}

class EqualiseProducts : public testing::TestWithParam<Block> {
 protected:
  void SetUp() override {
    io::write_npz(folder_ / "data.npz", {{"x", test::random_tensor(DType::f32, {64, kFeatures}, 9, -2, 2)}});
    data_.path = folder_ / "data.npz";
  }
  test::TemporaryFolder folder_;
  CalibrationData data_;
};

TEST_P(EqualiseProducts, KeepsTheOutputsAndLevelsTheChannels) {
  const Model model = model_of(GetParam());
  const ir::Graph graph = model.graph();
  const std::vector<QuantisableLayer> layers = quantisable_layers(graph);
  ASSERT_EQ(layers.size(), 2u);
  const Calibration calibration = calibrate(graph, layers, data_, {}, nullptr);
  EXPECT_FALSE(equalise_channels(graph, layers, calibration.channels, EqualiseScope::layers).has_value());
  const std::optional<ir::Graph> changed =
      equalise_channels(graph, layers, calibration.channels, EqualiseScope::normalised);
  ASSERT_TRUE(changed.has_value());
  // A multiplication more where something else reads the value.
  EXPECT_EQ(count(*changed, "Mul"), count(graph, "Mul") + (GetParam().residual ? 1 : 0));
  const Tensor x = test::random_tensor(DType::f32, {8, kFeatures}, 21, -2, 2);
  const Tensor expected = Session(model).run({{"x", x}}).at("y").tensor();
  const Tensor actual = Session(Model(std::make_shared<const ir::Graph>(*changed))).run({{"x", x}}).at("y").tensor();
  EXPECT_TRUE(test::close_to(actual, expected, test::Tolerance::epsilons(DType::f32, 2000)));
  const auto spread = [&](const Calibration& of) {
    const std::vector<float>& largest = of.channels.at(layers[0].data).largest;
    return *std::ranges::max_element(largest) / *std::ranges::min_element(largest);
  };
  const Calibration level = calibrate(*changed, layers, data_, {}, nullptr);
  EXPECT_LT(spread(level), 0.3f * spread(calibration));
}

TEST_P(EqualiseProducts, BringsQuantisedOutputsCloser) {
  QuantiseOptions options;
  options.full = true;
  options.data = data_;
  options.diagnose = false;
  options.equalise = false;
  const double before = *quantise(model_of(GetParam()), options).report.snr_db;
  options.equalise = true;
  const QuantiseReport report = quantise(model_of(GetParam()), options).report;
  EXPECT_TRUE(report.smoothed);
  EXPECT_GT(*report.snr_db, before + 3);
}

INSTANTIATE_TEST_SUITE_P(Blocks, EqualiseProducts,
                         testing::Values(Block{"LayerNormalization", false}, Block{"LayerNormalization", true},
                                         Block{"RMSNormalization", false}, Block{"Mul", false}, Block{"Mul", true}));

// Weights of which rounding moves the deviation: most are just above half a step.
TEST(VarianceCorrection, GivesChannelsTheirDeviation) {
  constexpr std::int64_t kChannels = 4, kInputs = 64;
  Tensor weights(DType::f32, {kChannels, kInputs});
  for (std::int64_t i = 0; i < weights.elements(); ++i)
    weights.mutable_data<float>()[i] = (i % 2 == 0 ? 1.0f : -1.0f) * (i % kInputs == 0 ? 127.0f : 5.6f);
  ChannelWeights rounded = round_by_channel(weights, 0);
  const auto deviation = [&](const Tensor& tensor, std::int64_t channel) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < kInputs; ++i) {
      const double value = static_cast<double>(tensor.data<float>()[channel * kInputs + i]);
      sum += value;
      squares += value * value;
    }
    return std::sqrt(squares / kInputs - sum / kInputs * (sum / kInputs));
  };
  const Tensor before = real_weights(rounded);
  rounded.scales = with_variance_of(weights, rounded);
  const Tensor after = real_weights(rounded);
  for (std::int64_t channel = 0; channel < kChannels; ++channel) {
    const double exact = deviation(weights, channel);
    EXPECT_GT(std::abs(deviation(before, channel) / exact - 1), 5e-3);
    EXPECT_NEAR(deviation(after, channel) / exact, 1, 1e-5);
  }
}

}  // namespace
}  // namespace tessera::compress::equalise_channels_test
