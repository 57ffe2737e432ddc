// tessera explain: shows where the time goes, what bounds each layer, and what would change that.
#include "report/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/environment.h"
#include "base/error.h"
#include "base/log.h"
#include "common.h"
#include "cost/profile.h"
#include "generation_explanation.h"
#include "io/file.h"
#include "io/model_format.h"
#include "option_values.h"
#include "report/measure/calibration.h"
#include "report/measure/device_profile.h"
#include "report/measure/learning.h"
#include "tessera/train.h"
#include "train/net/training_step.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct ExplainOptions {
  ModelOptions model;
  std::vector<std::string> devices;
  std::string precision = "f32", convergence, html;
  double samples = 0;
  bool training = false, measure = false, learn = false, json = false, all = false;
  std::int64_t depth = 0, prompt_tokens = 512;
};

std::string text_or_file(const std::string& text) {
  if (!std::filesystem::is_regular_file(text)) return text;
  const std::vector<std::byte> bytes = io::read_file(text, 1 << 20);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The profile with as many threads as requested, with a warning if its figures are then estimates.
cost::DeviceProfile for_threads(const cost::DeviceProfile& profile, int threads) {
  bool scaled = false;
  cost::DeviceProfile result = profile.with_threads(threads, scaled);
  if (scaled)
    warn("the profile of {} was not measured with {} threads: predictions scale the figures of its {} cores",
         profile.title, threads, profile.multiprocessors);
  else if (profile.kind == cost::DeviceKind::cpu && threads > profile.multiprocessors)
    warn("the profile of {} has {} cores: predictions are for those, not for {} threads", profile.title,
         profile.multiprocessors, threads);
  return result;
}

report::ExplainOptions explain_options(const ExplainOptions& options) {
  report::ExplainOptions explain;
  const std::vector<std::string> names = options.devices.empty() ? std::vector<std::string>{"cpu"} : options.devices;
  for (const std::string& name : names) {
    if (const std::string_view variant = cost::usual_variant(name); !variant.empty())
      fmt::print(options.json ? stderr : stdout, "{} means {}\n", name, variant);
    const report::NamedProfile found = report::load_device_profile(name);
    if (found.is_measured) explain.cpu_measured = *found.is_measured;
    explain.devices.push_back(for_threads(found.profile, options.model.threads));
  }
  explain.precision = *cost::parse_precision(options.precision);
  explain.training = options.training || options.model.model.ends_with(".toml");
  explain.measure = options.measure || options.learn;
  if (options.learn) report::check_learnable(explain.precision);
  explain.session = session_options(options.model);
  explain.run = repeatable_run_options(options.model);
  explain.samples = options.samples;
  if (!options.convergence.empty()) explain.convergence = cost::parse_convergence(text_or_file(options.convergence));
  return explain;
}

// The training step of a configuration, with its batch size.
Model configured_step(const ExplainOptions& options) {
  TrainingConfig config = parse_training_config(text_or_file(options.model.model), options.model.model);
  config.output.clear();
  config.data.workers = 0;
  const Model step = Trainer(config).step_model();
  const bool open = std::ranges::any_of(
      step.inputs(), [](const ValueDescription& input) { return std::ranges::count(input.dim_names, "batch") > 0; });
  return open ? step.with_dims({{"batch", config.data.batch}}) : step;
}

Model model_to_explain(const ExplainOptions& options) {
  if (options.model.model.ends_with(".toml")) return with_assumed_dims(configured_step(options), options.json);
  const Model model = with_assumed_dims(load_model(options.model), options.json);
  return options.training ? train::usual_training_step(model) : model;
}

// A language model: the step of one token, and the step of a prompt.
void run_generation_explain(const ExplainOptions& options) {
  require(!options.training && !options.measure && !options.learn && options.convergence.empty() && !options.all,
          ErrorKind::invalid_argument,
          "--training, --measure, --learn, --convergence and --all do not apply to a language model; 'tessera bench' "
          "measures it");
  GenerationExplainOptions how;
  how.explain = explain_options(options);
  how.depth = options.depth;
  how.prompt_tokens = options.prompt_tokens;
  const GenerationExplanation explanation =
      explain_generation(options.model.model, std::filesystem::path(options.model.model).filename().string(), how);
  if (!options.html.empty()) write_text(options.html, report::explanation_html(explanation.steps[0].explanation));
  fmt::print("{}", options.json ? generation_json(explanation) + "\n" : generation_text(explanation));
}

bool is_language_model(const std::string& path) {
  return !path.ends_with(".toml") && io::is_language_model(model_path(path));
}

void run_explain(const ExplainOptions& options) {
  check_outputs({options.html});
  if (is_language_model(options.model.model)) return run_generation_explain(options);
  const report::ExplainOptions how = explain_options(options);
  const Model model = model_to_explain(options);
  const report::Explanation explanation =
      report::explain(model, std::filesystem::path(model_title(options.model.model)).stem().string(), how);
  const std::size_t learned = options.learn ? report::learn_from(explanation) : 0;
  if (!options.html.empty()) write_text(options.html, report::explanation_html(explanation));
  fmt::print("{}", options.json ? report::explanation_json(explanation) + "\n"
                                : report::explanation_text(explanation, options.all));
  if (options.learn && !options.json) fmt::print("\nlearned from {} operators for predictions to come\n", learned);
}

}  // namespace

void add_explain(CLI::App& app) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* verb =
      app.add_subcommand("explain", "Say where the time goes, what bounds each layer, and what would help");
  add_model_options(*verb, options->model, "an .onnx, .tsr or .gguf file, or a folder with .safetensors files");
  verb->add_option("--device", options->devices,
                   "Which device: cpu (this one), a name from the list below, or a FILE.toml; may be repeated, the "
                   "first is the one that advice is for");
  verb->add_option("--precision", options->precision, "Number type to compute in")
      ->capture_default_str()
      ->check(CLI::IsMember({"f32", "tf32", "f16", "bf16", "int8"}));
  verb->add_flag("--training", options->training,
                 "Explain a training step as `tessera train` makes it: forward, loss, gradients, SGD with momentum");
  verb->add_flag("--measure", options->measure, "Run it on this CPU and set measured times beside the predicted ones");
  verb->add_flag(
      "--learn", options->learn,
      "Measure it, and keep the times in this CPU's calibration: later predictions of operators alike follow them");
  verb->add_flag("--all", options->all, "List all operators, not only the slowest");
  verb->add_flag("--json", options->json, "Print everything as JSON");
  verb->add_option("--html", options->html, "Write a page with plots to this file");
  verb->add_option("--convergence", options->convergence,
                   "Epochs by batch, to choose the batch for training: a file or text such as 2048:65,3072:75-80");
  verb->add_option("--samples", options->samples, "Examples an epoch, for --convergence")->check(number(1, 1e18));
  verb->add_option("--threads", options->model.threads, "Threads of the CPU to use; 0: all cores this process may use")
      ->capture_default_str()
      ->check(whole_number(0, base::kMostThreads));
  verb->add_option("--seed", options->model.seed, "Seed of made-up inputs for --measure (1 if not given)")
      ->check(whole_number(0, kMostSeed));
  verb->add_option("--depth", options->depth, "Of a language model: tokens before those of the steps")
      ->capture_default_str()
      ->check(whole_number(0, 1 << 24));
  verb->add_option("--prompt-tokens", options->prompt_tokens, "Of a language model: tokens of the prompt's step")
      ->capture_default_str()
      ->check(whole_number(1, generate::LanguageStep::kMostRows));
  std::string names;
  for (const cost::DeviceProfile& profile : cost::built_in_profiles()) {
    if (profile.kind == cost::DeviceKind::gpu) names += fmt::format("  {:<14} {}\n", profile.name, profile.title);
  }
  verb->footer("Devices:\n" + names +
               "\nExamples:\n"
               "  tessera explain resnet50.onnx --dim batch=1 --measure\n"
               "  tessera explain resnet50.onnx --dim batch=1 --learn\n"
               "  tessera explain model.gguf --depth 2048           # one token, and a prompt, against memory's speed\n"
               "  tessera explain examples/digits.toml --measure    # the training step of a configuration\n"
               "  tessera explain resnet50.onnx --dim batch=32 --device a100-40-sxm --device h100-sxm --precision f16 "
               "--html report.html\n"
               "  tessera explain ssd.onnx --training --dim batch=2048 --device v100-16 --convergence "
               "2048:65,3072:75-80,4096:85-90 "
               "--samples 117266");
  verb->callback([options] { run_explain(*options); });
}

}  // namespace tessera::apps
