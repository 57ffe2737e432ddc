// Prunes a model in one step, by the magnitudes of its weights. For pruning during training see PruneOptions in
// tessera/train.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/compression_costs.h"
#include "tessera/model.h"
#include "tessera/quantise.h"

namespace tessera {

struct OneShotPruneOptions {
  double sparsity = 0.9;  // the share of weights, channels or heads to remove; in [0, 1)
  // "none": weights anywhere become zero. "N:M": of M adjacent weights along a layer's inputs N are kept, whatever the
  // sparsity. "channels": channels of convolutions and products with a matrix are removed from the shapes, with
  // everything that depends on them; channels that sums or depthwise convolutions tie together are removed together.
  // "heads": heads of attention are removed from the projections of queries, keys, values and results; at least one
  // head of each attention is kept.
  std::string structure = "none";
  bool global = false;               // whether the share applies to all layers together, or to each
  std::vector<std::string> exclude;  // patterns of names or labels (see PrunedLayer) of weights not to prune
  // Names of the weights that may be pruned (with "channels", all weights tied to them too); empty: all.
  std::vector<std::string> only;
};

struct PrunedLayer {
  std::string name;   // of the weights
  std::string label;  // of the layer: its module or node, where the exporter named the weights by a number
  std::int64_t weights_before = 0, weights_after = 0, nonzero_after = 0;
  std::vector<std::int64_t> removed_inputs, removed_outputs;  // channels
  std::optional<double> snr_db;  // at the outputs when this layer alone is pruned; see diagnose_pruning
};

struct PruneReport : CompressionCosts {
  std::vector<PrunedLayer> layers;
  // Nodes that prevent the removal of the channels or heads in front of them, because their operator does not treat
  // these one by one. Empty for other structures.
  std::vector<std::string> kept_by;
  // Weights that "N:M" did not prune, because the number of their layers' inputs is not a multiple of M.
  std::vector<std::string> left_out;
  std::int64_t parameters_before = 0, parameters_after = 0;  // float32 numbers of the model
};

// Throws Error(invalid_argument): options that do not fit, a pattern that matches nothing, nothing to prune (with the
// reasons why no channel can go).
Model prune(const Model& model, const OneShotPruneOptions& options = {}, PruneReport* report = nullptr);

struct PruneDiagnosisOptions {
  CalibrationData data;
  std::string metric;                                           // as QuantiseOptions::metric
  std::int64_t diagnosis_samples = 0;                           // as QuantiseOptions::diagnosis_samples
  std::vector<double> sparsities = {0.5, 0.7, 0.8, 0.9, 0.95};  // of prune_sensitivity
  SessionOptions session;
  std::function<void(std::string_view what, double done)> progress = {};
};

// Fills in the report of a model that was pruned with these options: the metric before and after, and the
// signal-to-noise ratio at the outputs, of the whole and of each layer when it alone is pruned. Throws Error as
// quantise does for its data.
void diagnose_pruning(const Model& before, const Model& after, const OneShotPruneOptions& options,
                      const PruneDiagnosisOptions& diagnosis, PruneReport& report);

struct SensitivityPoint {
  double sparsity = 0;  // that was asked for, or that N:M gives
  double metric = 0;
  std::optional<double> snr_db;
};
struct LayerSensitivity {
  std::string name, label;  // as PrunedLayer's
  std::int64_t weights = 0;
  std::vector<SensitivityPoint> points;  // none where nothing of this layer alone can go
};
struct PruneSensitivity {
  std::string metric;
  double metric_before = 0;
  std::int64_t snr_samples = 0;  // spread over the data, that signal-to-noise ratios are taken over
  std::vector<LayerSensitivity> layers;
};

// Measures what the outputs lose when one layer alone is pruned, for each layer and each of the sparsities. Each of
// these takes a model and a pass over the data. Throws Error as prune and diagnose_pruning do.
PruneSensitivity prune_sensitivity(const Model& model, const OneShotPruneOptions& options,
                                   const PruneDiagnosisOptions& diagnosis);

// Writes the model as the ending of the path says: .onnx, or .tsr with coded weights (docs/package.md). Returns the
// bytes of the file. Throws Error(invalid_argument, io).
std::int64_t write_pruned(const Model& model, const std::string& path);

}  // namespace tessera
