// Samples of calibration data, read one batch after the other.
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
// for data that the model does not take: arrays of unknown names, missing inputs, other element types or shapes, no
// samples at all, NaN and infinities; not_found and io for files.
void read_samples(const Model& model, const CalibrationData& data, const std::function<bool(const SampleBatch&)>& each);

// As read_samples, but with about `most_samples` samples, of which one lies at a random place of each of as many equal
// parts of the data: the same ones for the same data. Samples that one run takes stay together. Returns how many
// samples the data have.
std::int64_t read_spread_samples(const Model& model, const CalibrationData& data, std::int64_t most_samples,
                                 const std::function<bool(const SampleBatch&)>& each);

}  // namespace tessera::compress
