// tessera eval: tests the weights that a training wrote.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "common.h"
#include "io/file.h"
#include "report/html/class_report.h"
#include "report/values/json_text.h"
#include "tessera/train.h"
#include "train/evaluation/evaluation_json.h"
#include "training_progress.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct EvalOptions {
  std::string run, checkpoint, model_out, data = "test";
  std::vector<std::string> settings;
  bool json = false;
};

void run_eval(const EvalOptions& options) {
  check_outputs({options.model_out});
  check_form(options.model_out, {kOnnxForm});
  const std::filesystem::path folder(options.run);
  const bool is_folder = std::filesystem::is_directory(folder);
  const std::string path = is_folder ? (folder / "config.toml").string() : options.run;
  const std::vector<std::byte> bytes = io::read_file(path, std::int64_t{16} << 20);
  TrainingConfig config =
      parse_training_config({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, options.settings);
  const std::string output = is_folder ? options.run : config.output;
  config.output.clear();  // evaluating writes nothing to it
  Trainer trainer(config);
  trainer.resume(options.checkpoint.empty() ? output : options.checkpoint);
  if (!options.model_out.empty()) trainer.model().save(options.model_out);
  const EvaluationReport report = trainer.evaluate(options.data);
  if (options.json) {
    nlohmann::ordered_json json = {{"step", report.step}};
    train::add_evaluation(json, report);
    train::add_classes(json, report, static_cast<std::size_t>(-1));
    fmt::print("{}\n", report::json_text(json, 2));
    return;
  }
  fmt::print("step {}: {} of {} samples{}\n", report.step, report::evaluation_text(report), report.samples,
             skipped_text(report));
  fmt::print("{}", report::class_report_text(report));
}

}  // namespace

void add_eval(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* verb = app.add_subcommand("eval", "Test the weights that a training wrote, or export them");
  verb->add_option("run", options->run, "The folder that `tessera train` wrote, or its configuration file")
      ->required()
      ->type_name("FOLDER|CONFIG.toml");
  verb->add_option("--checkpoint", options->checkpoint, "This checkpoint instead of the newest one");
  verb->add_option("--on", options->data, "Which data to test the weights on: test, validation or train")
      ->check(CLI::IsMember({"test", "validation", "train"}))
      ->capture_default_str();
  verb->add_option("--set", options->settings, "Write a value over that of the file, such as data.test=other.npz")
      ->type_name("KEY=VALUE");
  verb->add_option("--export", options->model_out, "Also write the net with these weights as an .onnx file");
  verb->add_flag("--json", options->json, "Print the result as JSON");
  verb->footer(
      "Examples:\n  tessera eval runs/digits\n"
      "  tessera eval runs/digits --set data.test=new_digits.npz --json\n"
      "  tessera eval runs/digits --checkpoint runs/digits/checkpoint-000000400.npz --export at_400.onnx");
  verb->callback([options] { run_eval(*options); });
}

}  // namespace tessera::apps
