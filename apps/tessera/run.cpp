// tessera run: runs a model once, and summarises or writes its outputs.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "common.h"
#include "option_values.h"
#include "report/measure/trace.h"
#include "report/values/json_text.h"
#include "report/values/summary.h"
#include "report/values/value_files.h"
#include "secret_shares.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct RunCommandOptions {
  ModelOptions model;
  std::string inputs, outputs, profile;
  std::vector<std::string> named_inputs;
  int top = 0;
  bool json = false;
  SharedRunVerb shared;
};

void write_outputs(const NamedValues& outputs, const std::string& path) {
  if (path == "-" || path.ends_with(".json")) write_text(path, report::write_values_json(outputs));
  else report::write_values_npz(path, outputs);
}

void print_outputs(const RunCommandOptions& options, const Model& model, const NamedValues& outputs, DType precision) {
  if (!options.json && options.outputs != "-" && precision != DType::f32)
    fmt::print("precision {}\n", name_of(precision));
  nlohmann::json list = nlohmann::json::array();
  for (const ValueDescription& output : model.outputs()) {
    const report::ValueSummary summary = report::summarise(outputs.find(output.name)->second);
    require(options.outputs.empty() || summary.has_data, ErrorKind::invalid_argument,
            "--outputs: device '{}' computes nothing that could be written", options.model.device);
    const std::vector<report::RankedElement> top =
        report::largest_elements(outputs.find(output.name)->second, options.top);
    if (options.json) {
      list.push_back(nlohmann::json::parse(report::summary_json(output.name, summary)));
      for (const report::RankedElement& each : top)
        list.back()["top"].push_back({{"index", each.index}, {"value", each.value}});
    } else if (options.outputs != "-") {
      fmt::print("{}: {}\n", base::printable(base::shown(output.name)), report::summary_text(summary));
      for (const report::RankedElement& each : top) fmt::print("  {:>8}  {:.6g}\n", each.index, each.value);
    }
  }
  if (options.json)
    fmt::print("{}\n", report::json_text(
                           {{"model", options.model.model}, {"precision", name_of(precision)}, {"outputs", list}}, 2));
}

void run_once(const RunCommandOptions& options) {
  if (!options.shared.peer.empty())
    return run_on_shares(options.shared, options.model.model, options.inputs, options.outputs, options.json);
  require(!options.json || options.outputs != "-", ErrorKind::invalid_argument,
          "--json and --outputs - would both write to standard output");
  check_outputs({options.outputs, options.profile});
  if (options.outputs != "-") check_form(options.outputs, {kArraysForm, kJsonForm});
  const Model model = load_model(options.model);
  const NamedValues inputs = read_inputs(model, options.inputs, options.named_inputs, options.model);
  Session session(model, session_options(options.model));
  const RunOptions how = run_options(options.model);
  report::RunTrace trace;
  const bool traced = !options.profile.empty();
  NamedValues outputs;
  run_with_made_up_sizes(model, has_no_inputs(options.inputs, options.named_inputs, options.model), [&] {
    if (traced) session.run(inputs, how);  // the first run plans and packs; the trace shows a typical later run
    outputs = traced ? report::traced_run(session, inputs, how, trace) : session.run(inputs, how);
  });
  print_outputs(options, model, outputs, session.precision());
  if (!options.outputs.empty()) write_outputs(outputs, options.outputs);
  if (traced)
    write_text(options.profile, report::trace_json(trace, std::filesystem::path(options.model.model).filename()));
}

}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* verb = app.add_subcommand("run", "Run a model once and print or save its outputs");
  add_model_options(*verb, options->model);
  add_input_options(*verb, options->inputs, options->named_inputs, options->model);
  verb->add_option("--outputs", options->outputs,
                   "Write all outputs to this .npz or .json file, or as JSON to standard output: -");
  verb->add_option("--profile", options->profile,
                   "Write a trace of a warm run, to open in Perfetto (ui.perfetto.dev) or chrome://tracing");
  verb->add_option(
          "--top", options->top,
          "Print the indices and values of so many largest elements of each output: of a classifier the classes")
      ->check(whole_number(0, 1000));
  verb->add_flag("--json", options->json, "Print the summary as JSON");
  add_shared_run_options(*verb, options->shared);
  add_run_options(*verb, options->model);
  verb->footer(
      "Without inputs, seeded random ones are made up: floats in [0, 1), integers 0 or 1.\n"
      "Arrays of bfloat16, 8-bit floats and int4 are those of the Python package ml_dtypes; outputs are written as "
      "such.\n"
      "In an .npz file a map NAME is NAME/keys and NAME/values, a sequence of maps with equal keys likewise with one "
      "row of values a\n"
      "map, any other sequence NAME/0, NAME/1 ... In JSON a tensor is nested lists, a sequence a list, a map an "
      "object, nothing null.\n\n"
      "Examples:\n"
      "  tessera run model.onnx\n"
      "  tessera run model.onnx --inputs in.npz --outputs out.npz\n"
      "  tessera run model.onnx --input image=cat.png --normalise imagenet --top 5\n"
      "  tessera run model.onnx --input image=cat.npy --dim batch=1 --profile trace.json");
  verb->callback([options] { run_once(*options); });
}

}  // namespace tessera::apps
