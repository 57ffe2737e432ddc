// tessera prune: removes weights, channels or heads of attention with small magnitudes from a model.
#include "tessera/prune.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "calibration_options.h"
#include "common.h"
#include "compress/core/compression_costs.h"
#include "compress/prune/prune_report.h"
#include "compress/quantise/quantise_file.h"
#include "option_values.h"
#include "runtime/session/random_inputs.h"
#include "tessera/optimise.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct PruneOptions {
  ModelOptions model;
  std::string output;
  OneShotPruneOptions prune;
  PruneDiagnosisOptions diagnosis;
  std::vector<double> sparsities;
  std::string page;
  bool per_layer = false, json = false, sensitivity = false;
  bool has_sparsity = false;  // whether --sparsity was given
};

// Measures times and memory of a run on the first sample of the data, or on random inputs if there are no data.
void measure(const PruneOptions& options, const Model& model, const Model& pruned, PruneReport& report) {
  const CalibrationData& data = options.diagnosis.data;
  if (!data.path.empty()) diagnose_pruning(model, pruned, options.prune, options.diagnosis, report);
  const NamedValues inputs = data.path.empty() ? runtime::random_inputs(model, 1) : compress::first_sample(model, data);
  compress::measure_costs(report, model, pruned, inputs, options.diagnosis.session);
}

void run_prune(PruneOptions options) {
  check_outputs({options.output, options.page});
  check_form(options.page, {kPageForm, kJsonForm});
  require(!options.output.empty() || options.sensitivity, ErrorKind::invalid_argument,
          "--output is required, but for --sensitivity");
  require((!options.sensitivity && options.diagnosis.metric.empty()) || !options.diagnosis.data.path.empty(),
          ErrorKind::invalid_argument, "what pruning costs is measured on data, but none were given (--data)");
  if (!options.output.empty()) check_output_name(options.output);
  require(!options.has_sparsity || options.prune.structure.find(':') == std::string::npos, ErrorKind::invalid_argument,
          "--sparsity does not go with --structure {}, which says itself how many weights stay",
          options.prune.structure);
  options.diagnosis.session = session_options(options.model);
  options.diagnosis.progress = show_progress;
  if (!options.sparsities.empty()) options.diagnosis.sparsities = options.sparsities;
  const Model model = load_model(options.model);
  std::optional<PruneSensitivity> sensitivity;
  if (options.sensitivity) sensitivity = prune_sensitivity(model, options.prune, options.diagnosis);
  // Without an output and a sparsity, only the sensitivity was requested, and nothing is pruned.
  std::optional<PruneReport> pruning;
  if (!options.output.empty() || options.has_sparsity) {
    PruneReport& report = pruning.emplace();
    const Model pruned = prune(model, options.prune, &report);
    if (!options.output.empty()) {
      report.file_bytes = write_pruned(pruned, options.output);
      report.file_bytes_before = compress::file_bytes_of(options.model.model, model);
    }
    if (!options.page.empty() || !options.diagnosis.data.path.empty()) measure(options, model, pruned, report);
  }
  const std::string json = compress::prune_json(pruning, options.output, sensitivity) + "\n";
  if (options.page.ends_with(".json")) write_text(options.page, json);
  else if (!options.page.empty())
    write_text(options.page,
               compress::prune_html(pruning, model_title(options.model.model), options.output, sensitivity));
  if (options.json) fmt::print("{}", json);
  else
    fmt::print("{}{}", sensitivity ? compress::sensitivity_text(*sensitivity) + "\n" : "",
               pruning ? compress::prune_text(*pruning, options.output) : "");
}

}  // namespace

void add_prune(CLI::App& app) {
  auto options = std::make_shared<PruneOptions>();
  CLI::App* verb = app.add_subcommand("prune", "Set small weights to zero, or take out whole channels or heads");
  add_model_options(*verb, options->model);
  verb->add_option("-o,--output", options->output, "File to write: .onnx, or .tsr with coded weights")
      ->type_name("FILE");
  CLI::Option* sparsity = verb->add_option("--sparsity", options->prune.sparsity,
                                           "Share of weights, channels or heads that goes (default 0.9); not with N:M");
  sparsity->type_name("SHARE");
  verb->add_option(
          "--structure", options->prune.structure,
          "none: weights anywhere; N:M, such as 2:4: of M weights in a row along the inputs N stay; channels: "
          "channels are taken out of the shapes, with all that depends on them; heads: heads of attention are taken "
          "out of its projections")
      ->type_name("none|N:M|channels|heads");
  CLI::Option* global =
      verb->add_flag("--global", options->prune.global, "The share is of all layers together, not of each");
  verb->add_flag("--per-layer", options->per_layer, "The share is of each layer (this is the default)")
      ->excludes(global);
  verb->add_option("--exclude", options->prune.exclude,
                   "Leave weights with names like this alone, such as 'head*'; repeatable")
      ->type_name("PATTERN");
  verb->add_flag("--sensitivity", options->sensitivity,
                 "Say what each layer alone costs at several sparsities; needs --data, and no output");
  verb->add_option("--sparsities", options->sparsities, "Of --sensitivity (default 0.5,0.7,0.8,0.9,0.95)")
      ->delimiter(',')
      ->check(number(0.001, 0.999))
      ->type_name("SHARE,...");
  add_calibration_options(*verb, options->diagnosis.data, "Inputs to measure what pruning costs on");
  add_metric_option(*verb, options->diagnosis.metric);
  verb->add_option("--report", options->page, "Also write the report as a page (.html) or as JSON (.json)");
  verb->add_flag("--json", options->json, "Print the report as JSON");
  verb->footer(
      "Pruning in one go costs accuracy, which training brings back: give the result to 'tessera train' as "
      "model.file,\n"
      "with prune.keep_zeros = true where weights are zero. Pruning step by step while a net trains costs less: see "
      "the\n"
      "table [prune] in docs/training.md.\n\nExamples:\n"
      "  tessera prune model.onnx -o pruned.onnx --sparsity 0.8 --exclude 'conv1*'\n"
      "  tessera prune model.onnx -o pruned.onnx --structure 2:4\n"
      "  tessera prune model.onnx --sensitivity --data test.npz --report page.html\n"
      "  tessera prune model.onnx -o small.onnx --structure channels --sparsity 0.5\n"
      "  tessera prune bert.onnx -o small.onnx --structure heads --sparsity 0.25");
  verb->callback([options, sparsity] {
    options->has_sparsity = sparsity->count() > 0;
    run_prune(*options);
  });
}

}  // namespace tessera::apps
