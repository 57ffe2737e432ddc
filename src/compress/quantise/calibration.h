// Statistics of a float model's activations over calibration data.
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
  std::int64_t count = 0;      // of values for each channel
};

struct Calibration {
  std::map<ir::ValueId, ValueHistogram> histograms;
  std::map<ir::ValueId, ChannelStatistics> channels;  // of the data of layers
  std::int64_t samples = 0;

  ActivationRanges ranges(RangeEstimator estimator, double percentile) const;
};

// Runs the graph on the data, keeping histograms alone. Throws Error as read_samples and sessions do, and
// invalid_argument where the model itself computes NaN or infinities.
Calibration calibrate(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers, const CalibrationData& data,
                      const SessionOptions& session, const std::function<void(std::int64_t samples)>& progress);

// Runs the graph on the data, batch after batch, until they end or `each` returns false; on about `most_samples` that
// are spread over the data, where that is not 0. `each` gets the tensors of the values, in their order, which live
// until it returns. Throws Error as calibrate does.
void observe(const ir::Graph& graph, const std::vector<ir::ValueId>& values, const CalibrationData& data,
             std::int64_t most_samples, const SessionOptions& session,
             const std::function<bool(const SampleBatch&, const std::vector<Tensor>&)>& each);

}  // namespace tessera::compress
