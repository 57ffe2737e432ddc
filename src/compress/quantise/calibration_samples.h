// Reads samples of calibration data, batch by batch.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tessera/quantise.h"

namespace tessera::compress {

struct SampleBatch {
  NamedValues inputs;
  Tensor labels;  // none, or [samples, …]
  std::int64_t samples = 0;
};

// Calls `each` with batches until the data end or it returns false. Throws Error(invalid_argument) that names the file
// for data that the model does not accept: arrays of unknown names, missing inputs, other element types or shapes, no
// samples at all, NaN and infinities; throws Error(not_found) and Error(io) for files.
void read_samples(const Model& model, const CalibrationData& data, const std::function<bool(const SampleBatch&)>& each);

// As read_samples, but reads about `most_samples` samples: one at a random position in each of as many equal parts of
// the data, the same ones for the same data. Samples that one run takes stay together. Returns the number of samples in
// the data.
std::int64_t read_spread_samples(const Model& model, const CalibrationData& data, std::int64_t most_samples,
                                 const std::function<bool(const SampleBatch&)>& each);

}  // namespace tessera::compress
