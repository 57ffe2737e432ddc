#include "train/run/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "io/output_file.h"
#include "train/evaluation/evaluation_json.h"

namespace tessera::train {
namespace {

using nlohmann::ordered_json;

ordered_json finite(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

int open_log(const std::filesystem::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644);
  require(descriptor >= 0, ErrorKind::io, "cannot write '{}': {}", path.string(), std::strerror(errno));
  return descriptor;
}

// The complete lines up to the step: a process that was killed may have left a part of a line.
std::string lines_up_to(const std::filesystem::path& path, std::int64_t step) {
  std::string kept;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto entry = ordered_json::parse(line, nullptr, false);
    const bool counts = entry.is_object() && entry.contains("step") && entry["step"].is_number_integer();
    // Skips the last lines of a training that had ended.
    if (!counts || entry.contains("precision") || entry.contains("weights")) continue;
    // The evaluation at the checkpoint's own step is repeated, so its line is dropped.
    const std::int64_t last = entry.contains("learning_rate") ? step : step - 1;
    if (entry["step"].get<std::int64_t>() <= last) kept += line + "\n";
  }
  return kept;
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& path) : descriptor_(open_log(path, O_TRUNC)), path_(path.string()) {}

RunLog::RunLog(const std::filesystem::path& path, std::int64_t step) : path_(path.string()) {
  io::write_text(path, lines_up_to(path, step));
  descriptor_ = open_log(path, 0);
}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RunLog::RunLog(RunLog&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

RunLog& RunLog::operator=(RunLog&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

void RunLog::write(const std::string& line) {
  if (descriptor_ < 0) return;
  const std::string text = line + "\n";
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(descriptor_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, ErrorKind::io, "cannot write '{}': {}", path_, std::strerror(errno));
    done += static_cast<std::size_t>(written);
  }
}

void RunLog::add(const DataSummary& data) {
  if (data.columns.empty()) return;
  ordered_json columns = ordered_json::array();
  for (const EncodedColumn& column : data.columns)
    columns.push_back({{"name", column.name},
                       {"encoding", column.encoding},
                       {"numbers", column.numbers},
                       {"missing", column.missing},
                       {"description", column.description}});
  ordered_json line{
      {"step", 0},          {"samples", data.samples}, {"unreadable", data.unreadable}, {"left_over", data.left_over},
      {"columns", columns}, {"target", data.target}};
  if (!data.classes.empty()) line["classes"] = data.classes;
  write(line.dump());
}

void RunLog::add(const StepReport& report) {
  write(ordered_json{{"step", report.step},
                     {"epoch", report.epoch},
                     {"loss", finite(report.loss)},
                     {"learning_rate", report.learning_rate},
                     {"gradient_norm", finite(report.gradient_norm)},
                     {"samples_per_s", finite(report.samples_per_s)},
                     {"data_wait_share", finite(report.data_wait_share)},
                     {"seconds", report.seconds}}
            .dump());
}

void RunLog::add(const EvaluationReport& report) {
  ordered_json line{{"step", report.step}};
  add_evaluation(line, report);
  if (report.data != "train") line["best"] = report.best;
  if (report.of_best) line["weights"] = "best";
  constexpr std::size_t kMostClasses = 100;
  add_classes(line, report, kMostClasses);
  write(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace));  // names of classes may contain any bytes
}

void RunLog::add(const TrainingResult& result, const std::string& precision) {
  ordered_json line{{"step", result.steps}, {"loss", finite(result.loss)}};
  if (result.evaluation) add_evaluation(line, *result.evaluation);
  if (result.test) add_evaluation(line, *result.test);
  if (result.best)
    line["best_step"] = result.best->step, line["best_" + result.best->metric] = finite(result.best->value);
  if (result.best_test) line["best_test_" + result.best_test->metric] = finite(result.best_test->value);
  line["seconds"] = result.seconds;
  line["precision"] = precision;
  line["peak_rss_bytes"] = result.peak_rss_bytes;
  line["samples"] = result.samples;
  line["skipped_steps"] = result.skipped_steps;
  line["skipped_samples"] = result.skipped_samples;
  line["stopped_early"] = result.stopped_early;
  write(line.dump());
}

LoggedReports read_log(const std::filesystem::path& path, std::int64_t step) {
  LoggedReports logged;
  std::istringstream lines(std::filesystem::exists(path) ? lines_up_to(path, step) : "");
  for (std::string line; std::getline(lines, line);) {
    const auto entry = ordered_json::parse(line, nullptr, false);
    const auto number = [&](const char* key) {
      return entry.contains(key) && entry[key].is_number() ? entry[key].get<double>() : NAN;
    };
    const auto at = entry["step"].get<std::int64_t>();
    if (entry.contains("learning_rate")) {
      StepReport report;
      report.step = at;
      report.loss = number("loss");
      report.learning_rate = number("learning_rate");
      report.gradient_norm = number("gradient_norm");
      report.samples_per_s = number("samples_per_s");
      report.data_wait_share = number("data_wait_share");
      logged.steps.push_back(report);
      continue;
    }
    EvaluationReport report;
    report.step = at;
    for (const auto& [key, value] : entry.items()) {
      const std::size_t end = key.find('_');
      const std::string data = key.substr(0, end);
      if (!value.is_number() || (data != "test" && data != "validation" && data != "train")) continue;
      report.data = data;
      const std::string metric = key.substr(end + 1);
      if (metric == "loss") report.loss = value.get<double>();
      report.metrics.emplace_back(metric, value.get<double>());
    }
    if (report.metrics.empty()) continue;
    report.metric = report.metrics[0].first;
    report.value = report.metrics[0].second;
    logged.evaluations.push_back(std::move(report));
  }
  return logged;
}

}  // namespace tessera::train
