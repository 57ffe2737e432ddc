#include "compress/core/compression_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/numbers/units.h"
#include "compress/core/compression_costs.h"
#include "report/html/html.h"
#include "report/html/plot_axes.h"
#include "report/html/svg.h"

namespace tessera::compress {
namespace {

using namespace report;

std::string duration(double ms) {
  constexpr double kNs = 1e6;
  return base::format_duration_ns(static_cast<std::int64_t>(ms * kNs));
}

std::string error_plot(const std::vector<LayerMark>& layers, const Frame& frame) {
  Drawing drawing(frame.width, frame.height, std::string("plot ") + std::string(frame.css_class),
                  "signal-to-noise ratio by bits per weight");
  double highest = 1, most_bits = 1;
  for (const LayerMark& layer : layers) {
    highest = std::max(highest, bounded_decibel(layer.snr_db));
    most_bits = std::max(most_bits, layer.bits);
  }
  const Scale x(0, most_bits * 1.05, frame.left, frame.width - frame.right, false),
      y(0, highest * 1.05, frame.height - frame.bottom, frame.top, false);
  axes(drawing, frame, x, y, "bits per weight", "dB");
  for (const LayerMark& layer : layers) {
    const double px = x(layer.bits), py = y(bounded_decibel(layer.snr_db));
    const std::string label = fmt::format("{}: {:.2f} bits per weight, {}{}{}", layer.name, layer.bits,
                                          decibel_text(layer.snr_db), layer.remark.empty() ? "" : "; ", layer.remark);
    constexpr double kRadius = 4;
    drawing.mark(layer.is_kept ? diamond_path(px, py, kRadius + 1) : circle_path(px, py, kRadius),
                 layer.is_kept ? "mark overhead" : "mark memory", label);
  }
  return drawing.finish();
}

}  // namespace

std::string costs_facts(const CompressionCosts& costs) {
  std::vector<HtmlFact> facts{{"weights", base::format_bytes(costs.bytes_after),
                               fmt::format("{}; before: {}", size_change(costs.bytes_before, costs.bytes_after),
                                           base::format_bytes(costs.bytes_before))}};
  if (costs.file_bytes > 0)
    facts.push_back({"file", base::format_bytes(costs.file_bytes),
                     costs.file_bytes_before > 0
                         ? fmt::format("{}; before: {}", size_change(costs.file_bytes_before, costs.file_bytes),
                                       base::format_bytes(costs.file_bytes_before))
                         : "as written"});
  if (costs.metric_before && costs.metric_after)
    facts.push_back({costs.metric, fmt::format("{:.4f}", *costs.metric_after),
                     fmt::format("before: {:.4f}", *costs.metric_before)});
  if (costs.snr_db)
    facts.push_back({"outputs", decibel_text(costs.snr_db),
                     costs.snr_samples > 0 ? fmt::format("signal-to-noise ratio over {} samples", costs.snr_samples)
                                           : "signal-to-noise ratio to the model before"});
  if (costs.measured_ms_before && costs.measured_ms_after)
    facts.push_back({"measured", duration(*costs.measured_ms_after),
                     fmt::format("{}; before: {}", speed_change(*costs.measured_ms_before, *costs.measured_ms_after),
                                 duration(*costs.measured_ms_before))});
  if (costs.predicted_ms_before && costs.predicted_ms_after)
    facts.push_back({"predicted", duration(*costs.predicted_ms_after),
                     fmt::format("before: {}", duration(*costs.predicted_ms_before))});
  if (costs.memory_bytes_before && costs.memory_bytes_after)
    facts.push_back({"memory", base::format_bytes(*costs.memory_bytes_after),
                     fmt::format("of a run; before: {}", base::format_bytes(*costs.memory_bytes_before))});
  return html_facts(facts);
}

std::string error_by_bits_section(const std::vector<LayerMark>& layers, std::string_view explanation) {
  std::vector<LayerMark> shown;
  std::ranges::copy_if(layers, std::back_inserter(shown),
                       [](const LayerMark& layer) { return layer.snr_db.has_value(); });
  if (shown.empty()) return "";
  return html_section("Error against bits", explanation,
                      "<div>" + error_plot(shown, kWide) + error_plot(shown, kNarrow) + std::string(kReadout));
}

std::string size_section(const SizePart& whole, const std::vector<SizePart>& parts, std::string_view explanation) {
  const auto share = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(std::max<std::int64_t>(1, whole.bytes));
  };
  std::string rows = html_bar_row(whole.name, html_bar(whole.css_class, 1), base::format_bytes(whole.bytes));
  for (const SizePart& part : parts)
    rows += html_bar_row(part.name, html_bar(part.css_class, std::min(1.0, share(part.bytes))),
                         base::format_bytes(part.bytes));
  return html_section("Where the bytes are", explanation, "<div class=\"bars\">" + rows + "</div>");
}

}  // namespace tessera::compress
