// tessera train: trains a net as a configuration says.
#include "tessera/train.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/communicator.h"
#include "base/error.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "common.h"
#include "dist/launch.h"
#include "dist/rendezvous.h"
#include "io/file.h"
#include "option_values.h"
#include "report/html/class_report.h"
#include "report/html/training_page.h"
#include "report/values/json_text.h"
#include "signals.h"
#include "train/evaluation/evaluation_json.h"
#include "train/run/run_log.h"
#include "training_progress.h"
#include "verbs.h"

namespace tessera::apps {
namespace {

struct TrainOptions {
  std::string config, resume;
  std::vector<std::string> settings;
  bool json = false, overwrite = false;
  int ranks = 0;
};

// A rank's connection to the others, and its number for the trainer's configuration. Without other ranks, empty.
struct RankConnection {
  std::shared_ptr<base::Communicator> communicator;
  std::optional<base::CommunicatorNumber> number;
  bool leads() const { return communicator == nullptr || communicator->rank() == 0; }
};

// Joins the other ranks if a launcher started this process as one of several.
void join(RankConnection& connection, double timeout_s, int expected) {
  const std::optional<dist::RankPlace> place = dist::place_from_environment();
  require(!place || expected == 0 || expected == place->ranks, ErrorKind::invalid_argument,
          "--ranks is {}, but this process was started as one of {} ranks", expected, place ? place->ranks : 0);
  if (!place) return;
  // Before anything computes: the threads are started once.
  ::setenv("TESSERA_NUM_THREADS", std::to_string(dist::threads_of_rank(*place)).c_str(), 0);
  const auto timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(timeout_s));
  connection.communicator = dist::join_ranks(*place, {timeout});
  connection.number.emplace(connection.communicator);
}

// Whether this process is to start the ranks instead of being one.
bool launches(const TrainOptions& options) {
  return options.ranks > 1 && !dist::place_from_environment();
}

// The command line of this process. (The size of that file is 0 as the system states it.)
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string each; std::getline(file, each, '\0');) arguments.push_back(each);
  require(!arguments.empty(), ErrorKind::io, "/proc/self/cmdline cannot be read, which tells how to start the ranks");
  return arguments;
}

TrainingConfig read_config(const std::string& path, const std::vector<std::string>& settings) {
  const std::vector<std::byte> bytes = io::read_file(path, std::int64_t{16} << 20);
  return parse_training_config({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, settings);
}

nlohmann::ordered_json as_json(const TrainingResult& result, const TrainingConfig& config, const DataSummary& data) {
  nlohmann::ordered_json json = {{"steps", result.steps},
                                 {"loss", result.loss},
                                 {"seconds", result.seconds},
                                 {"precision", config.precision},
                                 {"peak_rss_bytes", result.peak_rss_bytes},
                                 {"skipped_steps", result.skipped_steps},
                                 {"skipped_samples", result.skipped_samples},
                                 {"interrupted", result.interrupted},
                                 {"stopped_early", result.stopped_early},
                                 {"output", config.output}};
  for (const auto* report : {&result.evaluation, &result.test}) {
    if (!*report) continue;
    train::add_evaluation(json, **report);
    json[(*report)->data + "_samples"] = (*report)->samples;
    json[(*report)->data + "_skipped_samples"] = (*report)->skipped_samples;
  }
  if (const auto& last = result.test ? result.test : result.evaluation)
    train::add_classes(json, *last, static_cast<std::size_t>(-1));
  json["samples"] = result.samples;
  json["skipped_samples"] = result.skipped_samples;
  json["left_over_samples"] = data.left_over;
  for (const EncodedColumn& column : data.columns)
    json["columns"].push_back({{"name", column.name},
                               {"encoding", column.encoding},
                               {"numbers", column.numbers},
                               {"missing", column.missing},
                               {"description", column.description}});
  if (result.best) json["best"] = {{"step", result.best->step}, {result.best->metric, result.best->value}};
  if (result.best_test) train::add_evaluation(json["best"], *result.best_test);
  return json;
}

void print_result(const TrainingResult& result, const TrainingConfig& config) {
  if (result.skipped_samples > 0) {
    fmt::print("skipped {} samples that could not be read, such as {}\n", result.skipped_samples,
               base::printable(base::shown(result.skipped_reasons.empty() ? "" : result.skipped_reasons[0])));
  }
  if (result.interrupted) {
    fmt::print("interrupted after step {}; go on with --resume {}\n", result.steps, base::printable(config.output));
    return;
  }
  if (result.stopped_early) fmt::print("stopped early: {} evaluations brought nothing better\n", config.patience);
  for (const auto* report : {&result.evaluation, &result.test}) {
    if (*report)
      fmt::print("{} of {} samples{}\n", report::evaluation_text(**report), (*report)->samples, skipped_text(**report));
  }
  if (result.best && result.evaluation && result.best->step != result.evaluation->step)
    fmt::print("best {} {:.4f} at step {}{}, kept in {}\n", result.best->metric, result.best->value, result.best->step,
               result.best_test ? ", " + report::evaluation_text(*result.best_test) : "",
               base::printable((std::filesystem::path(config.output) / "best.onnx").string()));
  fmt::print("{} steps in {:.1f} s, {} at most in memory\n", result.steps, result.seconds,
             base::format_bytes(result.peak_rss_bytes));
  if (!config.output.empty())
    fmt::print("written to {}: model.onnx, log.jsonl, report.html\n", base::printable(config.output));
}

// Prints a reason and the names that it holds for; of many names only the first ones.
void print_names(const std::string& reason, const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 6;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size()));
  fmt::print(stderr, "  {}: {}{}\n", reason, fmt::join(names.begin(), end, ", "),
             names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

// Printed on stderr, because stdout is for the training's results.
void print_data(const DataSummary& data, const TrainingData& given) {
  const auto shown = [](const std::string& text) { return base::printable(base::shown(text)); };
  fmt::print(stderr, "learns from {} samples", data.samples);
  if (data.unreadable > 0) fmt::print(stderr, "; {} cannot be read and are left out", data.unreadable);
  if (data.left_over > 0)
    fmt::print(stderr, "; {} of each epoch are too few for a batch of {}{}", data.left_over, given.batch,
               given.shuffle ? ", others each time" : " and come first in the next epoch");
  fmt::print(stderr, "\n");
  for (const EncodedColumn& column : data.columns)
    fmt::print(stderr, "  column {}: {}\n", shown(column.name), base::printable(column.description));
  if (data.target.empty()) return;
  constexpr std::size_t kShown = 10;
  std::vector<std::string> classes;
  for (const std::string& name : data.classes) {
    if (classes.size() < kShown) classes.push_back(shown(name));
  }
  fmt::print(stderr, "  target {}: {}{}{}\n", shown(data.target),
             data.classes.empty() ? "a number" : fmt::format("{} classes: ", data.classes.size()),
             fmt::join(classes, ", "), data.classes.size() > kShown ? ", …" : "");
}

void print_weights(const TrainedWeights& weights) {
  for (const std::string& note : weights.notes) fmt::print(stderr, "{}\n", base::printable(note));
  const auto shown = [](const std::string& name) { return base::printable(base::shown(name)); };
  std::map<std::string, std::vector<std::string>> trained, untrained;
  for (std::size_t i = 0; i < weights.names.size(); ++i) trained[weights.reasons[i]].push_back(shown(weights.names[i]));
  for (const auto& [name, reason] : weights.untrained) untrained[reason].push_back(shown(name));
  fmt::print(stderr, "trains {} weights with {} numbers\n", weights.names.size(), weights.elements);
  for (const auto& [reason, names] : trained) print_names(reason, names);
  if (untrained.empty()) return;
  fmt::print(stderr, "does not train {} constants (model.trained and model.frozen turn either)\n",
             weights.untrained.size());
  for (const auto& [reason, names] : untrained) print_names(reason, names);
}

nlohmann::json as_json(const TrainedWeights& weights) {
  nlohmann::json json = {{"trained", nlohmann::json::array()}, {"untrained", nlohmann::json::array()}};
  for (std::size_t i = 0; i < weights.names.size(); ++i)
    json["trained"].push_back({{"name", weights.names[i]}, {"reason", weights.reasons[i]}});
  for (const auto& [name, reason] : weights.untrained)
    json["untrained"].push_back({{"name", name}, {"reason", reason}});
  return json;
}

// The folder in which --resume continues: the one that it names, or, without a CONFIG, that of the checkpoint that it
// names. Returns "" if the configuration names the folder.
std::string resumed_folder(const TrainOptions& options) {
  const std::filesystem::path given(options.resume);
  if (options.config.empty() && std::filesystem::is_regular_file(given))
    return given.has_parent_path() ? given.parent_path().string() : ".";
  return options.config.empty() || std::filesystem::is_directory(given) ? options.resume : "";
}

// Does the work; other ranks learn of a failure.
template <typename Work>
void told_to(const RankConnection& ranks, const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    if (ranks.communicator != nullptr) ranks.communicator->stop(error.what());
    throw;
  }
}

// Trains as a rank that writes and shows nothing.
void train_along(const TrainingConfig& config, const RankConnection& ranks, const TrainOptions& options) {
  told_to(ranks, [&] {
    Trainer trainer(config);
    if (!options.resume.empty()) trainer.resume(options.resume);
    trainer.run();
  });
}

void run_train(const TrainOptions& options) {
  if (launches(options)) {
    if (const int code = dist::launch_ranks(options.ranks, own_arguments()); code != 0) throw CLI::RuntimeError(code);
    return;
  }
  require(!options.config.empty() || !options.resume.empty(), ErrorKind::invalid_argument,
          "name a configuration file, or with --resume a folder that a training wrote");
  const std::string folder = resumed_folder(options);
  const std::string path =
      options.config.empty() ? (std::filesystem::path(folder) / "config.toml").string() : options.config;
  require(!options.config.empty() || folder == options.resume || std::filesystem::exists(path), ErrorKind::not_found,
          "there is no '{}' beside the checkpoint '{}': name a CONFIG.toml too", path, options.resume);
  std::vector<std::string> settings = options.settings;
  // A resumed training writes to the folder that it resumes from, unless another one is requested.
  const bool asks_for_output =
      std::ranges::any_of(settings, [](const std::string& setting) { return setting.starts_with("output="); });
  const bool writes_there = !folder.empty() && !asks_for_output;
  if (writes_there)
    settings.push_back("output=" +
                       nlohmann::json(folder).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  TrainingConfig config = read_config(path, settings);
  if (writes_there) config.output = folder;
  config.overwrite = options.overwrite;
  require(!config.output.empty(), ErrorKind::invalid_argument,
          "{}: 'output' is missing: the folder for the log, checkpoints and the trained model", path);
  RankConnection ranks;
  join(ranks, config.rank_timeout_s, options.ranks);
  if (ranks.number) config.communicator = ranks.number->value();
  if (!ranks.leads()) {
    train_along(config, ranks, options);
    return;
  }
  std::optional<Trainer> made;
  told_to(ranks, [&] {
    made.emplace(config);
    if (!options.resume.empty()) made->resume(options.resume);
  });
  Trainer& trainer = *made;
  const TrainedWeights weights = trainer.weights();
  if (!options.json) {
    print_data(trainer.data(), config.data);
    print_weights(weights);
  }
  report::TrainingRecord record;
  record.title = std::filesystem::path(path).filename().string();
  record.net = report::name_of_net(config.model, record.title);
  record.config = trainer.config();
  const std::filesystem::path output(config.output);
  if (!options.resume.empty()) {
    train::LoggedReports logged = train::read_log(output / "log.jsonl", trainer.step());
    record.steps = std::move(logged.steps);
    record.evaluations = std::move(logged.evaluations);
  }
  report::TrainingPageFile page((output / "report.html").string(), std::move(record));
  TrainingProgress progress(options.json);
  const GracefulStop stop;
  TrainingHooks hooks;
  hooks.cancellation = &stop.cancellation();
  hooks.timings = &page.record().timings;
  hooks.progress = [&](std::int64_t step, std::int64_t steps) { progress.show(step, steps); };
  hooks.step = [&](const StepReport& line) {
    page.add(line);
    progress.add(line);
  };
  hooks.evaluation = [&](const EvaluationReport& line) {
    page.add(line);
    progress.add(line);
  };
  const TrainingResult result = trainer.run(hooks);
  progress.end();
  page.finish(result);
  if (options.json) {
    nlohmann::ordered_json json = as_json(result, config, trainer.data());
    json["weights"] = as_json(weights);
    fmt::print("{}\n", report::json_text(json, 2));
  } else {
    print_result(result, config);
  }
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* verb = app.add_subcommand("train", "Train a net as a configuration file says");
  verb->add_option("config", options->config, "TOML file: model, data, loss, optimiser, train; see docs/training.md")
      ->type_name("CONFIG.toml");
  verb->add_option("--resume", options->resume,
                   "Go on from the newest whole checkpoint in this folder, or from this file; without a CONFIG, as the "
                   "config.toml in the folder, or beside the file, says");
  verb->add_option("--set", options->settings, "Write a value over that of the file, such as train.seed=3; repeatable")
      ->type_name("KEY=VALUE");
  verb->add_option("--ranks", options->ranks,
                   "Train with so many processes on this machine, which share the train.accumulate batches of each "
                   "step; the result has the same bits as with one. See docs/scaling.md")
      ->type_name("N")
      ->check(CLI::Range(1, dist::kMostRanks));
  verb->add_flag("--overwrite", options->overwrite,
                 "Start anew in a folder that holds another training: what that one wrote is removed");
  verb->add_flag("--json", options->json, "Print the result as JSON");
  verb->footer(
      "Ctrl-C saves a checkpoint and ends; --resume goes on as if nothing had happened.\n"
      "The folder `output` gets log.jsonl (a line of JSON for each entry), checkpoints, model.onnx, best.onnx and\n"
      "report.html.\n\nExamples:\n"
      "  tessera train examples/digits.toml\n"
      "  tessera train examples/digits.toml --set train.seed=1 --set output=runs/digits-1\n"
      "  tessera train --resume runs/digits-1\n"
      "  tessera train examples/digits.toml --set train.accumulate=4 --set data.batch=16 --ranks 4");
  verb->callback([options] { run_train(*options); });
}

}  // namespace tessera::apps
