// Cross-validation: the samples are divided into folds, each of which tests the net that was trained on the others.
#pragma once

#include <cstdint>

#include "tessera/train.h"

namespace tessera::compress {

// The data with fold `fold` (from 0) of `folds` as test data and the rest as training data, as arrays. The samples of
// the training data and of the test data, if any, are shuffled together in an order that `seed` determines. Throws
// Error(invalid_argument) for data that are neither .npz files nor arrays, for fields that differ between the two, and
// for fewer samples than folds, and the errors of reading a file.
TrainingData fold_of(const TrainingData& data, std::int64_t folds, std::int64_t fold, std::uint64_t seed);

}  // namespace tessera::compress
