// Adaptive rounding of a graph's layers one by one, given their activations on calibration data.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "compress/quantise/calibration.h"

namespace tessera::compress {

struct AdaptOptions {
  std::vector<WeightForm> forms;  // of the layers; if empty, all are per channel
  int steps = 500;                // of the optimiser
  std::int64_t most_samples = 256;
  CalibrationData data;
  SessionOptions session;
  std::function<void(std::string_view layer, double done)> progress = {};  // `done` is from 0 to 1
};

// The sum of the squared errors of a layer's outputs on the calibration data.
struct LayerError {
  double nearest = 0, adaptive = 0;
};

struct AdaptedWeights {
  RoundedWeights rounded;
  std::map<std::size_t, LayerError> errors;
};

// Rounds the weights of the selected layers, except tables, whose rows are not multiplied. `scales` has for each layer
// the least scales of its channels, or nothing. If a layer has more than 4096 inputs, the errors of slices of the
// inputs are treated as independent. Needs memory for moments of at most 128 MiB, or of one layer, at a time. Throws
// Error as observe does.
AdaptedWeights adapt_weights(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                             const std::set<std::size_t>& selected,
                             const std::function<std::vector<double>(const QuantisableLayer&)>& scales,
                             const AdaptOptions& options);

}  // namespace tessera::compress
