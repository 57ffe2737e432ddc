// tessera optimize: writes what the passes make of a model.
#include <fmt/format.h>

#include <algorithm>

#include "common.h"
#include "passes/pipeline.h"
#include "report/calibration.h"
#include "report/graph_cost.h"
#include "report/optimisation.h"
#include "tessera/optimise.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct Options {
  ModelOptions model;
  std::string output;
  std::vector<std::string> only;
  std::string page;
  bool verify = false, json = false;
};

std::vector<report::OutputDifference> verify(const Options& options, const Model& model) {
  const NamedValues inputs = read_inputs(model, "", {}, options.model);
  SessionOptions session = session_options(options.model);
  session.without_passes.clear();
  const auto outputs_of = [&](const Model& which) { return Session(which, session).run(inputs, run_options(options.model)); };
  return report::output_differences(outputs_of(model), outputs_of(Model::load(options.output)));
}

void run(const Options& options) {
  check_outputs({options.output, options.page});
  const Model model = load_model(options.model);
  const report::CpuProfile cpu = report::load_cpu_profile();
  const cost::DeviceProfile profile = options.model.threads == 1 ? cpu.profile.with_one_thread() : cpu.profile;
  const OptimiseOptions how{session_options(options.model), options.only, report::graph_measure(profile, options.model.device)};
  report::Optimisation result{options.model.model, options.output, profile.title, cpu.measured, optimise(model, options.output, how), options.verify, {}};
  if (options.verify) result.differences = verify(options, model);
  if (!options.page.empty()) write_text(options.page, report::optimisation_html(result));
  fmt::print("{}", options.json ? report::optimisation_json(result) + "\n" : report::optimisation_text(result));
  if (!std::ranges::all_of(result.differences, &report::OutputDifference::close)) throw CLI::RuntimeError(1);
}

}  // namespace

void add_optimize(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("optimize", "Write a model as it is after all passes: a .tsr package for this machine, or .onnx for any program");
  add_model_options(*verb, options->model);
  verb->add_option("-o,--output", options->output, "Where to write: OUT.onnx, or OUT.tsr, which loads without work")->required();
  CLI::Option* only = verb->add_option("--only", options->only, "Run these passes and no others; may be repeated")->delimiter(',');
  verb->add_flag("--verify", options->verify, "Run both models on random inputs and print the largest difference");
  verb->add_option("--report", options->page, "Write a page that says what the passes did and what that bought to this .html file");
  verb->add_flag("--json", options->json, "Print the report as JSON");
  add_run_options(*verb, options->model);
  only->excludes("--without");
  std::string footer = "Passes, in order:\n";
  for (const passes::Pass& pass : passes::all_passes()) footer += fmt::format("  {:<26} {}{}\n", pass.name, pass.summary, pass.device_form ? " (not in .onnx)" : "");
  verb->footer(footer + fmt::format("\nA .tsr is for the instruction sets of this machine; elsewhere it runs too, but packs its weights anew.\n"
                                    "With --verify the exit code is 1 when outputs differ by more than {} of their largest value.\n\nExamples:\n"
                                    "  tessera optimize model.onnx -o model.tsr --dim batch=1 --verify --report model.html\n"
                                    "  tessera optimize model.onnx -o smaller.onnx --without recognise_activations", report::Closeness().relative));
  verb->callback([options] { run(*options); });
}

}  // namespace tessera::apps
