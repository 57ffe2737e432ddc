// Pruning a model in one go, by the magnitudes of its weights. For pruning while a net trains see PruneOptions in
// tessera/train.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/model.h"

namespace tessera {

struct OneShotPruneOptions {
  double sparsity = 0.9;  // the share of weights, or of channels, that goes; in [0, 1)
  // "none": weights anywhere become zero. "N:M": of M weights in a row along a layer's inputs N stay, whatever the
  // sparsity. "channels": channels of convolutions and products with a matrix are taken out of the shapes, with all
  // that depends on them; channels that sums or depthwise convolutions tie go together.
  std::string structure = "none";
  bool global = false;               // the share is of all layers together, else of each
  std::vector<std::string> exclude;  // patterns of names of weights that stay as they are
};

struct PrunedLayer {
  std::string name;  // of the weights
  std::int64_t weights_before = 0, weights_after = 0, nonzero_after = 0;
  std::vector<std::int64_t> removed_inputs, removed_outputs;  // channels
};

struct PruneReport {
  std::vector<PrunedLayer> layers;
  // With "channels": nodes behind channels that have to stay, because the operator does not treat them one by one.
  std::vector<std::string> kept_by;
  std::int64_t parameters_before = 0, parameters_after = 0;  // float32 numbers of the model
};

// Throws Error(invalid_argument): options that do not fit, a pattern that matches nothing, nothing to prune (with the
// reasons why no channel can go).
Model prune(const Model& model, const OneShotPruneOptions& options = {}, PruneReport* report = nullptr);

// Writes the model as the ending of the path says: .onnx, or .tsr with coded weights (docs/package.md). Returns the
// bytes of the file. Throws Error(invalid_argument, io).
std::int64_t write_pruned(const Model& model, const std::string& path);

}  // namespace tessera
