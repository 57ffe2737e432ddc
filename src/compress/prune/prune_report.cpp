#include "compress/prune/prune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/numbers/units.h"
#include "base/text.h"
#include "compress/core/compression_costs.h"
#include "compress/core/output_metric.h"
#include "report/values/json_text.h"

namespace tessera::compress {
namespace {

nlohmann::json sensitivity_json(const PruneSensitivity& sensitivity) {
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerSensitivity& layer : sensitivity.layers) {
    nlohmann::json points = nlohmann::json::array();
    for (const SensitivityPoint& point : layer.points)
      points.push_back({{"sparsity", point.sparsity}, {"metric", point.metric}, {"snr_db", json_number(point.snr_db)}});
    layers.push_back(
        {{"name", layer.name}, {"label", layer.label}, {"weights", layer.weights}, {"points", std::move(points)}});
  }
  return {{"metric", sensitivity.metric},
          {"metric_before", sensitivity.metric_before},
          {"snr_samples", sensitivity.snr_samples},
          {"layers", std::move(layers)}};
}

}  // namespace

std::string prune_text(const PruneReport& report, const std::string& path) {
  std::string text = fmt::format("{:<32} {:>12} {:>12} {:>12}\n", "weights of", "before", "after", "nonzero");
  for (const PrunedLayer& layer : report.layers)
    text += fmt::format("{:<32} {:>12} {:>12} {:>12} {:>6.1f}%{}\n", base::printable(layer.label), layer.weights_before,
                        layer.weights_after, layer.nonzero_after,
                        100 * static_cast<double>(layer.nonzero_after) / static_cast<double>(layer.weights_before),
                        layer.snr_db ? fmt::format(" {:>10} alone", decibel_text(layer.snr_db)) : "");
  for (const std::string& node : report.kept_by)
    text += fmt::format("those before {} stay: it does not treat them one by one\n", base::printable(node));
  for (const std::string& layer : report.left_out)
    text += fmt::format("{} stays as it is: its inputs are no multiple of the M of N:M\n", base::printable(layer));
  if (report.metric_before) text += costs_text(report);
  text += fmt::format("{} parameters became {}", report.parameters_before, report.parameters_after);
  return text + (path.empty() ? "\n"
                              : fmt::format("; written to {}, {}\n", base::printable(path),
                                            base::format_bytes(report.file_bytes)));
}

std::string sensitivity_text(const PruneSensitivity& sensitivity) {
  std::set<double> sparsities;
  for (const LayerSensitivity& layer : sensitivity.layers) {
    for (const SensitivityPoint& point : layer.points) sparsities.insert(point.sparsity);
  }
  std::string text = fmt::format("how much {} drops from {:.4f} when one layer alone is pruned:\n{:<32} {:>10}",
                                 sensitivity.metric, sensitivity.metric_before, "weights of", "");
  for (const double sparsity : sparsities) text += fmt::format(" {:>8.0f}%", 100 * sparsity);
  text += "\n";
  for (const LayerSensitivity& layer : sensitivity.layers) {
    text += fmt::format("{:<32} {:>10}", base::printable(base::shortened(layer.label, 32)), layer.weights);
    for (const double sparsity : sparsities) {
      const auto point = std::ranges::find(layer.points, sparsity, &SensitivityPoint::sparsity);
      text += point == layer.points.end()
                  ? fmt::format(" {:>9}", "-")
                  : fmt::format(" {:>9.4f}", metric_drop(sensitivity.metric, sensitivity.metric_before, point->metric));
    }
    text += "\n";
  }
  return text;
}

namespace {

nlohmann::json pruning_json(const PruneReport& report, const std::string& path) {
  nlohmann::json layers = nlohmann::json::array();
  for (const PrunedLayer& layer : report.layers)
    layers.push_back({{"name", layer.name},
                      {"label", layer.label},
                      {"weights_before", layer.weights_before},
                      {"weights_after", layer.weights_after},
                      {"nonzero_after", layer.nonzero_after},
                      {"removed_inputs", layer.removed_inputs.size()},
                      {"removed_outputs", layer.removed_outputs.size()},
                      {"snr_db", json_number(layer.snr_db)}});
  nlohmann::json json{{"layers", std::move(layers)},
                      {"kept_by", report.kept_by},
                      {"left_out", report.left_out},
                      {"parameters_before", report.parameters_before},
                      {"parameters_after", report.parameters_after},
                      {"path", path}};
  json.update(costs_json(report));
  return json;
}

}  // namespace

std::string prune_json(const std::optional<PruneReport>& report, const std::string& path,
                       const std::optional<PruneSensitivity>& sensitivity) {
  nlohmann::json json = report ? pruning_json(*report, path) : nlohmann::json::object();
  if (sensitivity) json["sensitivity"] = sensitivity_json(*sensitivity);
  return report::json_text(json, 2);
}

}  // namespace tessera::compress
