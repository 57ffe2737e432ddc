// Measures and writes what all reports of compressed models share.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tessera/compression_costs.h"
#include "tessera/quantise.h"

namespace tessera::compress {

// "3.74 times smaller", "1.72 times larger" or "as before".
std::string size_change(std::int64_t before, std::int64_t after);
// "1.39 times as fast" or "1.10 times as slow"; "" where a time is not known.
std::string speed_change(double before, double after);
// "41.2 dB", "exact" where nothing differs, "not finite"; "" of nothing.
std::string decibel_text(const std::optional<double>& value);
// For plots and sorting: within 0 to 80 dB, beyond which nothing is lost that anybody sees; 0 of nothing.
double bounded_decibel(const std::optional<double>& value);
// null, "Infinity", "-Infinity" or the number.
nlohmann::json json_number(const std::optional<double>& value);

// The first sample of the data as inputs of a run.
NamedValues first_sample(const Model& model, const CalibrationData& data);

// Fills in the times, predicted and measured in interleaved runs, and the memory of both models on these inputs.
void measure_costs(CompressionCosts& costs, const Model& before, const Model& after, const NamedValues& inputs,
                   const SessionOptions& session);

// Lines of text; `max_drop`: what the metric may lose, if there is a bound.
std::string costs_text(const CompressionCosts& costs, const std::optional<double>& max_drop = {});
// Its members, for the object of a report.
nlohmann::json costs_json(const CompressionCosts& costs);

}  // namespace tessera::compress
