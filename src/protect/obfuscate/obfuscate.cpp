#include "tessera/obfuscate.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "backends/backend_table.h"
#include "base/error.h"
#include "io/file.h"
#include "io/package.h"
#include "ir/text.h"
#include "plan/choose_kernel.h"
#include "protect/obfuscate/passes.h"
#include "protect/obfuscate/symbol_file.h"

namespace tessera {
namespace {

using protect::Obfuscation;
using protect::ObfuscationPass;

constexpr ObfuscationPass kPasses[] = {
    {"permute_channels", protect::permute_channels, true, 2},
    {"scale_channels", protect::scale_channels, true, 2},
    {"mask_weights", protect::mask_weights, false, 2},
    {"add_redundancy", protect::add_redundancy, false, 2},
    {"add_decoys", protect::add_decoys, false, 2},
    {"rename", protect::rename, false, 1},
};

bool runs(const ObfuscateOptions& options, const ObfuscationPass& pass) {
  if (options.passes.empty()) return options.degree >= pass.least_degree;
  return std::ranges::find(options.passes, pass.name) != options.passes.end();
}

void check(const Model& model, const ObfuscateOptions& options, const std::filesystem::path& path) {
  require(path.extension() == ".tsr", ErrorKind::invalid_argument,
          "an obfuscated model is a package: give '{}' a name that ends in .tsr", path.string());
  require(options.degree >= 1 && options.degree <= 3, ErrorKind::invalid_argument,
          "a degree of obfuscation of {}, expected 1 to 3", options.degree);
  for (const std::string& name : options.passes) {
    require(std::ranges::find(kPasses, name, &ObfuscationPass::name) != std::end(kPasses), ErrorKind::invalid_argument,
            "there is no pass of obfuscation '{}'", name);
  }
  require(model.package() == nullptr, ErrorKind::invalid_argument,
          "obfuscation begins with the .onnx model: a package is optimised already, and cannot be scrambled");
  require(!options.symbols.empty(), ErrorKind::invalid_argument,
          "name the file for the symbols of the obfuscated model, without which it does not run");
  require(!io::is_present(options.symbols), ErrorKind::invalid_argument,
          "there is a file '{}', whose symbols a model may need; name another one", options.symbols.string());
}

// Equal symbols in different models would be taken for each other.
std::uint64_t seed_for(const Model& model, const ObfuscateOptions& options) {
  std::random_device device;
  const std::uint64_t seed = options.seed.value_or(std::uint64_t{device()} << 32 | device());
  std::string text = ir::print(model.graph(), {.max_constant_elements = 16}) + std::to_string(options.degree);
  for (const std::string& pass : options.passes) text += " " + pass;
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

ir::Graph run_passes(ir::Graph graph, const ObfuscateOptions& options, Obfuscation& state, bool before,
                     ObfuscateReport& report) {
  for (const ObfuscationPass& pass : kPasses) {
    if (pass.is_before_optimising != before || !runs(options, pass)) continue;
    graph = pass.run(std::move(graph), state);
    report.passes.emplace_back(pass.name);
  }
  return graph;
}

}  // namespace

std::span<const ObfuscationPass> protect::obfuscation_passes() {
  return kPasses;
}

std::vector<std::string> obfuscation_passes_of(int degree) {
  std::vector<std::string> names;
  for (const ObfuscationPass& pass : kPasses) {
    if (degree >= pass.least_degree) names.emplace_back(pass.name);
  }
  return names;
}

ObfuscateReport obfuscate_model(const Model& model, const std::filesystem::path& path, const ObfuscateOptions& options,
                                const ProtectOptions& protect, const OptimiseOptions& optimise_options) {
  check(model, options, path);
  require(protect.publisher.empty() || !protect.keys.empty(), ErrorKind::invalid_argument,
          "only encrypted files are signed; name a key to encrypt the obfuscated model for");
  const backends::Device& device = backends::find_device(optimise_options.session.device);
  Obfuscation state{protect::Dice(seed_for(model, options)), options.degree};
  state.accepts = [&](const ir::Graph& graph, const ir::Node& node) { return plan::may_accept(device, graph, node); };
  ObfuscateReport report;
  const Model scrambled(
      std::make_shared<const ir::Graph>(run_passes(ir::Graph(model.graph()), options, state, true, report)));
  OptimiseOptions with = optimise_options;
  // Chains want constant weights.
  if (options.degree > 2) with.session.without_passes.emplace_back("chain_convolutions");
  with.rewrite = [&](ir::Graph graph) {
    report.nodes_before = static_cast<std::int64_t>(graph.node_count());
    graph = run_passes(std::move(graph), options, state, false, report);
    report.nodes_after = static_cast<std::int64_t>(graph.node_count());
    report.symbols = static_cast<std::int64_t>(state.symbols.symbols.size());
    if (!state.symbols.id.empty()) {
      protect::write_symbol_file(options.symbols, state.symbols);
      ops::add_symbols(state.symbols);
    }
    return graph;
  };
  if (protect.keys.empty()) {
    report.file_bytes = optimise(scrambled, path, with).file_bytes;
  } else {
    const ProtectReport written = protect_model(scrambled, path, protect, with);
    report.file_bytes = written.file_bytes;
    report.recipients = written.recipients;
  }
  report.permuted_channels = state.permuted_channels;
  report.scaled_channels = state.scaled_channels;
  report.masked_weights = state.masked_weights;
  report.masked_bytes = state.masked_bytes;
  report.decoy_edges = state.decoy_edges;
  report.redundant_nodes = state.redundant_nodes;
  return report;
}

void use_symbols(const std::filesystem::path& path) {
  ops::SymbolTable table = protect::read_symbols_or_licence(path);
  try {
    ops::add_symbols(std::move(table));
  } catch (Error& error) {
    error.add_context("file " + path.string());
    throw;
  }
}

void use_symbols_of_environment() {
  const auto each_of = [](const char* variable, void (*use)(const std::filesystem::path&)) {
    const char* const value = std::getenv(variable);
    std::string_view paths = value != nullptr ? value : "";
    while (!paths.empty()) {
      const std::string_view path = paths.substr(0, paths.find(':'));
      if (!path.empty()) use(path);
      paths.remove_prefix(std::min(paths.size(), path.size() + 1));
    }
  };
  each_of("TESSERA_SYMBOLS", use_symbols);
  each_of("TESSERA_LIBRARY", use_operator_library);
}

}  // namespace tessera
