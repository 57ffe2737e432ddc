#include "compress/quantisation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "report/calibration.h"
#include "report/graph_cost.h"
#include "report/json_text.h"
#include "runtime/environment.h"

namespace tessera::compress {
namespace {

std::string decibel(const std::optional<double>& value) {
  if (!value) return "";
  if (std::isinf(*value)) return *value > 0 ? "exact" : "not finite";
  return fmt::format("{:.1f} dB", *value);
}

std::string mebibytes(std::int64_t bytes) {
  constexpr double kMebi = 1 << 20, kKibi = 1 << 10;
  const auto value = static_cast<double>(bytes);
  return value >= kMebi ? fmt::format("{:.2f} MiB", value / kMebi) : fmt::format("{:.1f} KiB", value / kKibi);
}

nlohmann::json number(const std::optional<double>& value) {
  if (!value) return nullptr;
  if (std::isinf(*value)) return *value > 0 ? "Infinity" : "-Infinity";
  return *value;
}

std::string summary(const QuantiseReport& report) {
  std::string text = report.scheme + "\n";
  if (!report.estimator.empty()) {
    text += fmt::format("ranges by {} over {} samples", report.estimator, report.samples);
    if (report.estimator_snr_db.size() > 1) {
      std::string tried;
      for (const auto& [name, snr] : report.estimator_snr_db)
        tried += fmt::format("{}{} {}", tried.empty() ? "" : ", ", name, decibel(snr));
      text += " (tried: " + tried + ")";
    }
    text += fmt::format("; channels equalised: {}; biases corrected: {}\n", report.equalised ? "yes" : "no",
                        report.bias_corrected ? "yes" : "no");
  }
  if (report.adaptively_rounded)
    text += *report.adaptively_rounded ? "weights rounded adaptively\n"
                                       : "weights rounded to the nearest integers: adaptive rounding did not bring the "
                                         "outputs closer\n";
  return text;
}

std::string figures(const QuantiseReport& report) {
  std::string text = fmt::format(
      "weights {} -> {}, {:.2f} times smaller\n", mebibytes(report.bytes_before), mebibytes(report.bytes_after),
      static_cast<double>(report.bytes_before) / static_cast<double>(std::max<std::int64_t>(1, report.bytes_after)));
  if (report.file_bytes > 0) text += fmt::format("file {}\n", mebibytes(report.file_bytes));
  if (report.snr_db) text += fmt::format("outputs: signal-to-noise ratio {}\n", decibel(report.snr_db));
  if (report.metric_before && report.metric_after)
    text += fmt::format("{}: {:.4f} -> {:.4f}{}\n", report.metric, *report.metric_before, *report.metric_after,
                        report.max_drop ? fmt::format(" (may drop by {})", *report.max_drop) : "");
  if (report.measured_ms_before && report.measured_ms_after)
    text += fmt::format("measured {:.3f} ms -> {:.3f} ms, {:.2f} times as fast\n", *report.measured_ms_before,
                        *report.measured_ms_after, *report.measured_ms_before / *report.measured_ms_after);
  if (report.predicted_ms_before && report.predicted_ms_after)
    text += fmt::format("predicted {:.3f} ms -> {:.3f} ms\n", *report.predicted_ms_before, *report.predicted_ms_after);
  return text;
}

}  // namespace

std::string quantisation_text(const QuantiseReport& report, const QuantisationFiles& files, std::size_t most_layers) {
  std::string text =
      fmt::format("{} -> {}\n{}", base::printable(files.before), base::printable(files.after), summary(report));
  const auto quantised = std::ranges::count(report.layers, true, &QuantisedLayer::quantised);
  text += fmt::format("{} of {} layers quantised\n{}\n", quantised, report.layers.size(), figures(report));
  const bool ranked = std::ranges::any_of(report.layers, [](const auto& layer) { return layer.snr_db.has_value(); });
  text += ranked ? "layers, by what each costs at the outputs when it alone is quantised:\n" : "layers:\n";
  std::size_t width = 5;
  for (const QuantisedLayer& layer : report.layers)
    width = std::max(width, std::min<std::size_t>(48, layer.name.size()));
  text += fmt::format("  {:<{}}  {:<8} {:>10} {:>10}  {:<10} {}\n", "layer", width, "op", "SNR", "weights", "", "");
  std::size_t shown = 0;
  for (const QuantisedLayer& layer : report.layers) {
    if (shown++ >= most_layers && layer.quantised) continue;
    text += fmt::format("  {:<{}}  {:<8} {:>10} {:>10}  {:<10} {}\n", base::printable(base::shortened(layer.name, 48)),
                        width, layer.op, decibel(layer.snr_db), layer.weights, layer.quantised ? "quantised" : "float",
                        layer.reason);
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
                      {"snr_db", number(layer.snr_db)},
                      {"input_range", {layer.input_low, layer.input_high}},
                      {"rounding_gain_db", number(layer.rounding_gain_db)},
                      {"quantised", layer.quantised},
                      {"reason", layer.reason}});
  for (const ExclusionStep& step : report.steps)
    steps.push_back({{"excluded", step.excluded}, {"metric", step.metric}});
  for (const auto& [name, snr] : report.estimator_snr_db) tried[name] = number(snr);
  return report::json_text({{"model", files.before},
                            {"output", files.after},
                            {"scheme", report.scheme},
                            {"estimator", report.estimator},
                            {"estimators_snr_db", tried},
                            {"equalised", report.equalised},
                            {"bias_corrected", report.bias_corrected},
                            {"adaptively_rounded", report.adaptively_rounded.value_or(false)},
                            {"samples", report.samples},
                            {"snr_db", number(report.snr_db)},
                            {"metric", report.metric},
                            {"metric_before", number(report.metric_before)},
                            {"metric_after", number(report.metric_after)},
                            {"max_drop", number(report.max_drop)},
                            {"steps", steps},
                            {"bytes_before", report.bytes_before},
                            {"bytes_after", report.bytes_after},
                            {"file_bytes", report.file_bytes},
                            {"predicted_ms_before", number(report.predicted_ms_before)},
                            {"predicted_ms_after", number(report.predicted_ms_after)},
                            {"measured_ms_before", number(report.measured_ms_before)},
                            {"measured_ms_after", number(report.measured_ms_after)},
                            {"layers", layers}},
                           2);
}

namespace {

double run_ms(Session& session, const NamedValues& inputs) {
  const auto start = std::chrono::steady_clock::now();
  session.run(inputs);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

// Of the graph as it runs: after the passes, for the shapes of these inputs.
std::optional<double> predicted_ms(const Model& model, const NamedValues& inputs, const SessionOptions& session) {
  std::map<std::string, std::int64_t> dims;
  for (const ValueDescription& input : model.inputs()) {
    for (std::size_t i = 0; i < input.dims.size(); ++i) {
      if (input.dims[i] < 0 && !input.dim_names[i].empty())
        dims[input.dim_names[i]] = inputs.at(input.name).tensor().shape()[i];
    }
  }
  const Model fixed = dims.empty() ? model : model.with_dims(dims);
  const runtime::ProgramEnvironment environment = runtime::make_environment(fixed, session);
  const std::unique_ptr<runtime::Program> program = runtime::make_program(fixed, session, environment);
  const GraphCost cost =
      report::graph_measure(report::load_cpu_profile().profile, session.device, dims)(program->graph());
  constexpr double kMs = 1e3;
  return cost.unknown_nodes == 0 && cost.seconds > 0 ? std::optional(cost.seconds * kMs) : std::nullopt;
}

}  // namespace

void add_latency(QuantiseReport& report, const Model& before, const Model& after, const NamedValues& inputs,
                 const SessionOptions& session) {
  constexpr int kWarm = 3, kRuns = 21;
  Session a(before, session), b(after, session);
  std::vector<double> first, second;
  for (int i = 0; i < kWarm + kRuns; ++i) {
    const double x = run_ms(a, inputs), y = run_ms(b, inputs);
    if (i < kWarm) continue;
    first.push_back(x);
    second.push_back(y);
  }
  report.measured_ms_before = median(first);
  report.measured_ms_after = median(second);
  try {
    const std::optional<double> x = predicted_ms(before, inputs, session), y = predicted_ms(after, inputs, session);
    if (x && y) {
      report.predicted_ms_before = x;
      report.predicted_ms_after = y;
    }
  } catch (const Error&) {  // shapes that depend on data have no prediction
  }
}

}  // namespace tessera::compress
