#include "compress/prune/sensitivity_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "compress/core/compression_costs.h"
#include "compress/core/output_metric.h"
#include "report/html/html.h"
#include "report/html/html_table.h"
#include "report/html/plot_axes.h"
#include "report/html/svg.h"

namespace tessera::compress {
namespace {

using namespace report;

constexpr std::size_t kColours = 8;  // of page_style.h: series0 to series7

double drop_of(const PruneSensitivity& sensitivity, const SensitivityPoint& point) {
  return metric_drop(sensitivity.metric, sensitivity.metric_before, point.metric);
}

// The layers in descending order of the sum of their drops, the most sensitive first.
std::vector<const LayerSensitivity*> ranked(const PruneSensitivity& sensitivity) {
  std::vector<const LayerSensitivity*> layers;
  for (const LayerSensitivity& layer : sensitivity.layers)
    if (!layer.points.empty()) layers.push_back(&layer);
  std::ranges::stable_sort(layers, std::greater(), [&](const LayerSensitivity* layer) {
    double sum = 0;
    for (const SensitivityPoint& point : layer->points) sum += drop_of(sensitivity, point);
    return sum;
  });
  return layers;
}

std::string series(std::size_t rank) {
  return rank < kColours ? fmt::format("series{}", rank) : "otherseries";
}

std::string legend(const std::vector<const LayerSensitivity*>& layers) {
  const auto entry = [](const std::string& css_class, const std::string& name) {
    return fmt::format(
        "<span><svg viewBox=\"0 0 14 14\" aria-hidden=\"true\"><path class=\"mark {}\" d=\"{}\"/></svg>{}</span>",
        css_class, circle_path(7, 7, 5), html_text(name));
  };
  std::string html;
  for (std::size_t i = 0; i < std::min(kColours, layers.size()); ++i) html += entry(series(i), layers[i]->label);
  if (layers.size() > kColours)
    html += entry(series(kColours), fmt::format("{} less sensitive layers", layers.size() - kColours));
  return "<div class=\"legend\">" + html + "</div>\n";
}

std::string plot(const PruneSensitivity& sensitivity, const std::vector<const LayerSensitivity*>& layers,
                 const Frame& frame) {
  Drawing drawing(frame.width, frame.height, std::string("plot ") + std::string(frame.css_class),
                  "drop of the metric by sparsity");
  double highest = 0, lowest = 0;
  for (const LayerSensitivity* layer : layers) {
    for (const SensitivityPoint& point : layer->points) {
      highest = std::max(highest, drop_of(sensitivity, point));
      lowest = std::min(lowest, drop_of(sensitivity, point));
    }
  }
  if (highest == lowest) highest = lowest + 1;
  const Scale x(0, 1, frame.left, frame.width - frame.right, false),
      y(lowest * 1.05, highest + 0.05 * (highest - lowest), frame.height - frame.bottom, frame.top, false);
  axes(drawing, frame, x, y, "sparsity of the layer", "drop of " + sensitivity.metric);
  for (std::size_t i = layers.size(); i-- > 0;) {  // the most sensitive are drawn last, on top of the others
    const LayerSensitivity& layer = *layers[i];
    std::string path = fmt::format("M{:.1f} {:.1f}", x(0), y(0));
    for (const SensitivityPoint& point : layer.points)
      path += fmt::format("L{:.1f} {:.1f}", x(point.sparsity), y(drop_of(sensitivity, point)));
    drawing.path(path, "curve " + series(i));
    constexpr double kRadius = 3.5;
    for (const SensitivityPoint& point : layer.points)
      drawing.mark(circle_path(x(point.sparsity), y(drop_of(sensitivity, point)), kRadius), "mark " + series(i),
                   fmt::format("{} at {:.0f}%: {} {:.4f}, {}", layer.label, 100 * point.sparsity, sensitivity.metric,
                               point.metric, decibel_text(point.snr_db)));
  }
  return drawing.finish();
}

HtmlTable table_of(const PruneSensitivity& sensitivity) {
  HtmlTable table{"Sensitivity",
                  {{"layer", ColumnKind::name},
                   {"weights", ColumnKind::number},
                   {"sparsity", ColumnKind::number},
                   {sensitivity.metric, ColumnKind::number},
                   {"drop", ColumnKind::number},
                   {"SNR", ColumnKind::number}},
                  {}};
  for (const LayerSensitivity& layer : sensitivity.layers) {
    for (const SensitivityPoint& point : layer.points) {
      const double drop = drop_of(sensitivity, point);
      table.rows.push_back({name_cell(layer.label),
                            number_cell(std::to_string(layer.weights), static_cast<double>(layer.weights)),
                            number_cell(fmt::format("{:.0f}%", 100 * point.sparsity), point.sparsity),
                            number_cell(fmt::format("{:.4f}", point.metric), point.metric),
                            number_cell(fmt::format("{:.4f}", drop), drop),
                            number_cell(decibel_text(point.snr_db), bounded_decibel(point.snr_db))});
    }
  }
  return table;
}

}  // namespace

std::string sensitivity_section(const PruneSensitivity& sensitivity) {
  const std::vector<const LayerSensitivity*> layers = ranked(sensitivity);
  return html_section(
      "Sensitivity",
      fmt::format("How much {} drops from {:.4f} when one layer alone is pruned, and the signal-to-noise ratio of the "
                  "outputs over {} samples: a curve for each layer. The steepest one wants the smallest sparsity.",
                  sensitivity.metric, sensitivity.metric_before, sensitivity.snr_samples),
      legend(layers) + "<div>" + plot(sensitivity, layers, kWide) + plot(sensitivity, layers, kNarrow) +
          std::string(kReadout) + html_table(table_of(sensitivity)),
      true);
}

}  // namespace tessera::compress
