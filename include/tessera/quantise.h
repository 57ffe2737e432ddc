// Quantises a trained model to make it smaller and faster, and reports what each layer loses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/compression_costs.h"
#include "tessera/model.h"
#include "tessera/session.h"

namespace tessera {

// The samples from which the ranges of activations are taken, and on which the metric is computed.
struct CalibrationData {
  // An .npz file whose arrays have the names of the model's inputs, a folder of .npz and .npy files or of images, or a
  // .toml file that names one of these (docs/quantisation.md). Files are read one after the other: memory does not grow
  // with the number of samples. With one folder per class, the folders give the labels.
  std::string path;
  std::string normalise;          // for images: none, 0-1, -1-1 or imagenet; see `tessera run --normalise`
  std::string labels;             // the array with the labels; empty: "labels", "label" or "y", if present
  std::int64_t batch = 8;         // samples per run, where the model leaves the number open
  std::int64_t most_samples = 0;  // 0: all
};

enum class RangeEstimator : std::uint8_t { automatic, min_max, percentile, mse, kl };

struct QuantiseOptions {
  std::string weights = "int8";  // or int4: weight-only
  bool full = false;             // activations too: int8 weights per channel, uint8 activations per tensor
  // The number of weights along the inputs of a product that share a scale: 16, 32, 64, 128 or 256; 0: 32 with int4,
  // 128 with int8. A layer whose weights would become larger gets smaller groups, one scale per output channel, or
  // stays in float.
  std::int64_t group = 0;
  CalibrationData data;  // needed for `full`, for a metric and for a diagnosis
  // automatic: the estimator whose outputs are closest to those of the float model on the samples of the diagnosis
  RangeEstimator estimator = RangeEstimator::automatic;
  double percentile = 99.99;     // percentage of the values that lie within the range
  bool correct_bias = true;      // corrects the mean error of rounding the weights
  bool correct_variance = true;  // of each channel's weights; kept only where the outputs become closer
  // Whether to equalise the ranges of channels across layers and in front of products (SmoothQuant). Each of the two is
  // kept only where the outputs become closer.
  bool equalise = true;
  // Rounds weights up or down so that the outputs of their layer change least on the calibration data (AdaRound,
  // arXiv:2004.10568) instead of to the nearest integers; kept only where the model's outputs become closer. Takes
  // seconds to minutes: `rounding_steps` steps of an optimiser per layer.
  bool adaptive_rounding = false;
  int rounding_steps = 500;
  std::vector<std::string> exclude;  // patterns of names of layers that stay in float: "conv1*"
  bool diagnose = true;              // the signal-to-noise ratio of each layer alone; always with max_drop
  // The number of samples, spread over the data, on which schemes and single layers are judged; 0: 32 to 512, depending
  // on the time of a run.
  std::int64_t diagnosis_samples = 0;
  // Keeps layers in float, those with the largest loss first, until the metric is at most this much worse than that of
  // the float model.
  std::optional<double> max_drop;
  // A metric of trainings (accuracy, f1 …; they need labels), agreement (the share of samples or positions whose
  // largest score stays in its place), cosine, snr, or "command:…" (also a path with a slash): a command that gets the
  // path of an .npz with the outputs by name and "labels" if there are some, and prints one number. Empty: accuracy
  // with labels that are classes; without labels agreement where outputs are scores of classes; else cosine.
  std::string metric;
  SessionOptions session;
  std::function<void(std::string_view what, double done)> progress = {};
};

// A layer whose weights can be quantised.
struct QuantisedLayer {
  std::string name, op;
  std::int64_t weights = 0;  // parameters
  std::int64_t bytes_before = 0, bytes_after = 0;
  std::optional<double> snr_db;  // at the outputs when this layer alone is quantised; infinite without a difference
  double input_low = 0, input_high = 0;  // the range of its data, of a full quantisation
  // By how much adaptive rounding lowers the squared error of the layer's own outputs.
  std::optional<double> rounding_gain_db;
  bool quantised = false;
  std::string reason;  // why not
};

// A step of the search for layers that stay in float.
struct ExclusionStep {
  std::int64_t excluded = 0;
  double metric = 0;
};

struct QuantiseReport : CompressionCosts {
  std::string scheme;     // "full int8", "weight-only int4, groups of 32"
  std::string estimator;  // that was taken
  // Signal-to-noise ratio of the best scheme with each estimator that was tried, over diagnosis_samples.
  std::map<std::string, double> estimator_snr_db;
  bool equalised = false, smoothed = false;  // across layers, and in front of products
  bool bias_corrected = false, variance_corrected = false;
  std::optional<bool> adaptively_rounded;  // whether that was kept, where it was asked for
  std::int64_t samples = 0;                // of the calibration
  std::vector<QuantisedLayer> layers;      // with a diagnosis the worst first
  std::optional<double> max_drop;
  std::vector<ExclusionStep> steps;
};

struct QuantisedModel {
  Model model;
  QuantiseReport report;
};

// The model as QuantizeLinear and DequantizeLinear pairs around its layers (`full`), or with weights in 8 or 4 bits and
// everything else as it was. Throws Error: invalid_argument (options, calibration data that do not fit the model or
// hold NaN or infinities, max_drop that even the float model misses), not_found, io, unsupported.
QuantisedModel quantise(const Model& model, const QuantiseOptions& options);

// "minmax", "percentile", "mse", "kl", "auto". Throws Error(invalid_argument).
RangeEstimator parse_range_estimator(std::string_view name);
std::string_view name_of(RangeEstimator estimator);

}  // namespace tessera
