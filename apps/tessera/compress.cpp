// tessera compress: trains, prunes, shares weights and writes coded packages, as a recipe says.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "common.h"
#include "io/file.h"
#include "report/json_text.h"
#include "signals.h"
#include "tessera/deep_compression.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct Options {
  std::string recipe;
  std::vector<std::string> settings;
  bool json = false;
};

struct Means {
  double dense = 0, compressed = 0, ratio = 0, least_ratio = HUGE_VAL;
};

Means means_of(const std::vector<CompressedFold>& folds) {
  Means means;
  const auto count = static_cast<double>(folds.size());
  for (const CompressedFold& fold : folds) {
    means.dense += fold.dense / count;
    means.compressed += fold.compressed / count;
    means.ratio += fold.ratio() / count;
    means.least_ratio = std::min(means.least_ratio, fold.ratio());
  }
  return means;
}

nlohmann::json as_json(const std::vector<CompressedFold>& folds) {
  nlohmann::json list = nlohmann::json::array();
  for (const CompressedFold& fold : folds) {
    nlohmann::json layers = nlohmann::json::array();
    for (const CompressedLayer& layer : fold.layers)
      layers.push_back(
          {{"name", layer.name}, {"weights", layer.weights}, {"nonzero", layer.nonzero}, {"values", layer.values}});
    list.push_back({{"fold", fold.fold},
                    {"metric", fold.metric},
                    {"dense", fold.dense},
                    {"pruned", fold.pruned},
                    {"shared", fold.shared},
                    {"compressed", fold.compressed},
                    {"parameter_bytes", 4 * fold.parameters},
                    {"file_bytes", fold.file_bytes},
                    {"ratio", fold.ratio()},
                    {"path", fold.path},
                    {"layers", std::move(layers)}});
  }
  const Means means = means_of(folds);
  return {{"folds", std::move(list)},
          {"dense", means.dense},
          {"compressed", means.compressed},
          {"ratio", means.ratio},
          {"least_ratio", means.least_ratio}};
}

void print_layers(const CompressedFold& fold) {
  fmt::print("\n{:<24} {:>10} {:>10} {:>8} {:>7}\n", "weights of", "all", "nonzero", "", "values");
  for (const CompressedLayer& layer : fold.layers)
    fmt::print("{:<24} {:>10} {:>10} {:>7.2f}% {:>7}\n", base::printable(layer.name), layer.weights, layer.nonzero,
               100 * static_cast<double>(layer.nonzero) / static_cast<double>(layer.weights),
               layer.values > 0 ? std::to_string(layer.values) : "own");
}

void print_result(const std::vector<CompressedFold>& folds) {
  fmt::print("{:<6} {:>9} {:>9} {:>9} {:>10} {:>8}  {}\n", "fold", "dense", "pruned", "file's", "bytes", "ratio",
             "file");
  for (const CompressedFold& fold : folds)
    fmt::print("{:<6} {:>9.4f} {:>9.4f} {:>9.4f} {:>10} {:>7.1f}x  {}\n",
               fold.fold > 0 ? std::to_string(fold.fold) : "-", fold.dense, fold.pruned, fold.compressed,
               fold.file_bytes, fold.ratio(), base::printable(fold.path));
  print_layers(folds.back());
  const Means means = means_of(folds);
  fmt::print(
      "\n{} of {}: dense {:.4f}, compressed {:.4f} ({:+.4f}); {:.1f} times smaller than the parameters in float32"
      "{}\n",
      folds.back().metric, folds.size() > 1 ? fmt::format("{} folds, mean", folds.size()) : "the test data",
      means.dense, means.compressed, means.compressed - means.dense, means.ratio,
      folds.size() > 1 ? fmt::format(" (at least {:.1f})", means.least_ratio) : "");
}

void run(const Options& options) {
  const std::vector<std::byte> bytes = io::read_file(options.recipe, std::int64_t{16} << 20);
  const CompressionRecipe recipe = parse_compression_recipe({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                                            options.recipe, options.settings);
  const GracefulStop stop;
  CompressionHooks hooks;
  hooks.cancellation = &stop.cancellation();
  const bool on_terminal = isatty(STDERR_FILENO) == 1;
  hooks.progress = [&](std::int64_t fold, const std::string& stage, std::int64_t step, std::int64_t steps) {
    const std::string place = fold > 0 ? fmt::format("fold {}, ", fold) : "";
    if (on_terminal) fmt::print(stderr, "\r{}{}: step {} of {}   ", place, stage, step, steps);
    else if (step == steps) fmt::print(stderr, "{}{}: {} steps\n", place, stage, steps);
  };
  hooks.fold = [&](const CompressedFold& fold) {
    fmt::print(stderr, "{}{} {:.4f} dense, {:.4f} pruned, {:.4f} compressed; {:.1f} times smaller\n",
               on_terminal ? "\r" : "", fold.metric, fold.dense, fold.pruned, fold.compressed, fold.ratio());
  };
  const std::vector<CompressedFold> folds = run_deep_compression(recipe, hooks);
  if (options.json) fmt::print("{}\n", report::json_text(as_json(folds), 2));
  else print_result(folds);
}

}  // namespace

void add_compress(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("compress", "Train a net and make its file many times smaller, as a recipe says");
  verb->add_option("recipe", options->recipe,
                   "TOML file: that of a training, and the tables prune, retrain, share and tune; see "
                   "docs/deep_compression.md")
      ->type_name("RECIPE.toml")
      ->required();
  verb->add_option("--set", options->settings, "Write a value over that of the file, such as share.bits=4; repeatable")
      ->type_name("KEY=VALUE");
  verb->add_flag("--json", options->json, "Print the result as JSON");
  verb->footer(
      "Deep Compression (arXiv:1510.00149): the net is trained, pruned while it trains on, and its weights come to\n"
      "share a few values, which are trained too. The folder `output` gets a package (.tsr) with Huffman codes of the\n"
      "weights, which every verb takes as a model. With folds = 5 this is done five times, and each time the net is\n"
      "tested on another fifth of the data.\n\nExamples:\n"
      "  tessera compress examples/deep_compression_lenet300.toml\n"
      "  tessera compress examples/deep_compression_lenet5.toml --set folds=0 --json\n"
      "  tessera run runs/deep_compression_lenet5/fold-1.tsr --dim batch=1");
  verb->callback([options] { run(*options); });
}

}  // namespace tessera::apps
