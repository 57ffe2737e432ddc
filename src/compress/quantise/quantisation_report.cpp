#include "compress/quantise/quantisation_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "compress/core/compression_costs.h"
#include "report/values/json_text.h"

namespace tessera::compress {
namespace {

std::string summary(const QuantiseReport& report) {
  std::string text = report.scheme + "\n";
  if (!report.estimator.empty()) {
    text += fmt::format("ranges by {} over {} samples", report.estimator, report.samples);
    if (report.estimator_snr_db.size() > 1) {
      std::string tried;
      for (const auto& [name, snr] : report.estimator_snr_db)
        tried += fmt::format("{}{} {}", tried.empty() ? "" : ", ", name, decibel_text(snr));
      text += fmt::format(" (tried on {} of them: {})", report.diagnosis_samples, tried);
    }
    text += fmt::format("; channels equalised: {}; biases corrected: {}; variances corrected: {}\n",
                        report.smoothed    ? "in front of products too"
                        : report.equalised ? "across layers"
                                           : "no",
                        report.bias_corrected ? "yes" : "no", report.variance_corrected ? "yes" : "no");
  }
  if (report.adaptively_rounded)
    text += *report.adaptively_rounded ? "weights rounded adaptively\n"
                                       : "weights rounded to the nearest integers: adaptive rounding did not bring the "
                                         "outputs closer\n";
  return text;
}

}  // namespace

std::string quantisation_text(const QuantiseReport& report, const QuantisationFiles& files, std::size_t most_layers) {
  std::string text =
      fmt::format("{} -> {}\n{}", base::printable(files.before), base::printable(files.after), summary(report));
  const auto quantised = std::ranges::count(report.layers, true, &QuantisedLayer::quantised);
  text += fmt::format("{} of {} layers quantised\n{}\n", quantised, report.layers.size(),
                      costs_text(report, report.max_drop));
  const bool ranked = std::ranges::any_of(report.layers, [](const auto& layer) { return layer.snr_db.has_value(); });
  text += ranked
              ? fmt::format("layers, by what each costs at the outputs when it alone is quantised, over {} samples:\n",
                            report.diagnosis_samples)
              : "layers:\n";
  std::size_t width = 5;
  for (const QuantisedLayer& layer : report.layers)
    width = std::max(width, std::min<std::size_t>(48, layer.name.size()));
  text += fmt::format("  {:<{}}  {:<8} {:>10} {:>10}  {:<10} {}\n", "layer", width, "op", "SNR", "weights", "", "");
  std::size_t shown = 0;
  for (const QuantisedLayer& layer : report.layers) {
    if (shown++ >= most_layers && layer.quantised) continue;
    text += fmt::format("  {:<{}}  {:<8} {:>10} {:>10}  {:<10} {}\n", base::printable(base::shortened(layer.name, 48)),
                        width, layer.op, decibel_text(layer.snr_db), layer.weights,
                        layer.quantised ? "quantised" : "float", layer.reason);
  }
  if (report.layers.size() > most_layers)
    text += fmt::format("  … of {} layers; --all shows all\n", report.layers.size());
  for (const ExclusionStep& step : report.steps)
    text += fmt::format("with {} layers in float: {:.4f}\n", step.excluded, step.metric);
  return text;
}

std::string quantisation_json(const QuantiseReport& report, const QuantisationFiles& files) {
  nlohmann::json layers = nlohmann::json::array(), steps = nlohmann::json::array(), tried = nlohmann::json::object();
  for (const QuantisedLayer& layer : report.layers)
    layers.push_back({{"name", layer.name},
                      {"op", layer.op},
                      {"weights", layer.weights},
                      {"bytes_before", layer.bytes_before},
                      {"bytes_after", layer.bytes_after},
                      {"snr_db", json_number(layer.snr_db)},
                      {"input_range", {layer.input_low, layer.input_high}},
                      {"rounding_gain_db", json_number(layer.rounding_gain_db)},
                      {"quantised", layer.quantised},
                      {"reason", layer.reason}});
  for (const ExclusionStep& step : report.steps)
    steps.push_back({{"excluded", step.excluded}, {"metric", step.metric}});
  for (const auto& [name, snr] : report.estimator_snr_db) tried[name] = json_number(snr);
  nlohmann::json json{{"model", files.before},
                      {"output", files.after},
                      {"scheme", report.scheme},
                      {"estimator", report.estimator},
                      {"estimators_snr_db", tried},
                      {"equalised", report.equalised},
                      {"smoothed", report.smoothed},
                      {"bias_corrected", report.bias_corrected},
                      {"variance_corrected", report.variance_corrected},
                      {"adaptively_rounded", report.adaptively_rounded.value_or(false)},
                      {"samples", report.samples},
                      {"max_drop", json_number(report.max_drop)},
                      {"steps", steps},
                      {"layers", layers}};
  json.update(costs_json(report));
  return report::json_text(json, 2);
}

}  // namespace tessera::compress
