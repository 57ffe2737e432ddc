// Runs that begin before all weights of their package have been read.
#include "runtime/memory/weight_arrival.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ir/graph.h"
#include "ir/text.h"
#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/sanitized.h"
#include "support/temporary_folder.h"
#include "tessera/optimise.h"

namespace tessera::test::weight_arrival_test {
namespace {

using io::PieceUse;

// Flips a byte in every piece of such a use. Returns how many there are.
int damage(const std::filesystem::path& path, const std::function<bool(PieceUse)>& which) {
  std::vector<std::streamoff> places;
  {
    const Model model = Model::load(path);
    const io::PackageOrigin& package = *model.package();
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    for (const io::StreamedPiece& piece : package.stream->pieces()) {
      if (!which(piece.use)) continue;
      const std::string_view text(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
      const io::Section& section =
          *std::ranges::find(package.sections, piece.is_packing ? "packed" : "constants", &io::Section::name);
      places.push_back(static_cast<std::streamoff>(bytes.find(text, section.offset) + text.size() / 2));
    }
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (const std::streamoff place : places) {
    file.seekg(place);
    const auto byte = static_cast<char>(file.get());
    file.seekp(place);
    file.put(static_cast<char>(byte ^ 0x41));
  }
  return static_cast<int>(places.size());
}

Model build(const std::string& name, const std::map<std::string, std::int64_t>& dims) {
  models::BuildOptions options;
  options.dims = dims;
  return Model(std::make_shared<const ir::Graph>(models::build_model(name, options)));
}

NamedValues run(const Model& model, const NamedValues& inputs, const RunOptions& options = {}) {
  Session session(model);
  return session.run(inputs, options);
}

void expect_identical(const NamedValues& a, const NamedValues& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) EXPECT_TRUE(identical(value.tensor(), b.at(name).tensor())) << name;
}

class WeightArrivalTest : public testing::Test {
 protected:
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.tsr";
};

struct Net {
  const char* name;
  std::map<std::string, std::int64_t> dims;
};

class StreamedNets : public WeightArrivalTest, public testing::WithParamInterface<Net> {};

// What the first run is said not to read is not read; and what it reads is checked before there is a result.
TEST_P(StreamedNets, ReadWhatTheListSays) {
  const Model model = build(GetParam().name, GetParam().dims);
  const NamedValues inputs = runtime::random_inputs(model, 5);
  optimise(model, path);
  const NamedValues expected = run(Model::load(path), inputs);
  expect_identical(run(model, inputs), expected);
  EXPECT_GT(damage(path, [](PieceUse use) { return use == PieceUse::none; }), 0);
  expect_identical(run(Model::load(path), inputs), expected);
  EXPECT_GT(damage(path, [](PieceUse use) { return use != PieceUse::none; }), 0);
  expect_error_containing(ErrorKind::invalid_model, "weights are damaged: their checksum differs",
                          [&] { run(Model::load(path), inputs); });
}

INSTANTIATE_TEST_SUITE_P(All, StreamedNets,
                         testing::Values(Net{"resnet8", {{"batch", 1}}}, Net{"mobilenet_v3_small", {{"batch", 1}}},
                                         Net{"transformer_small", {{"batch", 1}, {"seq", 16}}},
                                         Net{"lstm_classifier", {{"batch", 2}}}, Net{"gru_classifier", {{"batch", 2}}},
                                         Net{"bert_mini", {{"batch", 1}, {"seq", 8}}},
                                         Net{"unet_small", {{"batch", 1}}}, Net{"mlp", {{"batch", 3}}}),
                         [](const auto& net) { return std::string(net.param.name); });

TEST_F(WeightArrivalTest, TablesOfWhichRowsAreReadComeLast) {
  optimise(build("bert_mini", {{"batch", 1}, {"seq", 8}}), path);
  const Model model = Model::load(path);
  int tables = 0;
  for (const io::StreamedPiece& piece : model.package()->stream->pieces())
    tables += piece.use == PieceUse::parts ? 1 : 0;
  EXPECT_GE(tables, 1);
  const NamedValues inputs = runtime::random_inputs(model, 5);
  damage(path, [](PieceUse use) { return use == PieceUse::parts; });
  expect_error_containing(ErrorKind::invalid_model, "weights are damaged", [&] { run(Model::load(path), inputs); });
}

// Counts the steps that begin while weights are missing.
class CountingGate final : public StepGate {
 public:
  explicit CountingGate(const io::WeightStream& stream) : stream_(stream) {}
  bool may_pass(const StepInfo&) override {
    early += stream_.is_complete() ? 0 : 1;
    ++all;
    return true;
  }
  void wait(const StepInfo&) override {}
  int early = 0, all = 0;

 private:
  const io::WeightStream& stream_;
};

TEST_F(WeightArrivalTest, FirstLayersComputeBeforeTheLastWeightsAreThere) {
  const Model model = build("mlp", {{"batch", 1}, {"width", 1024}, {"layers", 4}});
  const NamedValues inputs = runtime::random_inputs(model, 5);
  optimise(model, path);
  const Model loaded = Model::load(path);
  loaded.package()->stream->set_rate(40e6);  // 0.4 s for 16 MiB
  CountingGate gate(*loaded.package()->stream);
  expect_identical(run(loaded, inputs, {.gate = &gate}), run(model, inputs));
  EXPECT_GE(gate.early, 3);
  EXPECT_GT(loaded.package()->stream->report().groups, 2);
  EXPECT_TRUE(loaded.package()->stream->is_complete());
}

TEST_F(WeightArrivalTest, ARunThatWaitsForWeightsCanBeStopped) {
  const Model model = build("mlp", {{"batch", 1}, {"width", 1024}, {"layers", 4}});
  const NamedValues inputs = runtime::random_inputs(model, 5);
  optimise(model, path);
  const Model loaded = Model::load(path);
  loaded.package()->stream->set_rate(10e6 / test::kPatience);  // 1.6 s
  const auto begin = std::chrono::steady_clock::now();
  expect_error_containing(ErrorKind::over_budget, "", [&] { run(loaded, inputs, {.time_limit_ns = 100'000'000}); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1200 * test::kPatience));
}

// With symbolic dimensions passes run again for each plan; what they and the plan read is checked as well.
TEST_F(WeightArrivalTest, SymbolicPackagesAreCheckedToo) {
  const Model model = build("transformer_small", {{"seq", 16}});
  optimise(model, path);
  const NamedValues inputs = runtime::random_inputs(model.with_dims({{"batch", 3}}), 5);
  expect_identical(run(Model::load(path), inputs), run(model, inputs));
  damage(path, [](PieceUse use) { return use == PieceUse::whole; });
  expect_error_containing(ErrorKind::invalid_model, "damaged", [&] { run(Model::load(path), inputs); });
}

// Elsewhere the passes work on the constants, so these are checked before.
TEST_F(WeightArrivalTest, OtherDevicesCheckTheConstants) {
  const Model model = build("resnet8", {{"batch", 1}});
  optimise(model, path);
  damage(path, [](PieceUse use) { return use == PieceUse::none; });
  expect_error_containing(ErrorKind::invalid_model, "damaged",
                          [&] { Session(Model::load(path), {.device = "reference"}); });
}

TEST_F(WeightArrivalTest, EqualModelsAreEqualFiles) {
  const Model model = build("resnet8", {{"batch", 1}});
  optimise(model, path);
  optimise(model, folder / "again.tsr");
  const auto bytes = [](const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  EXPECT_TRUE(bytes(path) == bytes(folder / "again.tsr"));
}

}  // namespace
}  // namespace tessera::test::weight_arrival_test
