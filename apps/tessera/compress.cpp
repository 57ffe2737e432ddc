// tessera compress: trains, prunes, shares weights and writes coded packages, as a recipe says.
#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"
#include "common.h"
#include "compress/deep_compression/deep_compression_report.h"
#include "io/file.h"
#include "signals.h"
#include "tessera/deep_compression.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct CompressOptions {
  std::string recipe;
  std::vector<std::string> settings;
  std::string page;
  bool json = false;
};

void report(const CompressOptions& options, const std::vector<CompressedFold>& folds) {
  if (options.page.ends_with(".json")) write_text(options.page, compress::deep_compression_json(folds) + "\n");
  else if (!options.page.empty()) write_text(options.page, compress::deep_compression_html(folds, options.recipe));
  fmt::print("{}",
             options.json ? compress::deep_compression_json(folds) + "\n" : compress::deep_compression_text(folds));
}

void run_compress(const CompressOptions& options) {
  check_outputs({options.page});
  check_form(options.page, {kPageForm, kJsonForm});
  const std::vector<std::byte> bytes = io::read_file(options.recipe, std::int64_t{16} << 20);
  const CompressionRecipe recipe = parse_compression_recipe({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                                            options.recipe, options.settings);
  const GracefulStop stop;
  CompressionHooks hooks;
  hooks.cancellation = &stop.cancellation();
  hooks.measure = !options.page.empty();
  const bool on_terminal = isatty(STDERR_FILENO) == 1;
  hooks.progress = [&](std::int64_t fold, const std::string& stage, std::int64_t step, std::int64_t steps) {
    const std::string place = fold > 0 ? fmt::format("fold {}, ", fold) : "";
    constexpr std::int64_t kParts = 10;  // tenths of the work: if output is not a terminal, each is a line
    if (on_terminal) fmt::print(stderr, "\r{}{}: step {} of {}   ", place, stage, step, steps);
    else if (kParts * step / steps != kParts * (step - 1) / steps)
      fmt::print(stderr, "{}{}: step {} of {}\n", place, stage, step, steps);
  };
  hooks.fold = [&](const CompressedFold& fold) {
    fmt::print(stderr, "{}{} {:.4f} dense, {:.4f} pruned, {:.4f} compressed; {:.1f} times smaller\n",
               on_terminal ? "\r" : "", fold.metric, fold.dense, fold.pruned, fold.compressed, fold.ratio());
  };
  std::vector<CompressedFold> folds;
  const auto tell = hooks.fold;
  hooks.fold = [&](const CompressedFold& fold) {
    tell(fold);
    folds.push_back(fold);
  };
  try {
    run_deep_compression(recipe, hooks);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled) throw;
    if (!folds.empty()) report(options, folds);
    if (received_signal() != 0) fmt::print(stderr, "{}{}\n", on_terminal ? "\r" : "", base::printable(error.message()));
    throw;
  }
  report(options, folds);
}

}  // namespace

void add_compress(CLI::App& app) {
  auto options = std::make_shared<CompressOptions>();
  CLI::App* verb = app.add_subcommand("compress", "Train a net and make its file many times smaller, as a recipe says");
  verb->add_option("recipe", options->recipe,
                   "TOML file: that of a training, and the tables dictionary, prune, retrain, share and tune; see "
                   "docs/deep_compression.md and docs/dictionary.md")
      ->type_name("RECIPE.toml")
      ->required();
  verb->add_option("--set", options->settings, "Write a value over that of the file, such as share.bits=4; repeatable")
      ->type_name("KEY=VALUE");
  verb->add_option("--report", options->page,
                   "Also write the result, with times and memory, as a page (.html) or as JSON (.json)");
  verb->add_flag("--json", options->json, "Print the result as JSON");
  verb->footer(
      "Deep Compression (arXiv:1510.00149): the net is trained, pruned while it trains on, and its weights come to\n"
      "share a few values, which are trained too. The folder `output` gets a package (.tsr) with Huffman codes of the\n"
      "weights, which every verb takes as a model. Ctrl-C keeps the nets of the stages so far. With folds = 5 this is "
      "done five times, and each time the net is\n"
      "tested on another fifth of the data. A table [dictionary] gives convolutions dictionaries first (LCNN,\n"
      "arXiv:1611.06473), which take several times fewer multiply-adds.\n\nExamples:\n"
      "  tessera compress examples/deep_compression_lenet300.toml\n"
      "  tessera compress examples/deep_compression_lenet5.toml --set folds=0 --json\n"
      "  tessera compress examples/dictionary_mnist.toml\n"
      "  tessera run runs/deep_compression_lenet5/fold-1.tsr --dim batch=1");
  verb->callback([options] { run_compress(*options); });
}

}  // namespace tessera::apps
