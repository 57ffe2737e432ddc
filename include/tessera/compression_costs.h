// The costs of a compressed model beside those of the model that it was made from. All reports share this part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera {

struct CompressionCosts {
  std::int64_t bytes_before = 0, bytes_after = 0;  // of the model's constants
  std::int64_t file_bytes = 0;                     // as written; 0: not known
  // The time of a run on one sample, or nothing where it was not measured or cannot be predicted.
  std::optional<double> predicted_ms_before, predicted_ms_after, measured_ms_before, measured_ms_after;
  // Weights, packed weights and arena of a session that has run once.
  std::optional<std::int64_t> memory_bytes_before, memory_bytes_after;
  std::optional<double> snr_db;  // of the outputs, those of the model before being the signal
  std::string metric;            // of the user's data; larger is better
  std::optional<double> metric_before, metric_after;
};

}  // namespace tessera
