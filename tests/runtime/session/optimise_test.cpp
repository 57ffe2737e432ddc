// Optimised models in files: what they compute, and that their packed weights are used.
#include "tessera/optimise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "io/package.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "models/models.h"
#include "ops/core/infer.h"
#include "runtime/memory/weight_store.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::test::optimise_test {
namespace {

Model build(const std::string& name, std::map<std::string, std::int64_t> dims = {}) {
  models::BuildOptions options;
  options.dims = std::move(dims);
  return Model(std::make_shared<const ir::Graph>(models::build_model(name, options)));
}

// With every symbolic dimension fixed.
Model with_all_dims(const Model& model, std::int64_t size) {
  std::map<std::string, std::int64_t> dims;
  for (const ValueDescription& input : model.inputs()) {
    for (const std::string& name : input.dim_names) {
      if (!name.empty()) dims[name] = size;
    }
  }
  return model.with_dims(dims);
}

void expect_identical(const NamedValues& a, const NamedValues& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) EXPECT_TRUE(identical(value.tensor(), b.at(name).tensor())) << name;
}

NamedValues run(const Model& model, const NamedValues& inputs, const std::string& device = "cpu") {
  return Session(model, {.device = device}).run(inputs);
}

class OptimiseTest : public testing::Test {
 protected:
  const TemporaryFolder folder;
  const std::filesystem::path package = folder / "model.tsr", onnx = folder / "model.onnx";
};

class Nets : public OptimiseTest, public testing::WithParamInterface<const char*> {};

TEST_P(Nets, GiveTheSameBitsFromAPackage) {
  const Model model = with_all_dims(build(GetParam()), 2);
  const OptimiseReport report = optimise(model, package);
  EXPECT_GT(report.packings, 0);
  EXPECT_EQ(static_cast<std::uintmax_t>(report.file_bytes), std::filesystem::file_size(package));
  const Model loaded = Model::load(package);
  EXPECT_EQ(static_cast<std::int64_t>(loaded.package()->packings->size()), report.packings);
  EXPECT_TRUE(loaded.package()->info.ready);
  const NamedValues inputs = runtime::random_inputs(model, 3);
  expect_identical(run(model, inputs), run(loaded, inputs));
}

INSTANTIATE_TEST_SUITE_P(Small, Nets, testing::Values("lenet5", "mobilenet_v3_small", "bert_mini", "dlrm"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(OptimiseTest, PackagesTakeAnyShapeThatTheModelTakes) {
  const Model model = build("lenet5");
  ASSERT_EQ(model.inputs()[0].dims[0], -1);
  optimise(model, package);
  const Model loaded = Model::load(package);
  EXPECT_FALSE(loaded.package()->info.ready);
  Session session(loaded);
  for (const std::int64_t batch : {1, 3}) {
    const NamedValues inputs = runtime::random_inputs(model.with_dims({{"batch", batch}}), 5);
    expect_identical(run(model, inputs), session.run(inputs));
    expect_identical(run(model, inputs), run(loaded.with_dims({{"batch", batch}}), inputs));
  }
}

// While a map's size is not known, packings are made for one of a pixel, of which windows would only meet the centre.
TEST_F(OptimiseTest, WindowsKeepTheirTapsWhileSizesAreOpen) {
  std::string numbers = "1";
  for (int i = 1; i < 16 * 16 * 9; ++i) numbers += ", " + std::to_string(i % 7 - 3);
  const std::string text = "graph { input %x : f32[1, 16, height, width] constant %w = f32[16, 16, 3, 3] {" + numbers +
                           "} %y = Conv (%x, %w) {pads = [1, 1, 1, 1]} output %y }";
  ir::Graph graph = ir::parse(text);
  ops::infer_graph(graph);
  const Model model(std::make_shared<const ir::Graph>(std::move(graph)));
  const OptimiseReport report = optimise(model, package);
  EXPECT_EQ(report.packings, 1);
  EXPECT_EQ(report.packed_bytes, 16 * 16 * 9 * 4);
  const Model loaded = Model::load(package);
  EXPECT_TRUE(loaded.package()->info.without.empty());
  for (const std::int64_t size : {1, 5}) {
    const Model fixed = model.with_dims({{"height", size}, {"width", size}});
    const NamedValues inputs = runtime::random_inputs(fixed, 3);
    expect_identical(run(loaded, inputs), run(model, inputs));
  }
}

TEST_F(OptimiseTest, PackedWeightsComeFromTheFile) {
  const Model model = build("lenet5", {{"batch", 1}});
  const NamedValues inputs = runtime::random_inputs(model, 3);
  optimise(model, package);
  const Model good = Model::load(package);
  // Other weights in the section of the packed ones, with the constants as they were: only who reads them notices.
  const auto packed = std::ranges::find(good.package()->sections, "packed", &io::Section::name);
  ASSERT_NE(packed, good.package()->sections.end());
  std::filesystem::copy_file(package, folder / "bad.tsr");
  std::fstream file(folder / "bad.tsr", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(packed->offset));
  const std::vector<char> zeros(static_cast<std::size_t>(packed->stored_bytes), 0);
  file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
  file.close();
  const Model bad = Model::load(folder / "bad.tsr");
  run(good, inputs);
  expect_error_containing(ErrorKind::invalid_model, "weights are damaged: their checksum differs",
                          [&] { run(bad, inputs); });
  // Another device has other kernels, and takes the constants.
  expect_identical(run(good, inputs, "reference"), run(bad, inputs, "reference"));
  verify_package(package);
  expect_error(ErrorKind::invalid_model, "section 'packed' is damaged: its checksum differs",
               [&] { verify_package(folder / "bad.tsr"); });
}

TEST_F(OptimiseTest, StoredPackingsOfAnotherSizeAreMadeAnew) {
  alignas(64) std::byte constants[64] = {}, packed[128] = {};
  // One entry: of the constant at byte 0, "gemm[4]", 128 bytes from byte 0 on.
  const std::vector<std::uint8_t> list{1,   0,   0,   0, 0, 0, 0, 0, 0, 0, 0, 0,   7, 0, 0, 0, 'g', 'e', 'm', 'm',
                                       '[', '4', ']', 0, 0, 0, 0, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0,   0,   0};
  const auto stored =
      std::make_shared<const io::StoredPackings>(std::as_bytes(std::span(list)), constants, packed, nullptr);
  const auto account = std::make_shared<runtime::MemoryAccount>();
  runtime::SharedWeightStore store(account, stored);
  const Tensor weights(DType::f32, {4}, constants, nullptr);
  int made = 0;
  const auto pack = [&](const Tensor&, std::byte*) { ++made; };
  EXPECT_EQ(store.find_or_pack(weights, "gemm", 128, pack)->data.get(), packed);
  EXPECT_EQ(made, 0);
  EXPECT_NE(store.find_or_pack(weights, "gemm", 256, pack)->data.get(), packed);
  EXPECT_NE(store.find_or_pack(weights, "other", 128, pack)->data.get(), packed);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(account->total(), 0);
}

// Weights of int8 that are dequantised for a product in float32.
Model weight_only_model() {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{2, 256}));
  Tensor weights(DType::i8, {256, 512});
  for (std::int64_t i = 0; i < weights.elements(); ++i)
    weights.mutable_data<std::int8_t>()[i] = static_cast<std::int8_t>(i * 7 % 251 - 125);
  const ir::ValueId scale = graph.add_constant(Tensor::scalar(0.01f), "scale");
  const ir::ValueId real =
      graph.add_op("DequantizeLinear", {graph.add_constant(weights, "weights"), scale}, {}, "real");
  graph.add_output(graph.add_op("MatMul", {x, real}, {}, "y"));
  graph.metadata["opset:ai.onnx"] = "13";
  ops::infer_graph(graph);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

TEST_F(OptimiseTest, WeightsOfInt8StaySmallInOnnx) {
  const Model model = weight_only_model();
  const OptimiseReport report = optimise(model, onnx);
  EXPECT_LT(report.file_bytes, 256 * 512 + 4096);
  EXPECT_EQ(report.opset, 13);
  EXPECT_EQ(report.opset_before, 13);
  const NamedValues inputs = runtime::random_inputs(model, 3);
  expect_identical(run(model, inputs), run(Model::load(onnx), inputs));
}

TEST_F(OptimiseTest, SaysHowFarItIs) {
  std::vector<std::string> said;
  double last = -1;
  OptimiseOptions options;
  options.progress = [&](std::string_view what, double done) {
    said.emplace_back(what);
    EXPECT_GE(done, last) << what;
    last = done;
  };
  optimise(build("lenet5", {{"batch", 1}}), package, options);
  EXPECT_EQ(last, 1);
  for (const char* expected : {"pass fold_constants", "packing weights", "writing the file"})
    EXPECT_EQ(std::ranges::count(said, expected) > 0, true) << expected;
}

TEST_F(OptimiseTest, RefusesOtherNames) {
  expect_error(ErrorKind::invalid_argument,
               "cannot tell what to write to 'model.bin': give it a name that ends in .onnx for an ONNX model, or in "
               ".tsr for a package",
               [&] { optimise(build("lenet5"), "model.bin"); });
}

TEST_F(OptimiseTest, OnnxHasNoOperatorsOfOurs) {
  const Model model = build("mobilenet_v3_small", {{"batch", 1}});
  const OptimiseReport report = optimise(model, onnx);
  EXPECT_LT(report.nodes_after, report.nodes_before);
  EXPECT_TRUE(report.own_operators.empty());
  const Model written = Model::load(onnx);
  EXPECT_EQ(written.package(), nullptr);
  EXPECT_EQ(static_cast<std::int64_t>(written.graph().node_count()), report.nodes_after);
  for (const ir::NodeId id : written.graph().order())
    EXPECT_EQ(written.graph().node(id).op.find("::"), std::string::npos);
  // A package's operators go back to ONNX's.
  optimise(model, package);
  EXPECT_TRUE(optimise(Model::load(package), onnx).own_operators.empty());
  const NamedValues inputs = runtime::random_inputs(model, 3);
  const Tensor want = run(model, inputs).begin()->second.tensor(),
               have = run(Model::load(onnx), inputs).begin()->second.tensor();
  for (std::size_t i = 0; i < want.values<float>().size(); ++i)
    EXPECT_NEAR(have.values<float>()[i], want.values<float>()[i], 1e-4);
}

TEST_F(OptimiseTest, RunsThePassesAskedFor) {
  const Model model = build("mobilenet_v3_small", {{"batch", 1}});
  OptimiseOptions options;
  options.only_passes = {"fold_constants", "remove_no_ops"};
  for (const PassChange& change : optimise(model, onnx, options).passes)
    EXPECT_TRUE(change.pass == "fold_constants" || change.pass == "remove_no_ops") << change.pass;
  options = {};
  options.session.without_passes = {"fold_channel_arithmetic"};
  const OptimiseReport report = optimise(model, onnx, options);
  EXPECT_FALSE(std::ranges::any_of(report.passes,
                                   [](const PassChange& change) { return change.pass == "fold_channel_arithmetic"; }));
  EXPECT_GT(report.nodes_after, optimise(model, onnx).nodes_after);
  options.session.without_passes = {"no_such_pass"};
  expect_error(ErrorKind::invalid_argument, "there is no pass 'no_such_pass'", [&] { optimise(model, onnx, options); });
  options = {.only_passes = {"no_such_pass"}};
  expect_error(ErrorKind::invalid_argument, "there is no pass 'no_such_pass'", [&] { optimise(model, onnx, options); });
}

TEST_F(OptimiseTest, PassesThatWereLeftOutStayOut) {
  const Model model = build("lenet5");
  OptimiseOptions options;
  options.session.without_passes = {"fuse_epilogues"};
  optimise(model, package, options);
  const NamedValues inputs = runtime::random_inputs(model, 3);
  const std::string plan = Session(Model::load(package)).describe_plan(inputs);
  EXPECT_EQ(plan, Session(model, options.session).describe_plan(inputs));
  EXPECT_NE(plan, Session(model).describe_plan(inputs));
}

TEST_F(OptimiseTest, CostsAreAskedForPassByPass) {
  const Model model = with_all_dims(build("lenet5"), 2);
  OptimiseOptions options;
  int asked = 0;
  options.measure = [&](const ir::Graph& graph) {
    ++asked;
    return GraphCost{.operations = static_cast<double>(graph.node_count()), .bytes = 1, .seconds = 2};
  };
  const OptimiseReport report = optimise(model, package, options);
  EXPECT_EQ(report.cost_before.operations, static_cast<double>(report.nodes_before));
  EXPECT_EQ(report.cost_after.operations, static_cast<double>(report.nodes_after));
  for (const PassChange& change : report.passes) {
    EXPECT_EQ(change.cost_before.operations, static_cast<double>(change.nodes_before)) << change.pass;
    EXPECT_EQ(change.cost_after.operations, static_cast<double>(change.nodes_after)) << change.pass;
    EXPECT_TRUE(change.changed || change.nodes_before == change.nodes_after) << change.pass;
  }
  EXPECT_EQ(asked,
            static_cast<int>(report.passes.size()) + 4);  // at the start and the end, and before each of two rounds
}

TEST_F(OptimiseTest, APackageRunsInThePrecisionThatItWasMadeWith) {
  const Model model = with_all_dims(build("lenet5"), 2);
  OptimiseOptions rounded;
  rounded.session.precision = DType::bf16;
  optimise(model, package, rounded);
  const Model loaded = Model::load(package);
  const NamedValues inputs = runtime::random_inputs(model, 3);
  expect_identical(Session(loaded, rounded.session).run(inputs), Session(model, rounded.session).run(inputs));
  Session session(loaded);
  EXPECT_EQ(session.precision(), DType::bf16);
  expect_identical(session.run(inputs), Session(model, rounded.session).run(inputs));
  SessionOptions whole;
  whole.precision = DType::f32;
  expect_error_containing(ErrorKind::invalid_argument,
                          "the package was made with precision bf16 and cannot run in f32: make another from its .onnx "
                          "with `tessera optimize MODEL.onnx -o OUT.tsr --precision f32`",
                          [&] { Session other(loaded, whole); });
  expect_error_containing(ErrorKind::invalid_argument, "ONNX has no form", [&] { optimise(loaded, onnx); });
  expect_error_containing(ErrorKind::invalid_argument, "ONNX has no form", [&] { optimise(model, onnx, rounded); });
  // The other way round nothing is hidden: the passes run again.
  optimise(model, package);
  EXPECT_EQ(Session(Model::load(package)).precision(), DType::f32);
  expect_identical(Session(Model::load(package), rounded.session).run(inputs),
                   Session(model, rounded.session).run(inputs));
}

TEST_F(OptimiseTest, PackagesHoldChainsThatRound) {
  const Model model = build("mobilenet_v2", {{"batch", 1}});
  OptimiseOptions rounded;
  rounded.session.precision = DType::bf16;
  optimise(model, package, rounded);
  const Model loaded = Model::load(package);
  const ir::Graph& graph = loaded.graph();
  EXPECT_TRUE(std::ranges::any_of(graph.order(), [&](ir::NodeId id) {
    return graph.node(id).op == "tessera::ConvChain" && graph.node(id).attributes.contains("precisions");
  }));
  const NamedValues inputs = runtime::random_inputs(model, 3);
  expect_identical(Session(loaded, rounded.session).run(inputs), Session(model, rounded.session).run(inputs));
}

TEST_F(OptimiseTest, PackagesHoldLayersOfBfloat16) {
  for (const auto& [name, op, dims] :
       {std::tuple("lstm", "LSTM", std::map<std::string, std::int64_t>{{"batch", 1}, {"time", 12}}),
        std::tuple("bert_mini", "Attention", std::map<std::string, std::int64_t>{{"batch", 1}, {"seq", 16}})}) {
    const Model model = build(name, dims);
    OptimiseOptions rounded;
    rounded.session.precision = DType::bf16;
    optimise(model, package, rounded);
    const Model loaded = Model::load(package);
    const ir::Graph& graph = loaded.graph();
    EXPECT_TRUE(std::ranges::any_of(graph.order(), [&](ir::NodeId id) {
      return graph.node(id).op == op && graph.value(graph.node(id).inputs[0]).type.dtype == DType::bf16;
    })) << name;
    const NamedValues inputs = runtime::random_inputs(model, 3);
    expect_identical(Session(loaded, rounded.session).run(inputs), Session(model, rounded.session).run(inputs));
  }
}

}  // namespace
}  // namespace tessera::test::optimise_test
