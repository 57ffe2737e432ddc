// Measures and prints the sizes, times and errors that all reports of compressed models share.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tessera/compression_costs.h"
#include "tessera/quantise.h"

namespace tessera::compress {

// "3.74 times smaller", "1.72 times larger" or "as before".
std::string size_change(std::int64_t before, std::int64_t after);
// "1.39 times as fast" or "1.10 times as slow"; "" if a time is not known.
std::string speed_change(double before, double after);
// "41.2 dB", "exact" for an infinite ratio, "not finite" for -infinity, or "" without a value.
std::string decibel_text(const std::optional<double>& value);
// The ratio for plots and sorting: limited to 0 to 80 dB, beyond which the loss is invisible; 0 without a value.
double bounded_decibel(const std::optional<double>& value);
// null, "Infinity", "-Infinity" or the number.
nlohmann::json json_number(const std::optional<double>& value);

// The first sample of the data as inputs of a run.
NamedValues first_sample(const Model& model, const CalibrationData& data);

// Fills in the times of both models on these inputs, predicted and measured in interleaved runs, and their memory.
void measure_costs(CompressionCosts& costs, const Model& before, const Model& after, const NamedValues& inputs,
                   const SessionOptions& session);

// Lines of text. `max_drop` is the bound on the metric's loss, if there is one.
std::string costs_text(const CompressionCosts& costs, const std::optional<double>& max_drop = {});
// The costs as members for the JSON object of a report.
nlohmann::json costs_json(const CompressionCosts& costs);

}  // namespace tessera::compress
