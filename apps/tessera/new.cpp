// tessera new: writes a well-known net with seeded random weights.
#include <fmt/format.h>

#include "base/numbers/units.h"
#include "common.h"
#include "models/models.h"
#include "option_values.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct NewOptions {
  std::string name, output;
  std::vector<std::string> dims;
  std::uint64_t seed = 1;
};

void run_new(const NewOptions& options) {
  const std::string path = options.output.empty() ? options.name + ".onnx" : options.output;
  if (!options.output.empty()) check_outputs({path});  // the default name is checked below, after the net's name
  check_form(options.output, {kOnnxForm});
  models::BuildOptions model_options;
  model_options.dims = parse_dims(options.dims);
  model_options.seed = options.seed;
  const Model model(std::make_shared<const ir::Graph>(models::build_model(options.name, model_options)));
  model.save(path);
  fmt::print("wrote {}\n", path);
}

}  // namespace

void add_new(CLI::App& app) {
  auto options = std::make_shared<NewOptions>();
  CLI::App* verb = app.add_subcommand("new", "Write a well-known net with seeded random weights as .onnx");
  std::vector<std::string> names;
  for (const models::ModelEntry& entry : models::all_models()) names.emplace_back(entry.name);
  suggest(verb->add_option("NAME", options->name, "Which net; see the list below")->required(), names);
  verb->add_option("-o,--output", options->output, "Where to write: OUT.onnx; NAME.onnx in this folder if not given");
  verb->add_option("--dim", options->dims, "Fix dimensions, as NAME=N or NAME=N,NAME=N; may be repeated");
  verb->add_option("--seed", options->seed, "Seed of the weights")
      ->capture_default_str()
      ->check(whole_number(0, kMostSeed));
  std::string footer = "Nets:\n";
  for (const models::ModelEntry& entry : models::all_models())
    footer += fmt::format("  {:<20} {}; dims: {}\n", entry.name, entry.summary, entry.dims);
  verb->footer(footer + "\nExample:\n  tessera new resnet50 -o resnet50.onnx --dim batch=1 --seed 1");
  verb->callback([options] { run_new(*options); });
}

}  // namespace tessera::apps
