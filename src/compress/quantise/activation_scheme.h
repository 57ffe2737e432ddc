// Searches for the choices of a full quantisation that bring the outputs closest to the float model's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "compress/core/reference_outputs.h"
#include "compress/quantise/calibration.h"
#include "compress/quantise/equalise_channels.h"

namespace tessera::compress {

struct ActivationScheme {
  RangeEstimator estimator = RangeEstimator::min_max;
  bool equalised = false, smoothed = false;  // across layers; and in front of products too
  std::shared_ptr<const ir::Graph> graph;    // equalised, or the original one
  ActivationRanges ranges;                   // of the graph's values
  InsertOptions insert;
  double snr_db = 0;  // of the outputs on the reference's samples
};

struct SchemeSearch {
  ActivationScheme best;
  std::map<std::string, double> snr_db;  // of the best scheme with each estimator that was tried
  std::int64_t samples = 0;              // number of samples that the graph was calibrated on
};

// Tries each estimator that the options leave open, together with equalised channels, corrected biases and corrected
// variances, each of which is kept only if the outputs come closer. So the result is no worse than any single
// estimator. Throws Error as calibrate does.
SchemeSearch choose_scheme(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                           const std::set<std::size_t>& selected, const QuantiseOptions& options,
                           const ReferenceOutputs& reference);

}  // namespace tessera::compress
