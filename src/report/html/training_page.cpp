#include "report/html/training_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "base/cpu_info.h"
#include "base/numbers/units.h"
#include "base/text.h"
#include "cost/machine.h"
#include "report/html/class_report.h"
#include "report/html/curve_plot.h"
#include "report/html/html.h"
#include "report/html/html_table.h"
#include "report/html/svg.h"

namespace tessera::report {
namespace {

constexpr int kReloadSeconds = 5;

template <typename Report>
Curve curve_of(const std::string& name, const std::vector<Report>& reports,
               const std::function<std::optional<double>(const Report&)>& value, const std::string& quantity) {
  Curve curve{name, {}};
  for (const Report& report : reports) {
    if (const std::optional<double> y = value(report))
      curve.points.push_back(
          {static_cast<double>(report.step), *y, fmt::format("step {}: {} {:.4g}", report.step, quantity, *y)});
  }
  return curve;
}

// The names of the data that were evaluated, in the order in which they are shown.
std::vector<std::string> data_of(const TrainingRecord& record) {
  std::vector<std::string> data;
  for (const char* name : {"validation", "test", "train"}) {
    const auto is_of = [&](const EvaluationReport& report) { return report.data == name && !report.of_best; };
    if (std::ranges::any_of(record.evaluations, is_of)) data.emplace_back(name);
  }
  return data;
}

std::string name_of_data(const std::string& data) {
  return data == "train" ? "training data, without augmentation" : data + " data";
}

std::string loss_section(const TrainingRecord& record) {
  std::vector<Curve> curves{curve_of<StepReport>(
      "training", record.steps, [](const StepReport& line) { return line.loss; }, "training loss")};
  for (const std::string& data : data_of(record))
    curves.push_back(curve_of<EvaluationReport>(
        name_of_data(data), record.evaluations,
        [&](const EvaluationReport& line) {
          return line.data == data && !line.of_best ? std::optional(line.loss) : std::nullopt;
        },
        data + " loss"));
  return curve_section(
      "Loss",
      "Of the training the mean over the steps of each line of the log, with the weights on their way; "
      "of other data with the weights as they were at that step.",
      std::move(curves), "loss", true);
}

std::string metric_sections(const TrainingRecord& record) {
  std::vector<std::string> metrics;
  for (const EvaluationReport& line : record.evaluations) {
    for (const auto& [name, value] : line.metrics) {
      if (name != "loss" && std::ranges::find(metrics, name) == metrics.end()) metrics.push_back(name);
    }
  }
  std::string sections;
  for (const std::string& metric : metrics) {
    std::vector<Curve> curves;
    for (const std::string& data : data_of(record))
      curves.push_back(curve_of<EvaluationReport>(
          name_of_data(data), record.evaluations,
          [&](const EvaluationReport& line) -> std::optional<double> {
            const auto found = std::ranges::find(line.metrics, metric, &std::pair<std::string, double>::first);
            if (line.data != data || line.of_best || found == line.metrics.end()) return std::nullopt;
            return found->second;
          },
          data + " " + metric));
    const std::string title =
        curves.size() == 1 ? curves[0].name.substr(0, curves[0].name.find(' ')) + " " + metric : metric;
    sections += curve_section(title, "Of the weights as they were at each step.", std::move(curves), metric);
  }
  return sections;
}

struct OperatorTime {
  double seconds = 0, operations = 0, bytes = 0;
  double memory_seconds = 0;  // of operators that are memory-bound
  std::int64_t count = 0;
};

std::map<std::string, OperatorTime> operator_times(const std::vector<StepTiming>& timings) {
  const cost::Machine machine(base::cpu_info());
  std::map<std::string, OperatorTime> times;
  for (const StepTiming& timing : timings) {
    if (timing.depth > 0) continue;
    OperatorTime& time = times[timing.op];
    const double seconds = static_cast<double>(timing.duration_ns) * 1e-9;
    time.seconds += seconds;
    time.operations += timing.operations;
    time.bytes += timing.bytes;
    if (timing.operations < timing.bytes * machine.ridge(static_cast<std::int64_t>(timing.bytes)))
      time.memory_seconds += seconds;
    ++time.count;
  }
  return times;
}

std::string breakdown_section(const TrainingRecord& record) {
  const std::map<std::string, OperatorTime> times = operator_times(record.timings);
  double all = 0, memory = 0;
  for (const auto& [op, time] : times) all += time.seconds, memory += time.memory_seconds;
  if (all <= 0) return "";
  HtmlTable table{"Operators of one step",
                  {{"operator", ColumnKind::name},
                   {"count", ColumnKind::number},
                   {"time", ColumnKind::number},
                   {"share", ColumnKind::number},
                   {"operations/s", ColumnKind::number},
                   {"bytes/s", ColumnKind::number},
                   {"bound by", ColumnKind::text}},
                  {},
                  {},
                  true,
                  2};
  std::vector<std::pair<std::string, OperatorTime>> order(times.begin(), times.end());
  std::ranges::sort(order, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  for (const auto& [op, time] : order) {
    if (time.seconds <= 0) continue;
    table.rows.push_back(
        {name_cell(op), number_cell(std::to_string(time.count), static_cast<double>(time.count)),
         number_cell(base::format_duration_ns(static_cast<std::int64_t>(time.seconds * 1e9)), time.seconds),
         number_cell(fmt::format("{:.1f}%", 100 * time.seconds / all), time.seconds / all),
         number_cell(base::format_count(time.operations / time.seconds), time.operations / time.seconds),
         number_cell(base::format_count(time.bytes / time.seconds), time.bytes / time.seconds),
         text_cell(time.memory_seconds > time.seconds / 2 ? "memory" : "arithmetic")});
  }
  const std::string verdict = fmt::format(
      "One step took {} in its operators. By the roofline model, {:.0f}% of that time belongs to operators "
      "that are bound by memory, the rest to operators bound by arithmetic.",
      base::format_duration_ns(static_cast<std::int64_t>(all * 1e9)), 100 * memory / all);
  return html_section("What a step spends its time on", verdict, html_table(table), true);
}

std::string facts(const TrainingRecord& record) {
  const TrainingResult& result = record.result;
  std::vector<HtmlFact> list;
  const auto add = [&](const EvaluationReport& report, const std::string& remark) {
    for (const auto& [name, value] : report.metrics)
      list.push_back({report.data + " " + name, fmt::format("{:.4f}", value), remark});
    if (report.metric != "loss") list.push_back({report.data + " loss", fmt::format("{:.4f}", report.loss), ""});
  };
  for (const auto* report : {&result.test, &result.evaluation}) {
    if (*report) add(**report, fmt::format("of {} samples", (*report)->samples));
  }
  if (result.best)
    list.push_back({"best " + result.best->metric, fmt::format("{:.4f}", result.best->value),
                    fmt::format("of the {} data, at step {}", result.best->data, result.best->step)});
  if (result.best_test)
    list.push_back({"test " + result.best_test->metric + " of the best", fmt::format("{:.4f}", result.best_test->value),
                    fmt::format("of {} samples", result.best_test->samples)});
  list.push_back({"training loss", fmt::format("{:.4g}", result.loss), "mean of the last line of the log"});
  list.push_back({"steps", std::to_string(result.steps), fmt::format("{} samples", result.samples)});
  list.push_back(
      {"time", base::format_duration_ns(static_cast<std::int64_t>(result.seconds * 1e9)),
       fmt::format("{:.0f} samples/s", static_cast<double>(result.samples) / std::max(result.seconds, 1e-9))});
  list.push_back(
      {"optimiser", record.config.optimiser.name,
       fmt::format("learning rate {:g}, {}", record.config.optimiser.learning_rate, record.config.precision)});
  list.push_back({"memory", base::format_bytes(result.peak_rss_bytes), "at most"});
  if (!record.steps.empty()) {
    double waited = 0;
    for (const StepReport& line : record.steps) waited += line.data_wait_share;
    list.push_back({"waiting for data", fmt::format("{:.1f}%", 100 * waited / static_cast<double>(record.steps.size())),
                    "of the time"});
  }
  if (result.skipped_steps > 0)
    list.push_back({"skipped steps", std::to_string(result.skipped_steps), "a gradient was not finite"});
  if (result.skipped_samples > 0)
    list.push_back({"skipped samples", std::to_string(result.skipped_samples), "could not be read"});
  return html_facts(list);
}

// The net, the data, and the settings from the configuration.
std::string settings_section(const TrainingRecord& record) {
  if (record.config.toml.empty()) return "";
  return html_section("Settings", "The configuration, with what the command line wrote over it.",
                      "<details><summary>" + html_text(record.title) + "</summary>\n<pre class=\"settings\">" +
                          html_text(record.config.toml) + "</pre></details>\n",
                      true);
}

std::string heading(const TrainingRecord& record) {
  const TrainingConfig& config = record.config;
  std::string text = fmt::format("<h1>{}</h1>\n", html_text("Training of " + record.net));
  std::string about = "Configuration " + record.title;
  if (!config.data.train.empty()) about += ", data " + config.data.train;
  if (record.is_running && !record.steps.empty())
    about += fmt::format(". Step {} of {}; this page grows while the training goes on.", record.steps.back().step,
                         record.steps.back().steps);
  return text + "<p class=\"soft\">" + html_text(about) + "</p>\n";
}

}  // namespace

std::string name_of_net(const NetOptions& options, const std::string& otherwise) {
  if (!options.builder.empty()) return options.builder;
  return options.file.empty() ? otherwise : std::filesystem::path(options.file).stem().string();
}

std::string training_page(const TrainingRecord& record) {
  std::string body = heading(record) + facts(record) + loss_section(record) + metric_sections(record);
  if (const auto& last = record.result.test ? record.result.test : record.result.evaluation)
    body += class_report_section(*last);
  body +=
      curve_section("Learning rate", "As the schedule has it.",
                    {curve_of<StepReport>(
                        "", record.steps, [](const StepReport& line) { return line.learning_rate; }, "learning rate")},
                    "learning rate");
  body += curve_section("Throughput", "Samples per second, evaluations that went on beside included.",
                        {curve_of<StepReport>(
                            "", record.steps, [](const StepReport& line) { return line.samples_per_s; }, "samples/s")},
                        "samples/s");
  body += breakdown_section(record);
  body += settings_section(record);
  if (!record.result.skipped_reasons.empty()) {
    std::string list;
    for (const std::string& reason : record.result.skipped_reasons) list += "<li>" + html_text(reason) + "</li>\n";
    body += html_section("Samples that were left out", "The first of those that could not be read.",
                         "<ul>\n" + list + "</ul>\n");
  }
  return html_page("Training of " + record.net, body, record.is_running ? kReloadSeconds : 0);
}

}  // namespace tessera::report
