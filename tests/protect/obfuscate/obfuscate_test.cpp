// Obfuscated models: they compute what the plain ones do, and their files do not show it.
#include "tessera/obfuscate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "io/package.h"
#include "ir/text.h"
#include "ops/symbols.h"
#include "protect/obfuscate/symbol_file.h"
#include "protect/protected_files.h"
#include "support/error_of.h"
#include "tessera/obfuscation_measure.h"
#include "tessera/tessera.h"

namespace tessera::test::obfuscate_test {
namespace {

template <typename Call>
void expect_refused(const std::string& part, Call call) {
  const std::string error = error_of(call);
  EXPECT_NE(error.find(part), std::string::npos) << error;
}

class Obfuscated : public ProtectedFiles {
 protected:
  Model make(const Model& model, const ObfuscateOptions& how) {
    report = obfuscate_model(model, file, how);
    return Model::load(file);
  }
  ObfuscateOptions how(int degree, std::vector<std::string> passes = {}) {
    return {degree, 5, std::move(passes), folder / ("symbols" + std::to_string(made++))};
  }

  ObfuscateReport report;
  int made = 0;
};

Model with_sizes(const Model& model, std::int64_t size) {
  std::map<std::string, std::int64_t> dims;
  for (const ValueDescription& input : model.inputs()) {
    for (const std::string& name : input.dim_names) {
      if (!name.empty()) dims[name] = size;
    }
  }
  return dims.empty() ? model : model.with_dims(dims);
}

bool all_identical(const NamedValues& a, const NamedValues& b) {
  return std::ranges::all_of(
      a, [&](const auto& each) { return identical(each.second.tensor(), b.at(each.first).tensor()); });
}

// The greatest difference in units of the last place of the greatest element.
double greatest_difference(const NamedValues& a, const NamedValues& b) {
  double most = 0;
  for (const auto& [name, value] : a) {
    if (value.tensor().dtype() != DType::f32) continue;
    double scale = 0, difference = 0;
    for (std::int64_t i = 0; i < value.tensor().elements(); ++i) {
      scale = std::max(scale, std::abs(static_cast<double>(value.tensor().data<float>()[i])));
      difference = std::max(difference, std::abs(static_cast<double>(value.tensor().data<float>()[i]) -
                                                 static_cast<double>(b.at(name).tensor().data<float>()[i])));
    }
    if (difference > 0) most = std::max(most, difference / (scale * std::ldexp(1.0, -23)));
  }
  return most;
}

class ObfuscatedNets : public Obfuscated, public testing::WithParamInterface<const char*> {};

// docs/protect.md states this bound.
constexpr double kMostUlps = 64;

TEST_P(ObfuscatedNets, GiveTheSameResults) {
  const Model model = with_sizes(build(GetParam(), {{"batch", 2}}), 3);
  const std::filesystem::path package = folder / "plain.tsr";
  optimise(model, package);
  const NamedValues inputs = runtime::random_inputs(model, 1);
  for (const char* device : {"cpu", "reference"}) {
    const NamedValues plain = Session(Model::load(package), {.device = device}).run(inputs);
    const auto result = [&](const ObfuscateOptions& options) {
      return Session(make(model, options), {.device = device}).run(inputs);
    };
    EXPECT_TRUE(all_identical(plain, result(how(1)))) << device;
    EXPECT_TRUE(all_identical(plain, result(how(2, {"scale_channels", "add_redundancy", "add_decoys", "rename"}))))
        << device;
    for (const int degree : {2, 3}) EXPECT_LE(greatest_difference(plain, result(how(degree))), kMostUlps) << device;
  }
}

// `tests/apps/protect_test.py --all --obfuscate` does the same with every net.
INSTANTIATE_TEST_SUITE_P(Small, ObfuscatedNets,
                         testing::Values("lenet5", "mlp", "cnn_digits", "conv1d", "gru_classifier", "resnet8",
                                         "unet_small", "transformer_small", "dlrm_small"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(Obfuscated, RunsWithSymbolsAlone) {
  const Model model = make(build("resnet8"), how(2));
  for (const ir::NodeId id : model.graph().order()) {
    const ir::Node& node = model.graph().node(id);
    EXPECT_TRUE(ops::is_symbol(node.op)) << node.op;
    EXPECT_TRUE(node.attributes.empty());
    EXPECT_TRUE(node.name.empty() || node.name.starts_with("_")) << node.name;
  }
  EXPECT_GT(report.permuted_channels, 0);
  EXPECT_GT(report.masked_weights, 0);
  EXPECT_GT(report.decoy_edges, 0);
  EXPECT_GT(report.redundant_nodes, 0);
  EXPECT_GT(report.symbols, report.nodes_after / 3);
  // The plan is made of the same graph: nothing becomes an operator again.
  EXPECT_TRUE(model.package()->info.passes.empty());
}

TEST_F(Obfuscated, KeepsSymbolicDimensions) {
  const Model plain = build("lenet5", {}), model = make(plain, how(2)).with_dims({{"batch", 3}});
  const NamedValues inputs = runtime::random_inputs(model, 1);
  EXPECT_LE(greatest_difference(Session(plain).run(inputs), Session(model).run(inputs)), kMostUlps);
}

TEST_F(Obfuscated, FollowsTheSeed) {
  obfuscate_model(build("lenet5"), file, how(2));
  const std::vector<std::byte> first = bytes_of_file(file);
  obfuscate_model(build("lenet5"), other, how(2));
  EXPECT_EQ(first, bytes_of_file(other));
  ObfuscateOptions another = how(2);
  another.seed = 6;
  obfuscate_model(build("lenet5"), other, another);
  EXPECT_NE(first, bytes_of_file(other));
}

TEST_F(Obfuscated, IsEncryptedToo) {
  const Model plain = build("lenet5");
  const ObfuscateReport written = obfuscate_model(plain, file, how(2), options());
  EXPECT_EQ(written.recipients.size(), 1U);
  EXPECT_TRUE(is_protected(file));
  const NamedValues inputs = runtime::random_inputs(plain, 1);
  EXPECT_LE(greatest_difference(Session(plain).run(inputs), Session(load()).run(inputs)), kMostUlps);
}

TEST_F(Obfuscated, IsWrittenInNoOtherForm) {
  const Model model = make(build("lenet5"), how(2));
  expect_refused("has no form for its symbols", [&] { model.save(folder / "m.onnx"); });
  optimise(model, other);  // a package stays obfuscated
  EXPECT_TRUE(Model::load(other).graph().metadata.contains(std::string(io::kObfuscatedMark)));
}

TEST_F(Obfuscated, RefusesWrongOptions) {
  const Model model = build("lenet5");
  expect_refused("expected 1 to 3", [&] { obfuscate_model(model, file, how(4)); });
  expect_refused("no pass of obfuscation 'hide'", [&] { obfuscate_model(model, file, how(2, {"hide"})); });
  expect_refused("a name that ends in .tsr", [&] { obfuscate_model(model, folder / "m.onnx", how(2)); });
  expect_refused("only encrypted files are signed",
                 [&] { obfuscate_model(model, file, how(1), {.keys = {}, .publisher = "publisher.key"}); });
  ObfuscateOptions options = how(1);
  obfuscate_model(model, file, options);
  expect_refused("whose symbols a model may need", [&] { obfuscate_model(model, other, options); });
  expect_refused("obfuscation begins with the .onnx model", [&] { obfuscate_model(Model::load(file), other, how(1)); });
}

TEST_F(Obfuscated, MeasuresDegrees) {
  const std::vector<ObfuscationFigures> figures = measure_obfuscation(build("resnet8"), 3, {}, 2);
  ASSERT_EQ(figures.size(), 4U);
  EXPECT_EQ(figures[0].similarity.operators, 1);
  EXPECT_EQ(figures[0].similarity.subgraphs, 1);
  for (std::size_t degree = 1; degree < 4; ++degree) {
    EXPECT_EQ(figures[degree].similarity.operators, 0);
    EXPECT_GT(figures[degree].run_seconds, 0);
    EXPECT_GT(figures[degree].memory_bytes, 0);
    EXPECT_GT(figures[degree].symbols_bytes, 0);
  }
  EXPECT_EQ(figures[1].similarity.subgraphs, 1);  // names alone hide no structure
  EXPECT_LT(figures[2].similarity.subgraphs, 0.5);
}

TEST(SymbolFile, IsRefusedWhenItIsWrong) {
  const ops::SymbolTable table{std::string(32, 'a'), 5, {{"tessera::_s", "LeakyRelu", {{"alpha", 0.1f}}}}};
  const ops::SymbolTable read = protect::parse_symbols(protect::symbol_text(table));
  EXPECT_EQ(read.id, table.id);
  EXPECT_EQ(read.salt, table.salt);
  ASSERT_EQ(read.symbols.size(), 1U);
  EXPECT_EQ(read.symbols[0].name, "tessera::_s");
  EXPECT_EQ(ir::print(read.symbols[0].attributes), ir::print(table.symbols[0].attributes));
  const auto refuses = [](std::string_view text, const std::string& part) {
    expect_refused(part, [&] { protect::parse_symbols(text); });
  };
  refuses("nonsense", "expected graph");
  refuses("graph \"other\" {}", "not a table of symbols");
  refuses("graph \"tessera symbols 1\" {}", "has no id");
  refuses("graph \"tessera symbols 1\" { metadata \"id\" = \"x\" metadata \"salt\" = \"1\" }", "32 hexadecimal digits");
  refuses(
      "graph \"tessera symbols 1\" { metadata \"id\" = \"" + std::string(32, 'a') + "\" metadata \"salt\" = \"g\" }",
      "no hexadecimal number");
}

}  // namespace
}  // namespace tessera::test::obfuscate_test
