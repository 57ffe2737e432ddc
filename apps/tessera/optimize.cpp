// tessera optimize: writes an optimised model.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/backend_table.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "common.h"
#include "io/model_format.h"
#include "passes/pipeline.h"
#include "report/explain/graph_cost.h"
#include "report/inspect/optimisation.h"
#include "report/measure/calibration.h"
#include "report/values/json_text.h"
#include "runtime/session/assumed_dims.h"
#include "runtime/session/program.h"
#include "tessera/generate.h"
#include "tessera/optimise.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct OptimizeOptions {
  ModelOptions model;
  std::string output;
  std::vector<std::string> only;
  std::string page;
  std::optional<std::int64_t> opset;
  bool verify = false, json = false;
};

// Compares runs of the original model, in float32 and with only those passes that are needed to run it at all, with
// runs of the written file. The reference kernels are exact but slow, so large models are computed by the CPU's.
void verify(const OptimizeOptions& options, const Model& original, report::Optimisation& result) {
  constexpr double kMostReferenceOperations = 2e8;
  const bool small =
      result.report.cost_before.operations <= kMostReferenceOperations && result.report.cost_before.unknown_nodes == 0;
  const NamedValues inputs = read_inputs(original, "", {}, options.model);
  SessionOptions how = session_options(options.model);
  how.without_passes.clear();
  SessionOptions plain = how;
  plain.device = small ? "reference" : "cpu";
  // a package runs in its own precision
  plain.precision = original.package() == nullptr ? DType::f32 : DType::undefined;
  plain.tune = false;
  for (const passes::Pass& pass : passes::all_passes()) {
    if (pass.name != "differentiate" && pass.name != "decompose_composites")
      plain.without_passes.emplace_back(pass.name);
  }
  Session before(original, plain), after(Model::load(options.output), how);
  // Layers that round to bfloat16 lose far more than a different order of sums does.
  const report::Closeness closeness{.relative = after.precision() == DType::bf16 ? 5e-2 : report::Closeness().relative};
  const RunOptions run = repeatable_run_options(options.model);
  result.differences = report::output_differences(before.run(inputs, run), after.run(inputs, run), closeness);
  result.verified_against = fmt::format("{} in {} without passes, on device {}", model_title(options.model.model),
                                        before.precision() == DType::bf16 ? "bfloat16" : "float32", plain.device);
}

// The bytes of the model's file, or of its weights if those are more, because they are in further files.
std::int64_t model_bytes(const OptimizeOptions& options, const Model& model) {
  std::error_code error;
  const std::uintmax_t file = std::filesystem::file_size(model_path(options.model.model), error);
  return std::max(error ? 0 : static_cast<std::int64_t>(file),
                  runtime::bytes_of_constants(model.graph(), nullptr, true));
}

// The sizes of dimensions that the report's figures are for. The model is written without them.
std::map<std::string, std::int64_t> figures_dims(const Model& model, bool json) {
  try {
    const runtime::AssumedDims assumed = runtime::assume_dims(model);
    if (!assumed.note.empty())
      fmt::print(json ? stderr : stdout, "{}\n", base::printable(base::shortened("figures " + assumed.note, 1000)));
    return assumed.dims;
  } catch (const Error& error) {
    warn("figures are not known: {}", error.message());
    return {};
  }
}

// Whether both models have the same logits, bit by bit, after a prompt of some tokens.
bool has_same_bits(const LanguageModel& one, const LanguageModel& other) {
  std::vector<std::int64_t> prompt;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(40, one.context()); ++i)
    prompt.push_back(i * i * 7 % one.vocabulary_size());
  const std::vector<float> a = one.logits(prompt), b = other.logits(prompt);
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The steps of generation depend on a session's options, so that there is no graph to optimise here.
void run_optimize_language_model(const OptimizeOptions& options) {
  const ModelOptions& model = options.model;
  const SessionOptions session = session_options(model);
  require(options.only.empty() && options.page.empty() && !options.opset && model.dims.empty() &&
              session.without_passes.empty() && !session.tune && session.precision == DType::undefined &&
              session.device == SessionOptions().device,
          ErrorKind::invalid_argument,
          "of the options of 'optimize', only -o OUT.tsr, --verify and --json apply to a language model");
  const LanguagePackageReport report = optimise_language_model(model_path(model.model), options.output);
  std::optional<bool> same;
  if (options.verify) {
    const LanguageModelOptions load{.threads = session.threads};
    same = has_same_bits(LanguageModel::load(model_path(model.model), load), LanguageModel::load(options.output, load));
  }
  if (options.json) {
    nlohmann::json json = {{"model", model_title(model.model)},   {"output", options.output},
                           {"bytes", report.file_bytes},          {"weights", report.weights},
                           {"weight_bytes", report.weight_bytes}, {"packed", report.packings},
                           {"packed_bytes", report.packed_bytes}};
    if (same) json["same_logits"] = *same;
    fmt::print("{}\n", report::json_text(json, 2));
  } else {
    fmt::print("wrote {}: {}, with {} weights ({}), of which {} are packed for this machine too ({})\n", options.output,
               base::format_bytes(report.file_bytes), report.weights, base::format_bytes(report.weight_bytes),
               report.packings, base::format_bytes(report.packed_bytes));
    if (same)
      fmt::print("verified: its logits {} those of {}\n", *same ? "have the same bits as" : "differ from",
                 model_title(model.model));
  }
  if (same && !*same) throw CLI::RuntimeError(1);
}

void run_optimize(const OptimizeOptions& options) {
  check_outputs({options.output, options.page});
  check_form(options.page, {kPageForm, kJsonForm});
  check_output_name(options.output);
  require(!options.verify || backends::find_device(options.model.device).computes(), ErrorKind::invalid_argument,
          "--verify: device '{}' computes nothing that could be compared", options.model.device);
  if (io::is_language_model(model_path(options.model.model))) return run_optimize_language_model(options);
  const Model model = load_model(options.model);
  const report::CpuProfile cpu = report::load_cpu_profile();
  const cost::DeviceProfile profile = options.model.threads == 1 ? cpu.profile.with_one_thread() : cpu.profile;
  const OptimiseOptions how{session_options(options.model), options.only,
                            report::graph_measure(profile, options.model.device, figures_dims(model, options.json)),
                            options.opset, show_progress};
  const std::int64_t bytes = model_bytes(options, model);  // measured before the file may be replaced
  report::Optimisation result{model_title(options.model.model),
                              options.output,
                              profile.title,
                              cpu.measured,
                              optimise(model, options.output, how),
                              bytes,
                              {},
                              {}};
  if (options.verify) verify(options, model, result);
  const std::string json = report::optimisation_json(result) + "\n";
  if (!options.page.empty())
    write_text(options.page, options.page.ends_with(".json") ? json : report::optimisation_html(result));
  fmt::print("{}", options.json ? json : report::optimisation_text(result));
  if (!std::ranges::all_of(result.differences, &report::OutputDifference::close)) throw CLI::RuntimeError(1);
}

}  // namespace

void add_optimize(CLI::App& app) {
  auto options = std::make_shared<OptimizeOptions>();
  CLI::App* verb = app.add_subcommand(
      "optimize", "Write a model as it is after all passes: a .tsr package for this machine, or .onnx for any program");
  add_model_options(*verb, options->model);
  verb->add_option("-o,--output", options->output, "Where to write: OUT.onnx, or OUT.tsr, which loads without work")
      ->required();
  CLI::Option* only =
      verb->add_option("--only", options->only, "Run these passes and no others; may be repeated")->delimiter(',');
  verb->add_option(
      "--opset", options->opset,
      "OUT.onnx: the version of ONNX's operator set to write; default: the model's, raised where an operator needs it");
  verb->add_flag("--verify", options->verify,
                 "Compare what is written, read back, with the model as it is in its file, on random inputs, and print "
                 "the loss in numbers");
  verb->add_option("--report", options->page,
                   "Also write what the passes did and what that bought as a page (.html) or as JSON (.json)");
  verb->add_flag("--json", options->json, "Print the report as JSON");
  add_run_options(*verb, options->model);
  only->excludes("--without");
  std::string footer = "Passes, in order:\n";
  for (const passes::Pass& pass : passes::all_passes())
    footer += fmt::format("  {:<26} {}{}\n", pass.name, pass.summary, pass.device_form ? " (not in .onnx)" : "");
  verb->footer(
      footer +
      fmt::format(
          "\nA .tsr is for the instruction sets of this machine; elsewhere it runs too, but packs its weights anew.\n"
          "With --verify the exit code is 1 when outputs differ by more than {} of their largest value (0.05 with "
          "--precision bf16).\nA language model (.gguf, or a folder with .safetensors files) is written as a .tsr "
          "alone, "
          "with its tokenizer\nand chat template; --verify then compares the bits of logits.\n\nExamples:\n"
          "  tessera optimize model.onnx -o model.tsr --dim batch=1 --verify --report model.html\n"
          "  tessera optimize model.onnx -o smaller.onnx --opset 13 --without recognise_activations\n"
          "  tessera optimize model.gguf -o model.tsr --verify",
          report::Closeness().relative));
  verb->callback([options] { run_optimize(*options); });
}

}  // namespace tessera::apps
