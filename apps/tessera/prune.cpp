// tessera prune: weights or whole channels of a model go, by their magnitudes.
#include "tessera/prune.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "common.h"
#include "report/json_text.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct Options {
  ModelOptions model;
  std::string output;
  OneShotPruneOptions prune;
  bool per_layer = false, json = false;
};

nlohmann::json as_json(const PruneReport& report, const std::string& path, std::int64_t bytes) {
  nlohmann::json layers = nlohmann::json::array();
  for (const PrunedLayer& layer : report.layers)
    layers.push_back({{"name", layer.name},
                      {"weights_before", layer.weights_before},
                      {"weights_after", layer.weights_after},
                      {"nonzero_after", layer.nonzero_after},
                      {"removed_inputs", layer.removed_inputs.size()},
                      {"removed_outputs", layer.removed_outputs.size()}});
  return {{"layers", std::move(layers)},
          {"kept_by", report.kept_by},
          {"parameters_before", report.parameters_before},
          {"parameters_after", report.parameters_after},
          {"path", path},
          {"file_bytes", bytes}};
}

void print_report(const PruneReport& report, const std::string& path, std::int64_t bytes) {
  fmt::print("{:<32} {:>12} {:>12} {:>12}\n", "weights of", "before", "after", "nonzero");
  for (const PrunedLayer& layer : report.layers)
    fmt::print("{:<32} {:>12} {:>12} {:>12} {:>6.1f}%\n", base::printable(layer.name), layer.weights_before,
               layer.weights_after, layer.nonzero_after,
               100 * static_cast<double>(layer.nonzero_after) / static_cast<double>(layer.weights_before));
  for (const std::string& node : report.kept_by)
    fmt::print("channels before {} stay: it does not treat them one by one\n", base::printable(node));
  fmt::print("{} parameters became {}; written to {}, {}\n", report.parameters_before, report.parameters_after,
             base::printable(path), base::format_bytes(bytes));
}

void run(const Options& options) {
  const Model model = load_model(options.model);
  PruneReport report;
  const Model pruned = prune(model, options.prune, &report);
  const std::int64_t bytes = write_pruned(pruned, options.output);
  if (options.json) fmt::print("{}\n", report::json_text(as_json(report, options.output, bytes), 2));
  else print_report(report, options.output, bytes);
}

}  // namespace

void add_prune(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("prune", "Set small weights to zero, or take out whole channels");
  add_model_options(*verb, options->model);
  verb->add_option("-o,--output", options->output, "File to write: .onnx, or .tsr with coded weights")
      ->type_name("FILE")
      ->required();
  verb->add_option("--sparsity", options->prune.sparsity, "Share of weights, or of channels, that goes (default 0.9)")
      ->type_name("SHARE");
  verb->add_option("--structure", options->prune.structure,
                   "none: weights anywhere; N:M, such as 2:4: of M weights in a row along the inputs N stay; channels: "
                   "channels are taken out of the shapes, with all that depends on them")
      ->type_name("none|N:M|channels");
  CLI::Option* global =
      verb->add_flag("--global", options->prune.global, "The share is of all layers together, not of each");
  verb->add_flag("--per-layer", options->per_layer, "The share is of each layer (this is the default)")
      ->excludes(global);
  verb->add_option("--exclude", options->prune.exclude,
                   "Leave weights with names like this alone, such as 'head*'; repeatable")
      ->type_name("PATTERN");
  verb->add_flag("--json", options->json, "Print the report as JSON");
  verb->footer(
      "Pruning in one go costs accuracy, which training brings back: give the result to 'tessera train' as "
      "model.file,\n"
      "with prune.keep_zeros = true where weights are zero. Pruning step by step while a net trains costs less: see "
      "the\n"
      "table [prune] in docs/training.md.\n\nExamples:\n"
      "  tessera prune model.onnx -o pruned.onnx --sparsity 0.8 --exclude 'conv1*'\n"
      "  tessera prune model.onnx -o pruned.onnx --structure 2:4\n"
      "  tessera prune model.onnx -o small.onnx --structure channels --sparsity 0.5");
  verb->callback([options] { run(*options); });
}

}  // namespace tessera::apps
