// Writes the page of a quantisation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/numbers/units.h"
#include "compress/core/compression_costs.h"
#include "compress/core/compression_page.h"
#include "compress/core/output_metric.h"
#include "compress/quantise/quantisation_report.h"
#include "report/html/html.h"
#include "report/html/html_table.h"
#include "report/html/plot_axes.h"
#include "report/html/svg.h"

namespace tessera::compress {
namespace {

using namespace report;

// A plot of the layers by rank, the worst first; each mark shows the layer's name.
std::string snr_plot(const QuantiseReport& report, const Frame& frame) {
  std::vector<const QuantisedLayer*> ranked;
  for (const QuantisedLayer& layer : report.layers) {
    if (layer.snr_db) ranked.push_back(&layer);
  }
  Drawing drawing(frame.width, frame.height, std::string("plot ") + std::string(frame.css_class),
                  "signal-to-noise ratio by rank of the layer");
  double highest = 1;
  for (const QuantisedLayer* layer : ranked) highest = std::max(highest, bounded_decibel(layer->snr_db));
  const Scale x(0, static_cast<double>(ranked.size()) + 1, frame.left, frame.width - frame.right, false),
      y(0, highest * 1.05, frame.height - frame.bottom, frame.top, false);
  axes(drawing, frame, x, y, "rank of the layer, the worst first", "dB at the outputs");
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const QuantisedLayer& layer = *ranked[i];
    const double px = x(static_cast<double>(i) + 1), py = y(bounded_decibel(layer.snr_db));
    const std::string label = fmt::format("{}: {}{}", layer.name, decibel_text(layer.snr_db),
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
                      fmt::format("The signal-to-noise ratio at the outputs over {} samples when this layer alone is "
                                  "quantised; lower is worse. Diamonds stay in float.",
                                  report.diagnosis_samples),
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
         number_cell(decibel_text(layer.snr_db), layer.snr_db ? bounded_decibel(layer.snr_db) : std::nan("")),
         number_cell(std::to_string(layer.weights), static_cast<double>(layer.weights)),
         number_cell(base::format_bytes(layer.bytes_before), static_cast<double>(layer.bytes_before)),
         number_cell(base::format_bytes(layer.bytes_after), static_cast<double>(layer.bytes_after)),
         text_cell(has_range ? fmt::format("{:.3g} to {:.3g}", layer.input_low, layer.input_high) : ""),
         number_cell(decibel_text(layer.rounding_gain_db), layer.rounding_gain_db.value_or(std::nan(""))),
         text_cell(layer.quantised ? "quantised" : "float"), text_cell(layer.reason)});
  }
  return html_section("Layers", report.scheme, html_table(table), true);
}

std::string bytes_section(const QuantiseReport& report) {
  std::int64_t quantised = 0, real = 0;
  for (const QuantisedLayer& layer : report.layers) (layer.quantised ? quantised : real) += layer.bytes_after;
  const std::int64_t rest = std::max<std::int64_t>(0, report.bytes_after - quantised - real);
  return size_section({"before", "overhead", report.bytes_before},
                      {{"quantised layers", "memory", quantised},
                       {"layers in float", "arithmetic", real},
                       {"everything else", "overhead", rest}},
                      "Constants of the model before, and after by their kind.");
}

std::string bits_section(const QuantiseReport& report) {
  std::vector<LayerMark> marks;
  for (const QuantisedLayer& layer : report.layers) {
    constexpr double kBits = 8;
    marks.push_back({layer.name, kBits * static_cast<double>(layer.bytes_after) / static_cast<double>(layer.weights),
                     layer.snr_db, !layer.quantised, layer.reason});
  }
  return error_by_bits_section(
      marks,
      "Bits per weight with all scales, and the signal-to-noise ratio at the outputs when this "
      "layer alone is quantised. Diamonds stay in float.");
}

std::string excluded_section(const QuantiseReport& report) {
  HtmlTable table{"Layers in float", {{"layer", ColumnKind::name}, {"why", ColumnKind::sentence}}, {}};
  for (const QuantisedLayer& layer : report.layers) {
    if (!layer.quantised) table.rows.push_back({name_cell(layer.name), text_cell(layer.reason)});
  }
  if (table.rows.empty()) return "";
  return html_section("Layers that stay in float", "Which, and why.", html_table(table));
}

std::string search_section(const QuantiseReport& report) {
  if (report.steps.empty()) return "";
  HtmlTable table{
      "Search",
      {{"layers in float", ColumnKind::number}, {report.metric, ColumnKind::number}, {"drop", ColumnKind::number}},
      {}};
  for (const ExclusionStep& step : report.steps) {
    const double drop = metric_drop(report.metric, report.metric_before.value_or(0), step.metric);
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
    table.rows.push_back({name_cell(name), number_cell(decibel_text(snr), bounded_decibel(snr))});
  return html_section(
      "Ranges of activations",
      fmt::format("Taken: {}. Each with the corrections and equalised channels that go with it best, over {} "
                  "samples.",
                  report.estimator, report.diagnosis_samples),
      html_table(table));
}

}  // namespace

std::string quantisation_html(const QuantiseReport& report, const QuantisationFiles& files) {
  const std::string title = "Quantisation of " + files.before;
  const std::string body = fmt::format("<h1>{}</h1>\n", html_text(title)) + costs_facts(report) + snr_section(report) +
                           bits_section(report) + excluded_section(report) + search_section(report) +
                           bytes_section(report) + estimators_section(report) + layers_section(report);
  return html_page(title, body);
}

}  // namespace tessera::compress
