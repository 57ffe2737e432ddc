#include "report/training_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/cpu_info.h"
#include "base/text.h"
#include "base/units.h"
#include "cost/machine.h"
#include "report/html.h"
#include "report/html_table.h"
#include "report/plot_axes.h"
#include "report/svg.h"

namespace tessera::report {
namespace {

struct Point {
  double x, y;
  std::string label;
};

// At most `most` of many points, evenly, the last one included.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> few;
  for (std::size_t i = 0; i < most; ++i) few.push_back(points[i * (points.size() - 1) / (most - 1)]);
  return few;
}

std::string curve(const std::vector<Point>& points, const Frame& frame, const std::string& y_name, bool logarithmic) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const Point& point : points) low = std::min(low, point.y), high = std::max(high, point.y);
  if (!logarithmic) {
    const double room = std::max((high - low) * 0.05, std::abs(high) * 1e-6 + 1e-12);
    low -= room, high += room;
  } else if (low == high) {
    low /= 2, high *= 2;
  }
  const double last = std::max(points.back().x, points.front().x + 1);
  const Scale x(points.front().x, last, frame.left, frame.width - frame.right, false);
  const Scale y(low, high, frame.height - frame.bottom, frame.top, logarithmic);
  Drawing drawing(frame.width, frame.height, std::string("plot ") + std::string(frame.css_class), y_name);
  axes(drawing, frame, x, y, "step", y_name);
  std::string path;
  for (const Point& point : points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(point.x), y(point.y));
  drawing.path(path, "curve");
  for (const Point& point : thinned(points, 60))
    drawing.mark(circle_path(x(point.x), y(point.y), 3), "mark memory", point.label);
  return drawing.finish();
}

std::string plot_section(const char* title, const char* explanation, std::vector<Point> points,
                         const std::string& y_name, bool logarithmic = false) {
  std::erase_if(points, [&](const Point& point) { return !std::isfinite(point.y) || (logarithmic && point.y <= 0); });
  if (points.size() < 2) return "";
  const auto [low, high] = std::ranges::minmax(points, {}, &Point::y);
  if (low.y == high.y) return "";  // a level line tells nothing that the facts do not
  points = thinned(points, 600);
  Frame wide = kWide, narrow = kNarrow;
  wide.height = 300, narrow.height = 280;
  return html_section(title, explanation,
                      "<div>" + curve(points, wide, y_name, logarithmic) + curve(points, narrow, y_name, logarithmic) +
                          std::string(kReadout));
}

template <typename Report>
std::vector<Point> points_of(const std::vector<Report>& reports, const std::function<double(const Report&)>& value,
                             const char* name) {
  std::vector<Point> points;
  for (const Report& report : reports)
    points.push_back({static_cast<double>(report.step), value(report),
                      fmt::format("step {}: {} {:.4g}", report.step, name, value(report))});
  return points;
}

struct OperatorTime {
  double seconds = 0, operations = 0, bytes = 0;
  double memory_seconds = 0;  // of operators that are bound by memory
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
  if (result.evaluation) {
    list.push_back({"test " + result.evaluation->metric, fmt::format("{:.4f}", result.evaluation->value),
                    fmt::format("of {} samples", result.evaluation->samples)});
    list.push_back({"test loss", fmt::format("{:.4f}", result.evaluation->loss), ""});
  }
  if (result.best)
    list.push_back({"best " + result.best->metric, fmt::format("{:.4f}", result.best->value),
                    fmt::format("at step {}", result.best->step)});
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

}  // namespace

std::string training_page(const TrainingRecord& record) {
  std::string body = fmt::format("<h1>{}</h1>\n", html_text("Training of " + record.title)) + facts(record);
  body += plot_section(
      "Loss", "The mean over the steps of each line of the log.",
      points_of<StepReport>(record.steps, [](const StepReport& line) { return line.loss; }, "loss"), "", true);
  if (!record.evaluations.empty()) {
    const std::string& metric = record.evaluations[0].metric;
    body +=
        plot_section("Test", "Of the weights as they were at each step.",
                     points_of<EvaluationReport>(
                         record.evaluations, [](const EvaluationReport& line) { return line.value; }, metric.c_str()),
                     metric);
  }
  body += plot_section("Learning rate", "As the schedule has it.",
                       points_of<StepReport>(
                           record.steps, [](const StepReport& line) { return line.learning_rate; }, "learning rate"),
                       "learning rate");
  body += plot_section("Throughput", "Samples per second, evaluations that went on beside included.",
                       points_of<StepReport>(
                           record.steps, [](const StepReport& line) { return line.samples_per_s; }, "samples/s"),
                       "samples/s");
  body += breakdown_section(record);
  if (!record.result.skipped_reasons.empty()) {
    std::string list;
    for (const std::string& reason : record.result.skipped_reasons) list += "<li>" + html_text(reason) + "</li>\n";
    body += html_section("Samples that were left out", "The first of those that could not be read.",
                         "<ul>\n" + list + "</ul>\n");
  }
  return html_page("Training of " + record.title, body);
}

}  // namespace tessera::report
