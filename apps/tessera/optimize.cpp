// tessera optimize: writes what the passes make of a model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "common.h"
#include "passes/pipeline.h"
#include "report/json_text.h"
#include "report/output_difference.h"
#include "tessera/optimise.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

// More than rounding in another order explains.
constexpr double kMostRelative = 1e-3;

struct Options {
  ModelOptions model;
  std::string output;
  std::vector<std::string> only;
  bool verify = false, json = false;
};

void print(const Options& options, const OptimiseReport& report) {
  for (const PassChange& change : report.passes) {
    if (change.nodes_before != change.nodes_after) fmt::print("{:<26} {:>6} -> {} nodes\n", change.pass, change.nodes_before, change.nodes_after);
  }
  fmt::print("{:<26} {:>6} -> {} nodes\n", "all passes", report.nodes_before, report.nodes_after);
  fmt::print("wrote {} ({}", options.output, base::format_bytes(report.file_bytes));
  if (report.packings > 0) fmt::print(", {} packed weights with {}", report.packings, base::format_bytes(report.packed_bytes));
  fmt::print(")\n");
  if (!report.why_not_packed.empty()) fmt::print("no weights are packed ahead, because no plan could be made with symbolic dimensions of 1 (fix them with --dim): {}\n", report.why_not_packed);
  if (!report.own_operators.empty()) fmt::print("other programs do not know {}\n", fmt::join(report.own_operators, ", "));
}

bool is_close(const report::OutputDifference& difference) {
  return difference.identical || (difference.mismatch.empty() && difference.relative <= kMostRelative);
}

std::vector<report::OutputDifference> verify(const Options& options, const Model& model) {
  const NamedValues inputs = read_inputs(model, "", {}, options.model);
  SessionOptions session = session_options(options.model);
  session.without_passes.clear();
  const auto outputs_of = [&](const Model& which) { return Session(which, session).run(inputs, run_options(options.model)); };
  return report::output_differences(outputs_of(model), outputs_of(Model::load(options.output)));
}

void print_differences(const std::vector<report::OutputDifference>& differences) {
  for (const report::OutputDifference& each : differences) {
    const std::string name = base::printable(base::shown(each.name));
    if (each.identical) fmt::print("verified {}: identical\n", name);
    else if (!each.mismatch.empty()) fmt::print("DIFFERS  {}: {}\n", name, each.mismatch);
    else fmt::print("{} {}: largest difference {:.3g}, {:.3g} of the largest value\n", is_close(each) ? "verified" : "DIFFERS ", name, each.largest, each.relative);
  }
}

nlohmann::json to_json(const Options& options, const OptimiseReport& report, const std::vector<report::OutputDifference>& differences) {
  nlohmann::json passes = nlohmann::json::array(), outputs = nlohmann::json::array();
  for (const PassChange& change : report.passes) passes.push_back({{"pass", change.pass}, {"nodes_before", change.nodes_before}, {"nodes_after", change.nodes_after}});
  for (const report::OutputDifference& each : differences) {
    outputs.push_back({{"name", each.name}, {"identical", each.identical}, {"mismatch", each.mismatch}, {"largest", each.largest}, {"relative", each.relative}});
  }
  nlohmann::json json{{"model", options.model.model}, {"output", options.output}, {"nodes_before", report.nodes_before}, {"nodes_after", report.nodes_after}, {"passes", passes},
                      {"packings", report.packings}, {"packed_bytes", report.packed_bytes}, {"file_bytes", report.file_bytes}, {"why_not_packed", report.why_not_packed},
                      {"own_operators", report.own_operators}};
  if (options.verify) json["verified"] = outputs;
  return json;
}

void run(const Options& options) {
  const Model model = load_model(options.model);
  const OptimiseOptions how{session_options(options.model), options.only};
  const OptimiseReport report = optimise(model, options.output, how);
  if (!options.json) print(options, report);
  std::vector<report::OutputDifference> differences;
  if (options.verify) differences = verify(options, model);
  if (options.json) fmt::print("{}\n", report::json_text(to_json(options, report, differences), 2));
  else print_differences(differences);
  if (!std::ranges::all_of(differences, is_close)) throw CLI::RuntimeError(1);
}

}  // namespace

void add_optimize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("optimize", "Write a model as it is after all passes: a .tsr package for this machine, or .onnx for any program");
  add_model_options(*verb, options->model);
  verb->add_option("-o,--output", options->output, "Where to write: OUT.onnx, or OUT.tsr, which loads without work")->required();
  CLI::Option* only = verb->add_option("--only", options->only, "Run this pass and no others; may be repeated");
  verb->add_flag("--verify", options->verify, "Run both models on random inputs and print the largest difference");
  verb->add_flag("--json", options->json, "Print the report as JSON");
  add_run_options(*verb, options->model);
  only->excludes("--without");
  std::string footer = "Passes, in order:\n";
  for (const passes::Pass& pass : passes::all_passes()) footer += fmt::format("  {:<26} {}{}\n", pass.name, pass.summary, pass.device_form ? " (not in .onnx)" : "");
  verb->footer(footer + fmt::format("\nA .tsr is for the instruction sets of this machine; elsewhere it runs too, but packs its weights anew.\n"
                                    "With --verify the exit code is 1 when outputs differ by more than {} of their largest value.\n\nExamples:\n"
                                    "  tessera optimize model.onnx -o model.tsr --dim batch=1 --verify\n"
                                    "  tessera optimize model.onnx -o smaller.onnx --without recognise_activations", kMostRelative));
  verb->callback([options] { run(*options); });
}

}  // namespace tessera::apps
