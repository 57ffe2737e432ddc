#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compress/core/compression_costs.h"
#include "compress/prune/prune_report.h"
#include "io/npz.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/prune.h"

namespace tessera::compress::prune_sensitivity_test {
namespace {

constexpr std::int64_t kFeatures = 16;

// Three products; most weights of "robust" are so small that the outputs hardly change without them.
Model net() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, {ir::Dim::symbol("n"), kFeatures}));
  std::uint64_t seed = 1;
  for (const char* name : {"first", "robust", "last"}) {
    Tensor weights = test::random_tensor(DType::f32, {kFeatures, kFeatures}, seed++, -0.5, 0.5);
    if (std::string(name) == "robust") {
      for (std::int64_t i = 0; i < weights.elements(); ++i)
        if (i % 17 != 0) weights.mutable_data<float>()[i] *= 1e-4f;
    }
    x = builder.add("MatMul", {x, builder.constant(weights, name)});
    if (std::string(name) != "last") x = builder.add("Relu", {x});
  }
  graph.value(x).name = "scores";
  graph.add_output(x);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

class PruneSensitivityTest : public testing::Test {
 protected:
  PruneDiagnosisOptions diagnosis() {
    io::write_npz(folder_ / "data.npz", {{"x", test::random_tensor(DType::f32, {64, kFeatures}, 5)}});
    PruneDiagnosisOptions options;
    options.data.path = folder_ / "data.npz";
    options.metric = "cosine";
    return options;
  }
  test::TemporaryFolder folder_;
};

TEST_F(PruneSensitivityTest, SaysWhatEachLayerAloneCosts) {
  PruneDiagnosisOptions options = diagnosis();
  options.sparsities = {0.5, 0.9};
  const PruneSensitivity found = prune_sensitivity(net(), {}, options);
  EXPECT_EQ(found.metric, "cosine");
  EXPECT_NEAR(found.metric_before, 1, 1e-6);
  ASSERT_EQ(found.layers.size(), 3u);
  for (const LayerSensitivity& layer : found.layers) {
    ASSERT_EQ(layer.points.size(), 2u) << layer.name;
    EXPECT_EQ(layer.points[0].sparsity, 0.5);
    EXPECT_GE(layer.points[0].metric, layer.points[1].metric) << layer.name;
    EXPECT_GE(*layer.points[0].snr_db, *layer.points[1].snr_db) << layer.name;
    if (layer.name == "robust") EXPECT_GT(layer.points[1].metric, 0.9999);
    else EXPECT_LT(layer.points[1].metric, 0.9) << layer.name;
  }
  EXPECT_NE(sensitivity_text(found).find("robust"), std::string::npos);
  const std::string json = prune_json({}, "", found);
  EXPECT_NE(json.find("\"sensitivity\""), std::string::npos);
}

TEST_F(PruneSensitivityTest, AStructureHasItsOwnSparsity) {
  const PruneSensitivity found = prune_sensitivity(net(), {.structure = "1:4"}, diagnosis());
  for (const LayerSensitivity& layer : found.layers) {
    ASSERT_EQ(layer.points.size(), 1u);
    EXPECT_NEAR(layer.points[0].sparsity, 0.75, 1e-9);
  }
}

TEST_F(PruneSensitivityTest, DiagnosesAPrunedModelAndMeasuresIt) {
  const Model model = net();
  const PruneDiagnosisOptions options = diagnosis();
  PruneReport report;
  const OneShotPruneOptions how{.sparsity = 0.75};
  const Model pruned = prune(model, how, &report);
  diagnose_pruning(model, pruned, how, options, report);
  EXPECT_NEAR(*report.metric_before, 1, 1e-6);
  EXPECT_LT(*report.metric_after, *report.metric_before);
  EXPECT_EQ(report.bytes_before, 3 * 4 * kFeatures * kFeatures);
  for (const PrunedLayer& layer : report.layers) EXPECT_GT(*layer.snr_db, *report.snr_db) << layer.name;
  measure_costs(report, model, pruned, first_sample(model, options.data), {});
  EXPECT_GT(*report.measured_ms_before, 0);
  EXPECT_GT(*report.memory_bytes_before, report.bytes_before);
  const std::string page = prune_html(report, "net.onnx", "pruned.onnx", prune_sensitivity(model, how, options));
  for (const char* text : {"Sensitivity", "Error against bits", "Where the bytes are", "cosine", "robust"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
}

TEST_F(PruneSensitivityTest, OnlyTheNamedWeightsGo) {
  PruneReport report;
  prune(net(), {.only = {"last"}}, &report);
  ASSERT_EQ(report.layers.size(), 1u);
  EXPECT_EQ(report.layers[0].name, "last");
  test::expect_error_containing(ErrorKind::invalid_argument, "no layer has weights called 'none'",
                                [] { prune(net(), {.only = {"none"}}); });
}

TEST_F(PruneSensitivityTest, RefusesWhatDoesNotFit) {
  test::expect_error_containing(ErrorKind::invalid_argument, "--data", [] { prune_sensitivity(net(), {}, {}); });
  PruneDiagnosisOptions options = diagnosis();
  options.sparsities = {1.5};
  test::expect_error_containing(ErrorKind::invalid_argument, "a sparsity is 1.5",
                                [&] { prune_sensitivity(net(), {}, options); });
}

}  // namespace
}  // namespace tessera::compress::prune_sensitivity_test
