#include "compress/core/compression_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/numbers/units.h"
#include "compress/quantise/calibration_samples.h"
#include "report/explain/graph_cost.h"
#include "report/measure/calibration.h"
#include "runtime/session/environment.h"

namespace tessera::compress {
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

// The predicted time of the graph as it is run: after the passes, with the shapes of these inputs.
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

std::int64_t memory_bytes(Session& session, const NamedValues& inputs) {
  const MemoryUse use = session.memory();
  return use.weights_bytes + use.packed_weights_bytes + session.plan_memory(inputs).arena_bytes;
}

nlohmann::json json_bytes(const std::optional<std::int64_t>& bytes) {
  return bytes ? nlohmann::json(*bytes) : nlohmann::json();
}

}  // namespace

std::string size_change(std::int64_t before, std::int64_t after) {
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(1, b));
  };
  if (before == after) return "as before";
  return after < before ? fmt::format("{:.2f} times smaller", ratio(before, after))
                        : fmt::format("{:.2f} times larger", ratio(after, before));
}

std::string speed_change(double before, double after) {
  if (!(before > 0) || !(after > 0)) return "";
  return after <= before ? fmt::format("{:.2f} times as fast", before / after)
                         : fmt::format("{:.2f} times as slow", after / before);
}

std::string decibel_text(const std::optional<double>& value) {
  if (!value) return "";
  if (std::isinf(*value)) return *value > 0 ? "exact" : "not finite";
  return fmt::format("{:.1f} dB", *value);
}

double bounded_decibel(const std::optional<double>& value) {
  constexpr double kMostDb = 80;
  return std::clamp(value.value_or(0), 0.0, kMostDb);
}

nlohmann::json json_number(const std::optional<double>& value) {
  if (!value) return nullptr;
  if (std::isinf(*value)) return *value > 0 ? "Infinity" : "-Infinity";
  return *value;
}

NamedValues first_sample(const Model& model, const CalibrationData& data) {
  NamedValues inputs;
  CalibrationData single = data;
  single.batch = 1;
  read_samples(model, single, [&](const SampleBatch& batch) {
    inputs = batch.inputs;
    return false;
  });
  return inputs;
}

void measure_costs(CompressionCosts& costs, const Model& before, const Model& after, const NamedValues& inputs,
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
  costs.measured_ms_before = median(first);
  costs.measured_ms_after = median(second);
  costs.memory_bytes_before = memory_bytes(a, inputs);
  costs.memory_bytes_after = memory_bytes(b, inputs);
  try {
    const std::optional<double> x = predicted_ms(before, inputs, session), y = predicted_ms(after, inputs, session);
    if (x && y) {
      costs.predicted_ms_before = x;
      costs.predicted_ms_after = y;
    }
  } catch (const Error&) {  // there is no prediction for shapes that depend on data
  }
}

std::string costs_text(const CompressionCosts& costs, const std::optional<double>& max_drop) {
  std::string text =
      fmt::format("weights {} -> {}, {}\n", base::format_bytes(costs.bytes_before),
                  base::format_bytes(costs.bytes_after), size_change(costs.bytes_before, costs.bytes_after));
  if (costs.file_bytes > 0 && costs.file_bytes_before > 0)
    text += fmt::format("file {} -> {}, {}\n", base::format_bytes(costs.file_bytes_before),
                        base::format_bytes(costs.file_bytes), size_change(costs.file_bytes_before, costs.file_bytes));
  else if (costs.file_bytes > 0) text += fmt::format("file {}\n", base::format_bytes(costs.file_bytes));
  if (costs.memory_bytes_before && costs.memory_bytes_after)
    text += fmt::format("memory of a run {} -> {}\n", base::format_bytes(*costs.memory_bytes_before),
                        base::format_bytes(*costs.memory_bytes_after));
  if (costs.snr_db)
    text += fmt::format("outputs: signal-to-noise ratio {}{}\n", decibel_text(costs.snr_db),
                        costs.snr_samples > 0 ? fmt::format(" over {} samples", costs.snr_samples) : "");
  if (costs.metric_before && costs.metric_after)
    text += fmt::format("{}: {:.4f} -> {:.4f}{}\n", costs.metric, *costs.metric_before, *costs.metric_after,
                        max_drop ? fmt::format(" (may drop by {})", *max_drop) : "");
  if (costs.measured_ms_before && costs.measured_ms_after)
    text += fmt::format("measured {:.3f} ms -> {:.3f} ms, {}\n", *costs.measured_ms_before, *costs.measured_ms_after,
                        speed_change(*costs.measured_ms_before, *costs.measured_ms_after));
  if (costs.predicted_ms_before && costs.predicted_ms_after)
    text += fmt::format("predicted {:.3f} ms -> {:.3f} ms\n", *costs.predicted_ms_before, *costs.predicted_ms_after);
  return text;
}

nlohmann::json costs_json(const CompressionCosts& costs) {
  return {{"bytes_before", costs.bytes_before},
          {"bytes_after", costs.bytes_after},
          {"file_bytes", costs.file_bytes},
          {"file_bytes_before", costs.file_bytes_before},
          {"memory_bytes_before", json_bytes(costs.memory_bytes_before)},
          {"memory_bytes_after", json_bytes(costs.memory_bytes_after)},
          {"predicted_ms_before", json_number(costs.predicted_ms_before)},
          {"predicted_ms_after", json_number(costs.predicted_ms_after)},
          {"measured_ms_before", json_number(costs.measured_ms_before)},
          {"measured_ms_after", json_number(costs.measured_ms_after)},
          {"snr_db", json_number(costs.snr_db)},
          {"snr_samples", costs.snr_samples},
          {"diagnosis_samples", costs.diagnosis_samples},
          {"metric", costs.metric},
          {"metric_before", json_number(costs.metric_before)},
          {"metric_after", json_number(costs.metric_after)}};
}

}  // namespace tessera::compress
