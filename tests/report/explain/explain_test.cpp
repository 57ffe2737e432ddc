#include "report/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/models.h"
#include "ops/core/builder.h"
#include "report/explain/explain_words.h"
#include "report/measure/calibration.h"
#include "report/measure/calibration_nets.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "support/pass_context.h"
#include "support/temporary_folder.h"
#include "train/net/training_step.h"

namespace tessera::test::explain_test {
namespace {

using cost::AdviceKind;
using cost::Precision;
using report::Explanation;
using testing::HasSubstr;

Model model_of(ir::Graph graph) {
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}
Model net(const char* name, std::map<std::string, std::int64_t> dims) {
  return model_of(models::build_model(name, {.dims = std::move(dims), .fill_weights = false}));
}

// n fully connected layers of this width, with Relu between them.
Model dense_net(int layers, std::int64_t width = 64, std::int64_t batch = 32) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{batch, width}));
  for (int i = 0; i < layers; ++i) {
    std::vector<float> values(static_cast<std::size_t>(width * width), 0.01f * static_cast<float>(i + 1));
    x = builder.add("MatMul", {x, builder.constant(Tensor::from<float>({width, width}, std::span<const float>(values)),
                                                   "w" + std::to_string(i))});
    if (i + 1 < layers) x = builder.add("Relu", {x});
  }
  graph.add_output(x);
  return model_of(std::move(graph));
}

report::ExplainOptions on(std::initializer_list<const char*> names, Precision precision = Precision::f16) {
  report::ExplainOptions options;
  for (const char* name : names) options.devices.push_back(*cost::find_built_in_profile(name));
  options.precision = precision;
  return options;
}

const cost::Advice* find_advice(const Explanation& explanation, AdviceKind kind) {
  for (const cost::Advice& advice : explanation.devices[0].advice) {
    if (advice.kind == kind) return &advice;
  }
  return nullptr;
}

// Forward, gradients by weights, gradients by inputs but for the first layer.
TEST(Explain, TrainingTakesThreeProductsALayerLessOne) {
  for (const int layers : {1, 2, 5}) {
    report::ExplainOptions options = on({"v100-16"});
    options.training = true;
    const Model step = train::usual_training_step(dense_net(layers));
    EXPECT_EQ(report::explain(step, "dense", options).products, 3 * layers - 1);
    EXPECT_EQ(report::explain(dense_net(layers), "dense", on({"v100-16"})).products, layers);
  }
}

TEST(Explain, HeadlineAndAdviceOfASmallNetOnALargeDevice) {
  const Explanation explanation = report::explain(net("resnet18", {{"batch", 1}}), "resnet18", on({"h200", "l4"}));
  EXPECT_THAT(report::headline(explanation), HasSubstr("resnet18 is predicted to take "));
  EXPECT_THAT(report::headline(explanation), HasSubstr("goes to starting operators, not to memory or arithmetic"));
  EXPECT_THAT(find_advice(explanation, AdviceKind::upgrade)->text, HasSubstr("A bigger device gains nothing"));
  const cost::Advice* batch = find_advice(explanation, AdviceKind::batch);
  EXPECT_THAT(batch->text, HasSubstr("Raise the batch from 1 to"));
  EXPECT_GT(batch->gain, 0.5);
  EXPECT_THAT(find_advice(explanation, AdviceKind::fusion)->text, HasSubstr("Relu"));
  EXPECT_LE(report::things_to_do(explanation.devices[0]).size(), 3u);
  EXPECT_EQ(report::things_to_do(explanation.devices[0])[0]->kind, AdviceKind::batch);
}

TEST(Explain, PrecisionAdviceOfABigNet) {
  const Explanation explanation =
      report::explain(net("resnet50", {{"batch", 64}}), "resnet50", on({"a100-40-sxm"}, Precision::f32));
  const cost::Advice* precision = find_advice(explanation, AdviceKind::precision);
  ASSERT_NE(precision, nullptr);
  EXPECT_GT(precision->gain, 0.4);
  EXPECT_THAT(precision->text, HasSubstr("instead of f32"));
  // Its first layer has three channels, and its devices matrix units only below float32.
  const Explanation half =
      report::explain(net("resnet50", {{"batch", 64}}), "resnet50", on({"a100-40-sxm", "h100-sxm"}));
  const cost::Layer& stem = half.devices[0].evaluation.layers[0];
  EXPECT_FALSE(stem.alignment.aligned);
  EXPECT_THAT(find_advice(half, AdviceKind::upgrade)->text, HasSubstr("NVIDIA H100 SXM5 80 GB runs it"));
}

TEST(Explain, TheCpuIsExplainedByItsPlan) {
  const Explanation explanation =
      report::explain(model_of(models::build_model("mobilenet_v2", {.dims = {{"batch", 1}}})), "mobilenet_v2",
                      on({"cpu"}, Precision::f32));
  const cost::Evaluation& evaluation = explanation.devices[0].evaluation;
  EXPECT_EQ(evaluation.layers[1].work.kernel, "cpu_conv_chain");
  EXPECT_TRUE(evaluation.layers[1].work.product);
  EXPECT_LT(explanation.optimiser.after.nodes, explanation.optimiser.before.nodes);
  EXPECT_LT(explanation.optimiser.after.bytes, explanation.optimiser.before.bytes);
  const auto& live = explanation.memory.live_bytes;
  EXPECT_LE(*std::max_element(live.begin(), live.end()), explanation.memory.arena_bytes);
  EXPECT_GT(*std::max_element(live.begin(), live.end()), explanation.memory.arena_bytes / 2);
}

// A loop has no prediction, but what it takes is part of the run.
TEST(Explain, TheMeasuredTimeIsThatOfTheWholeRun) {
  const Model model(std::make_shared<const ir::Graph>(
      parsed("graph { input %x : f32[64, 64] constant %n = i64[] {200} constant %go = bool[] {true} %a = Relu (%x) "
             "%y = Loop (%n, %go, %a) {body = graph { input %i : i64[] input %c : bool[] input %s : f32[64, 64] "
             "%e = Erf (%s) output %c, %e }} output %y }")));
  report::ExplainOptions options = on({"cpu"}, Precision::f32);
  const std::string predicted = report::headline(report::explain(model, "loop", options));
  EXPECT_THAT(predicted, HasSubstr(", without 1 operator with subgraphs, or with shapes that depend on data"));
  options.measure = true;
  const Explanation explanation = report::explain(model, "loop", options);
  ASSERT_TRUE(explanation.measured);
  const report::MeasuredReport& measured = *explanation.measured;
  EXPECT_EQ(explanation.devices[0].unknown_nodes, 1);
  EXPECT_GT(measured.unpredicted_seconds, 0.9 * measured.total_seconds);
  EXPECT_GT(measured.total_seconds, 10 * measured.seconds[0]);
  const std::string total = report::time_text(measured.total_seconds),
                    rest = report::time_text(measured.unpredicted_seconds);
  EXPECT_THAT(report::headline(explanation), HasSubstr(" takes " + total + " a run on "));
  EXPECT_THAT(report::headline(explanation), HasSubstr(rest + " go to 1 operator with subgraphs"));
  EXPECT_THAT(report::explanation_text(explanation, true), HasSubstr(rest + " of the measured run"));
}

TEST(Explain, MeasuringStandsBesideThePrediction) {
  report::ExplainOptions options = on({"l4", "cpu"}, Precision::f32);
  options.measure = true;
  const Explanation explanation = report::explain(dense_net(3), "dense", options);
  ASSERT_TRUE(explanation.measured);
  EXPECT_EQ(explanation.measured->device, 1u);
  EXPECT_EQ(explanation.measured->seconds.size(), explanation.devices[1].evaluation.layers.size());
  EXPECT_GT(explanation.measured->total_seconds, 0);
  EXPECT_LE(explanation.measured->median_error, explanation.measured->p90_error);
  EXPECT_THAT(report::explanation_text(explanation, true), HasSubstr("90th percentile"));
  options.devices.pop_back();
  expect_error_containing(ErrorKind::invalid_argument, "--measure runs on this CPU",
                          [&] { report::explain(train::usual_training_step(dense_net(3)), "dense", options); });
}

TEST(Explain, RoundedToBf16TheCpuIsExplainedByTheKernelsOfThat) {
  const Model model = dense_net(1, 256, 128);
  const cost::Evaluation full = report::explain(model, "dense", on({"cpu"}, Precision::f32)).devices[0].evaluation,
                         rounded = report::explain(model, "dense", on({"cpu"}, Precision::bf16)).devices[0].evaluation;
  const auto product = [](const cost::Evaluation& evaluation) {
    return std::ranges::find_if(evaluation.layers, [](const cost::Layer& layer) { return layer.work.product; })->work;
  };
  EXPECT_EQ(product(full).precision, Precision::f32);
  EXPECT_EQ(product(rounded).precision, Precision::bf16);
  EXPECT_NE(product(rounded).kernel, product(full).kernel);
  EXPECT_EQ(product(rounded).weight_bytes, product(full).weight_bytes / 2);
  EXPECT_EQ(product(rounded).cost.bytes_written, product(full).cost.bytes_written);  // results stay f32
}

TEST(Explain, WhatWritesAResultIsToldApart) {
  const cost::Evaluation evaluation =
      report::explain(dense_net(3), "dense", on({"cpu"}, Precision::f32)).devices[0].evaluation;
  const auto last =
      std::ranges::find_if(evaluation.layers, [](const cost::Layer& layer) { return layer.work.writes_result; });
  ASSERT_NE(last, evaluation.layers.end());
  EXPECT_EQ(last->work.shape_class()[6], cost::kResultDistance);
  EXPECT_EQ(std::ranges::count_if(evaluation.layers, [](const cost::Layer& layer) { return layer.work.writes_result; }),
            1);
}

TEST(Explain, BatchForTrainingFromATable) {
  report::ExplainOptions options = on({"v100-16"});
  options.training = true;
  options.convergence = cost::parse_convergence("2048:65,3072:75-80,4096:85-90");
  expect_error_containing(ErrorKind::invalid_argument, "--samples",
                          [&] { report::explain(train::usual_training_step(dense_net(3)), "dense", options); });
  options.samples = 117'266;
  const Explanation explanation =
      report::explain(train::usual_training_step(net("resnet18", {{"batch", 32}})), "resnet18", options);
  ASSERT_TRUE(explanation.batch_choice);
  // Bound by memory and arithmetic, time grows with the batch: the fewest epochs win.
  EXPECT_EQ(explanation.batch_choice->rows[explanation.batch_choice->best].batch, 2048);
  EXPECT_THAT(report::explanation_text(explanation, false), HasSubstr("<- the fastest"));
}

TEST(Explain, SaysWhatDoesNotFit) {
  report::ExplainOptions options = on({"a100-80-sxm", "t4"});
  options.devices[1].memory_bytes = 1 << 20;
  const Explanation explanation = report::explain(net("resnet18", {{"batch", 1}}), "resnet18", options);
  EXPECT_TRUE(explanation.devices[0].fits);
  EXPECT_FALSE(explanation.devices[1].fits);
  EXPECT_THAT(report::explanation_text(explanation, false), HasSubstr("it does not fit into the 1.0 MiB of NVIDIA T4"));
}

TEST(Explain, ATypeThatTheDeviceLacksIsCountedAtTheRateOfF32AndThatIsSaid) {
  const Explanation explanation = report::explain(dense_net(1, 256, 128), "dense", on({"t4"}, Precision::bf16));
  const std::string text = report::explanation_text(explanation, false), page = report::explanation_html(explanation);
  EXPECT_THAT(text, HasSubstr("It does not have bf16: counted at the rate of f32."));
  EXPECT_THAT(text, Not(HasSubstr("0 FLOP/s in")));
  EXPECT_THAT(page, HasSubstr("The device does not have bf16: counted at the rate of f32."));
}

TEST(Explain, MemoryIsOfTheTypeAndOfWhatIsTrained) {
  const Model net = dense_net(1, 256, 128);
  const auto memory = [](const Model& model, Precision precision) {
    return report::explain(model, "dense", on({"a100-80-sxm"}, precision)).memory;
  };
  const report::MemoryTimeline full = memory(net, Precision::f32), half = memory(net, Precision::f16);
  EXPECT_EQ(half.weight_bytes, full.weight_bytes / 2);
  EXPECT_EQ(half.arena_bytes, full.arena_bytes / 2);
  // The weights and their momentum.
  const report::MemoryTimeline trained = memory(train::usual_training_step(net), Precision::f32);
  EXPECT_GE(trained.weight_bytes, 2 * full.weight_bytes);
}

TEST(Explain, JsonHasEveryLayer) {
  report::ExplainOptions options = on({"a100-40-sxm", "v100-16"}, Precision::bf16);
  const auto json = nlohmann::json::parse(
      report::explanation_json(report::explain(net("lenet5", {{"batch", 8}}), "lenet5", options)));
  EXPECT_EQ(json["batch"], 8);
  EXPECT_EQ(json["devices"].size(), 2u);
  EXPECT_TRUE(json["devices"][0]["supported"]);
  EXPECT_FALSE(json["devices"][1]["supported"]);
  double seconds = 0;
  for (const auto& layer : json["devices"][0]["layers"]) seconds += layer["seconds"].get<double>();
  EXPECT_DOUBLE_EQ(seconds, json["devices"][0]["seconds"].get<double>());
  EXPECT_EQ(json["optimiser"]["before"]["nodes"], models::build_model("lenet5").node_count());
}

TEST(Calibration, AQuickOneIsSavedAndFound) {
  const cost::DeviceProfile profile =
      report::calibrate_cpu({}, {.roof_seconds = 1e-4, .roof_runs = 1, .net_runs = 1, .most_nets = 1},
                            {[] { return train::usual_training_step(dense_net(2)); }});
  EXPECT_GT(profile.vector_rates.f32, 1e9);
  EXPECT_GT(profile.bandwidth, 1e8);
  EXPECT_EQ(profile.caches.size(), 3u);
  ASSERT_TRUE(profile.one_thread);
  // Which kernels run the first net's convolutions is for the machine to choose.
  const auto has_convolution = [](const cost::Sample& sample) {
    return sample.kernel.starts_with("cpu_channels_last");
  };
  EXPECT_TRUE(std::ranges::any_of(profile.correction.samples(), has_convolution));
  EXPECT_TRUE(std::ranges::any_of(profile.one_thread->correction.samples(), has_convolution));
  EXPECT_TRUE(std::ranges::any_of(profile.correction.samples(),
                                  [](const cost::Sample& sample) { return sample.kernel.starts_with("cpu_bf16"); }));
  EXPECT_TRUE(profile.correction.knows("cpu_optimiser_step"));  // of the training step
  const TemporaryFolder folder;
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  EXPECT_FALSE(report::load_cpu_profile().measured);
  report::save_calibration(profile, report::calibration_path());
  const report::CpuProfile found = report::load_cpu_profile();
  EXPECT_TRUE(found.measured);
  EXPECT_EQ(found.profile.correction.samples().size(), profile.correction.samples().size());
  EXPECT_DOUBLE_EQ(found.profile.with_one_thread().vector_rates.f32, profile.one_thread->vector_rates.f32);
  unsetenv("XDG_CACHE_HOME");
}

TEST(Calibration, NetsAreNoModelsButManySizes) {
  std::set<std::string> operators;
  int quantised = 0;
  for (const report::CalibrationNet& net : report::calibration_nets()) {
    quantised += net.quantised ? 1 : 0;
    for (const ir::NodeId id : net.graph.order()) operators.insert(net.graph.node(id).op);
  }
  EXPECT_GE(quantised, 2);
  for (const char* op :
       {"Conv", "ConvTranspose", "MatMul", "Gemm", "Softmax", "LayerNormalization", "MaxPool", "Transpose", "Concat",
        "Gather", "Add", "Erf", "Cast", "QuantizeLinear", "DequantizeLinear", "LSTM", "GRU"})
    EXPECT_TRUE(operators.contains(op)) << op;
}

}  // namespace
}  // namespace tessera::test::explain_test
