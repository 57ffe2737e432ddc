// tessera diff: finds where two models, or one model under two settings, differ.
#include <fmt/format.h>

#include <set>

#include "base/environment.h"
#include "base/error.h"
#include "common.h"
#include "option_values.h"
#include "passes/pipeline.h"
#include "report/inspect/model_difference.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

// Settings that apply to one of the two models.
struct SideOptions {
  std::string device = "cpu", precision;
  std::vector<std::string> without;
};

struct DiffOptions {
  ModelOptions model;  // A
  std::string other, inputs;
  std::vector<std::string> named_inputs;
  SideOptions a, b;
  report::Closeness closeness;
  std::int64_t most_mib = 256;
  std::string sort;
  bool outputs_only = false, json = false, all = false;
};

SessionOptions session_of(const DiffOptions& options, const SideOptions& side) {
  ModelOptions model = options.model;
  model.device = side.device;
  model.precision = side.precision;
  model.without.clear();
  for (const std::string& name : side.without) {
    if (name != "all") model.without.push_back(name);
    else
      for (const passes::Pass& pass : passes::all_passes()) model.without.emplace_back(pass.name);
  }
  return session_options(model);
}

// Loads both models and fixes in each the dimensions that it has; the other one may have been written with fixed ones.
std::pair<Model, Model> load_models(const DiffOptions& options) {
  const std::map<std::string, std::int64_t> dims = parse_dims(options.model.dims);
  const Model a = Model::load(model_path(options.model.model));
  const Model b = options.other.empty() ? a : Model::load(model_path(options.other));
  std::set<std::string> used;
  const auto fixed = [&](const Model& model) {
    std::map<std::string, std::int64_t> own;
    for (const ValueDescription& input : model.inputs()) {
      for (const std::string& name : input.dim_names) {
        if (dims.contains(name)) own[name] = dims.at(name);
      }
    }
    for (const auto& [name, size] : own) used.insert(name);
    return own.empty() ? model : model.with_dims(own);
  };
  std::pair<Model, Model> models{fixed(a), fixed(b)};
  for (const auto& [name, size] : dims)
    require(used.contains(name), ErrorKind::invalid_argument, "no input of either model has a dimension '{}'", name);
  return models;
}

report::DifferenceOrder order_of(const DiffOptions& options, const report::ModelDifference& difference) {
  using enum report::DifferenceOrder;
  if (options.sort.empty()) return difference.quantised && !options.json ? snr : computed;
  return options.sort == "snr"       ? snr
         : options.sort == "cosine"  ? cosine
         : options.sort == "largest" ? largest
                                     : computed;
}

void run_diff(const DiffOptions& options) {
  const auto [a, b] = load_models(options);
  report::ModelDifferenceOptions how{session_of(options, options.a),
                                     session_of(options, options.b),
                                     repeatable_run_options(options.model),
                                     options.closeness,
                                     options.outputs_only,
                                     options.most_mib << 20};
  report::ModelDifference difference =
      report::compare_models(a, b, read_inputs(a, options.inputs, options.named_inputs, options.model), how);
  report::sort_values(difference, order_of(options, difference));
  fmt::print("{}", options.json ? report::model_difference_json(difference) + "\n"
                                : report::model_difference_text(difference, options.all ? 0 : 10));
  if (!difference.same()) throw CLI::RuntimeError(1);
}

void add_side(CLI::App& verb, SideOptions& side, const std::string& letter, const std::string& title) {
  verb.add_option("--device-" + letter, side.device, "Where " + title + " runs: cpu or reference")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "reference"}));
  verb.add_option("--precision-" + letter, side.precision,
                  "What " + title + " multiplies in: f32 or bf16; without it what a .tsr was made with, f32 for .onnx")
      ->check(CLI::IsMember({"f32", "bf16"}));
  verb.add_option("--without-" + letter, side.without,
                  "A graph pass that " + title + " does without, or all of them: all; may be repeated")
      ->delimiter(',');
}

}  // namespace

void add_diff(CLI::App& app) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* verb = app.add_subcommand("diff", "Say where two models, or one under two settings, differ, and how much");
  verb->add_option("A", options->model.model, "A model: an .onnx or .tsr file, or - for standard input")->required();
  verb->add_option("B", options->other, "Another model; without it, A again, under the settings of B");
  verb->add_option("--dim", options->model.dims, "Fix a symbolic dimension of the inputs, as NAME=N; may be repeated");
  add_input_options(*verb, options->inputs, options->named_inputs, options->model);
  add_side(*verb, options->a, "a", "A");
  add_side(*verb, options->b, "b", "B");
  verb->add_option("--rtol", options->closeness.relative,
                   "Elements may be this far apart, in parts of the largest in A's value")
      ->capture_default_str()
      ->check(number(0, 1e300));
  verb->add_option("--atol", options->closeness.absolute, "... and this far besides")
      ->capture_default_str()
      ->check(number(0, 1e300));
  verb->add_flag("--outputs-only", options->outputs_only,
                 "Compare the outputs alone, as they come when passes may fuse everything");
  verb->add_option("--chunk", options->most_mib,
                   "Most MiB of values that one run hands out; more values take more runs")
      ->capture_default_str()
      ->check(whole_number(1, 1 << 20));
  verb->add_option("--sort", options->sort,
                   "What to list first: order (as A computes), or the worst by snr, cosine or largest; without it snr "
                   "where one model is quantised, else order")
      ->check(CLI::IsMember({"order", "snr", "cosine", "largest"}));
  verb->add_flag("--all", options->all, "List all values that differ, not only the first ten");
  verb->add_flag("--json", options->json, "Print all comparisons as JSON");
  verb->add_option("--threads", options->model.threads, "Most threads to use; 0: all cores this process may use")
      ->capture_default_str()
      ->check(whole_number(0, base::kMostThreads));
  verb->add_option("--seed", options->model.seed, "Seed of made-up inputs and of random operators (1 if not given)")
      ->check(whole_number(0, kMostSeed));
  verb->footer(
      "Both run on the same inputs. First their outputs are compared, as each computes them; then, run again, every "
      "value that means the same\n"
      "in both: by name, without the suffixes of quantisers, and rounded values with what the other model has not "
      "rounded. For each there are the\n"
      "signal-to-noise ratio in decibel (A is the signal), the cosine of the angle between both, the largest "
      "difference, that in parts of the\n"
      "largest magnitude in A, and how many elements differ by more than --rtol and --atol allow. A value that is "
      "handed out is not fused away: what passes make of the nodes around\n"
      "it differs from what runs without diff, so a fault of a fusion may show in the outputs alone. --outputs-only "
      "leaves the second part out.\n"
      "Values that a model does not name as the other does, such as those that 'tessera optimize' has fused, are "
      "counted and not compared.\n"
      "The exit code is 0 when they are the same, 1 when they differ.\n\nExamples:\n"
      "  tessera diff model.onnx optimised.onnx --dim batch=1\n"
      "  tessera diff model.onnx --device-a reference --without-a all\n"
      "  tessera diff model.onnx --without-b fuse_attention --outputs-only\n"
      "  tessera diff model.onnx --precision-b bf16 --rtol 0.02 --inputs in.npz --json\n"
      "  tessera diff float.onnx int8.onnx --inputs in.npz");
  verb->callback([options] { run_diff(*options); });
}

}  // namespace tessera::apps
