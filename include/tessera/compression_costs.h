// The costs of a compressed model and of the model that it was made from. All reports of compression include them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera {

struct CompressionCosts {
  std::int64_t bytes_before = 0, bytes_after = 0;  // of the model's constants
  // Sizes of the written file and of the original model in the same format, or 0 where they are not known.
  std::int64_t file_bytes = 0, file_bytes_before = 0;
  // The time of a run on one sample; nothing where it was not measured or cannot be predicted.
  std::optional<double> predicted_ms_before, predicted_ms_after, measured_ms_before, measured_ms_after;
  // Weights, packed weights and arena of a session that has run once.
  std::optional<std::int64_t> memory_bytes_before, memory_bytes_after;
  std::optional<double> snr_db;        // of the outputs, with those of the original model as signal
  std::int64_t snr_samples = 0;        // samples over which snr_db is taken: all of the data
  std::int64_t diagnosis_samples = 0;  // samples, spread over the data, over which SNRs of single layers are taken
  std::string metric;                  // of the user's data
  std::optional<double> metric_before, metric_after;
};

}  // namespace tessera
