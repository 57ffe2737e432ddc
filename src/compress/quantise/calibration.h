// Statistics of a float model's activations on calibration data.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "compress/quantise/calibration_samples.h"
#include "compress/quantise/insert_quantisation.h"

namespace tessera::compress {

struct ChannelStatistics {
  std::vector<double> sums;
  std::vector<float> largest;  // magnitudes
  std::int64_t count = 0;      // number of values of each channel
};

struct Calibration {
  std::map<ir::ValueId, ValueHistogram> histograms;
  std::map<ir::ValueId, ChannelStatistics> channels;  // for the data of layers
  std::int64_t samples = 0;

  ActivationRanges ranges(RangeEstimator estimator, double percentile) const;
};

// Runs the graph on the data and keeps histograms of its activations. Throws Error as read_samples and sessions do, and
// Error(invalid_argument) if the model itself computes NaN or infinities.
Calibration calibrate(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers, const CalibrationData& data,
                      const SessionOptions& session, const std::function<void(std::int64_t samples)>& progress);

// Runs the graph on the data, batch after batch, until they end or `each` returns false. If `most_samples` is not 0,
// takes about so many, spread over the data. `each` gets the tensors of `values`, in their order, which are valid until
// it returns. Throws Error as calibrate does.
void observe(const ir::Graph& graph, const std::vector<ir::ValueId>& values, const CalibrationData& data,
             std::int64_t most_samples, const SessionOptions& session,
             const std::function<bool(const SampleBatch&, const std::vector<Tensor>&)>& each);

}  // namespace tessera::compress
