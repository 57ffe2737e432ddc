// The page of a quantisation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "compress/quantisation_report.h"
#include "report/html.h"
#include "report/html_table.h"
#include "report/plot_axes.h"
#include "report/svg.h"

namespace tessera::compress {
namespace {

using namespace report;

constexpr double kMostDb = 80;  // beyond it nothing is lost that anybody sees

std::string decibel(const std::optional<double>& value) {
  if (!value) return "";
  if (std::isinf(*value)) return *value > 0 ? "exact" : "not finite";
  return fmt::format("{:.1f} dB", *value);
}

double bounded(const std::optional<double>& value) {
  return std::clamp(value.value_or(0), 0.0, kMostDb);
}

std::string ratio(double before, double after) {
  return after > 0 ? fmt::format("{:.2f} times", before / after) : "";
}

std::string duration(double ms) {
  constexpr double kNs = 1e6;
  return base::format_duration_ns(static_cast<std::int64_t>(ms * kNs));
}

std::string facts(const QuantiseReport& report) {
  std::vector<HtmlFact> facts{
      {"weights", base::format_bytes(report.bytes_after),
       fmt::format("{} smaller than {}",
                   ratio(static_cast<double>(report.bytes_before), static_cast<double>(report.bytes_after)),
                   base::format_bytes(report.bytes_before))}};
  if (report.file_bytes > 0) facts.push_back({"file", base::format_bytes(report.file_bytes), "as written"});
  if (report.snr_db) facts.push_back({"outputs", decibel(report.snr_db), "signal-to-noise ratio to the float model"});
  if (report.metric_before && report.metric_after)
    facts.push_back({report.metric, fmt::format("{:.4f}", *report.metric_after),
                     fmt::format("float: {:.4f}", *report.metric_before)});
  if (report.measured_ms_before && report.measured_ms_after)
    facts.push_back({"measured", duration(*report.measured_ms_after),
                     fmt::format("the float model took {}, {} as long", duration(*report.measured_ms_before),
                                 ratio(*report.measured_ms_before, *report.measured_ms_after))});
  if (report.predicted_ms_before && report.predicted_ms_after)
    facts.push_back({"predicted", duration(*report.predicted_ms_after),
                     fmt::format("the float model: {}", duration(*report.predicted_ms_before))});
  return html_facts(facts);
}

// Layers by rank, the worst first; each mark says its name.
std::string snr_plot(const QuantiseReport& report, const Frame& frame) {
  std::vector<const QuantisedLayer*> ranked;
  for (const QuantisedLayer& layer : report.layers) {
    if (layer.snr_db) ranked.push_back(&layer);
  }
  Drawing drawing(frame.width, frame.height, std::string("plot ") + std::string(frame.css_class),
                  "signal-to-noise ratio by rank of the layer");
  double highest = 1;
  for (const QuantisedLayer* layer : ranked) highest = std::max(highest, bounded(layer->snr_db));
  const Scale x(0, static_cast<double>(ranked.size()) + 1, frame.left, frame.width - frame.right, false),
      y(0, highest * 1.05, frame.height - frame.bottom, frame.top, false);
  axes(drawing, frame, x, y, "rank of the layer, the worst first", "dB at the outputs");
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const QuantisedLayer& layer = *ranked[i];
    const double px = x(static_cast<double>(i) + 1), py = y(bounded(layer.snr_db));
    const std::string label = fmt::format("{}: {}{}", layer.name, decibel(layer.snr_db),
                                          layer.quantised ? "" : ", in float: " + layer.reason);
    constexpr double kRadius = 4;
    drawing.mark(layer.quantised ? circle_path(px, py, kRadius) : diamond_path(px, py, kRadius + 1),
                 layer.quantised ? "mark memory" : "mark overhead", label);
  }
  return drawing.finish();
}

std::string snr_section(const QuantiseReport& report) {
  const bool ranked = std::ranges::any_of(report.layers, [](const auto& layer) { return layer.snr_db.has_value(); });
  if (!ranked) return "";
  return html_section("What each layer costs",
                      "The signal-to-noise ratio at the outputs when this layer alone is quantised; lower is worse. "
                      "Diamonds stay in float.",
                      "<div>" + snr_plot(report, kWide) + snr_plot(report, kNarrow) + std::string(kReadout));
}

std::string layers_section(const QuantiseReport& report) {
  HtmlTable table{"Layers",
                  {{"layer", ColumnKind::name},
                   {"operator", ColumnKind::text},
                   {"SNR alone", ColumnKind::number},
                   {"weights", ColumnKind::number},
                   {"bytes before", ColumnKind::number},
                   {"bytes after", ColumnKind::number},
                   {"range of data", ColumnKind::text},
                   {"rounding gains", ColumnKind::number},
                   {"form", ColumnKind::text},
                   {"why", ColumnKind::sentence}},
                  {}};
  for (const QuantisedLayer& layer : report.layers) {
    const bool has_range = layer.input_low != layer.input_high;
    table.rows.push_back(
        {name_cell(layer.name), text_cell(layer.op),
         number_cell(decibel(layer.snr_db), layer.snr_db ? bounded(layer.snr_db) : std::nan("")),
         number_cell(std::to_string(layer.weights), static_cast<double>(layer.weights)),
         number_cell(base::format_bytes(layer.bytes_before), static_cast<double>(layer.bytes_before)),
         number_cell(base::format_bytes(layer.bytes_after), static_cast<double>(layer.bytes_after)),
         text_cell(has_range ? fmt::format("{:.3g} to {:.3g}", layer.input_low, layer.input_high) : ""),
         number_cell(decibel(layer.rounding_gain_db), layer.rounding_gain_db.value_or(std::nan(""))),
         text_cell(layer.quantised ? "quantised" : "float"), text_cell(layer.reason)});
  }
  return html_section("Layers", report.scheme, html_table(table), true);
}

std::string size_section(const QuantiseReport& report) {
  std::int64_t quantised = 0, real = 0;
  for (const QuantisedLayer& layer : report.layers) (layer.quantised ? quantised : real) += layer.bytes_after;
  const std::int64_t rest = std::max<std::int64_t>(0, report.bytes_after - quantised - real);
  const auto share = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(1, report.bytes_before));
  };
  std::string rows = html_bar_row("before", html_bar("overhead", 1), base::format_bytes(report.bytes_before));
  rows += html_bar_row("quantised layers", html_bar("memory", share(quantised)), base::format_bytes(quantised));
  rows += html_bar_row("layers in float", html_bar("arithmetic", share(real)), base::format_bytes(real));
  rows += html_bar_row("everything else", html_bar("overhead", share(rest)), base::format_bytes(rest));
  return html_section("Where the bytes are", "Constants of the model before, and after by their kind.",
                      "<div class=\"bars\">" + rows + "</div>");
}

std::string search_section(const QuantiseReport& report) {
  if (report.steps.empty()) return "";
  HtmlTable table{
      "Search",
      {{"layers in float", ColumnKind::number}, {report.metric, ColumnKind::number}, {"drop", ColumnKind::number}},
      {}};
  for (const ExclusionStep& step : report.steps) {
    const double drop = report.metric_before.value_or(0) - step.metric;
    table.rows.push_back({number_cell(std::to_string(step.excluded), static_cast<double>(step.excluded)),
                          number_cell(fmt::format("{:.4f}", step.metric), step.metric),
                          number_cell(fmt::format("{:.4f}", drop), drop)});
  }
  return html_section(
      "What had to stay in float",
      fmt::format("The worst layers stay in float, by doubling and bisection, until {} drops by at most "
                  "{}.",
                  report.metric, report.max_drop.value_or(0)),
      html_table(table));
}

std::string estimators_section(const QuantiseReport& report) {
  if (report.estimator_snr_db.size() < 2) return "";
  HtmlTable table{"Estimators", {{"estimator", ColumnKind::name}, {"SNR of the outputs", ColumnKind::number}}, {}};
  for (const auto& [name, snr] : report.estimator_snr_db)
    table.rows.push_back({name_cell(name), number_cell(decibel(snr), bounded(snr))});
  return html_section("Ranges of activations", fmt::format("Taken: {}.", report.estimator), html_table(table));
}

}  // namespace

std::string quantisation_html(const QuantiseReport& report, const QuantisationFiles& files) {
  const std::string title = "Quantisation of " + files.before;
  const std::string body = fmt::format("<h1>{}</h1>\n", html_text(title)) + facts(report) + snr_section(report) +
                           search_section(report) + size_section(report) + estimators_section(report) +
                           layers_section(report);
  return html_page(title, body);
}

}  // namespace tessera::compress
