// Writes the page of a pruning.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/numbers/units.h"
#include "compress/core/compression_costs.h"
#include "compress/core/compression_page.h"
#include "compress/prune/prune_report.h"
#include "compress/prune/sensitivity_page.h"
#include "report/html/html.h"
#include "report/html/html_table.h"
#include "report/html/plot_axes.h"
#include "report/html/svg.h"

namespace tessera::compress {
namespace {

using namespace report;

constexpr double kFloatBits = 32;

std::string layers_section(const PruneReport& report) {
  HtmlTable table{"Layers",
                  {{"weights of", ColumnKind::name},
                   {"before", ColumnKind::number},
                   {"after", ColumnKind::number},
                   {"nonzero", ColumnKind::number},
                   {"share", ColumnKind::number},
                   {"inputs gone", ColumnKind::number},
                   {"outputs gone", ColumnKind::number},
                   {"SNR alone", ColumnKind::number}},
                  {}};
  const auto count = [](std::int64_t value) { return number_cell(std::to_string(value), static_cast<double>(value)); };
  for (const PrunedLayer& layer : report.layers) {
    const double share = static_cast<double>(layer.nonzero_after) / static_cast<double>(layer.weights_before);
    table.rows.push_back(
        {name_cell(layer.label), count(layer.weights_before), count(layer.weights_after), count(layer.nonzero_after),
         number_cell(fmt::format("{:.1f}%", 100 * share), share),
         count(static_cast<std::int64_t>(layer.removed_inputs.size())),
         count(static_cast<std::int64_t>(layer.removed_outputs.size())),
         number_cell(decibel_text(layer.snr_db), layer.snr_db ? bounded_decibel(layer.snr_db) : std::nan(""))});
  }
  return html_section("Layers", "Weights before and after; the share is of nonzero weights among those before.",
                      html_table(table), true);
}

std::string bits_section(const PruneReport& report) {
  std::vector<LayerMark> marks;
  for (const PrunedLayer& layer : report.layers) {
    const double share = static_cast<double>(layer.nonzero_after) / static_cast<double>(layer.weights_before);
    marks.push_back({layer.label, kFloatBits * share, layer.snr_db, share == 1, ""});
  }
  return error_by_bits_section(
      marks, fmt::format("Bits of nonzero float32 weights for each weight before, and the signal-to-noise "
                         "ratio at the outputs over {} samples when this layer alone is pruned. "
                         "Diamonds stay as they were.",
                         report.diagnosis_samples));
}

std::string bytes_section(const PruneReport& report) {
  constexpr std::int64_t kFloatBytes = 4;
  std::int64_t nonzero = 0, zero = 0;
  for (const PrunedLayer& layer : report.layers) {
    nonzero += kFloatBytes * layer.nonzero_after;
    zero += kFloatBytes * (layer.weights_after - layer.nonzero_after);
  }
  return size_section({"before", "overhead", report.bytes_before},
                      {{"nonzero weights", "memory", nonzero},
                       {"zeros", "arithmetic", zero},
                       {"everything else", "overhead", std::max<std::int64_t>(0, report.bytes_after - nonzero - zero)}},
                      "Constants of the model before, and after by their kind; coded packages (.tsr) store no zeros.");
}

std::string kept_section(const PruneReport& report) {
  if (report.kept_by.empty()) return "";
  HtmlTable table{"Operators that keep channels", {{"node", ColumnKind::name}}, {}};
  for (const std::string& node : report.kept_by) table.rows.push_back({name_cell(node)});
  return html_section("What keeps channels", "Channels before these stay: the operator does not treat them one by one.",
                      html_table(table));
}

}  // namespace

std::string prune_html(const std::optional<PruneReport>& report, const std::string& model, const std::string& path,
                       const std::optional<PruneSensitivity>& sensitivity) {
  const std::string title = (report ? "Pruning of " : "Sensitivity to pruning of ") + model;
  const std::string to = path.empty() ? "" : fmt::format("<p>Written to {}.</p>\n", html_text(path));
  std::string body = fmt::format("<h1>{}</h1>\n", html_text(title)) + to;
  if (report) body += costs_facts(*report);
  if (sensitivity) body += sensitivity_section(*sensitivity);
  if (report) body += bits_section(*report) + bytes_section(*report) + kept_section(*report) + layers_section(*report);
  return html_page(title, body);
}

}  // namespace tessera::compress
