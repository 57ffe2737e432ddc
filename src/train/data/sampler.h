// Determines the order in which samples are taken.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::train {

// The order of one epoch: a random permutation of [0, size) that depends only on the seed and the epoch's number
// (Fisher-Yates shuffle with Philox numbers), or the order of the source.
std::vector<std::int64_t> epoch_order(std::int64_t size, bool shuffle, std::uint64_t seed, std::int64_t epoch);

// As many samples as there are weights, drawn with replacement in proportion to these. Weights must be at least 0 with
// a positive sum. The result depends on the arguments alone.
std::vector<std::int64_t> weighted_order(const std::vector<double>& weights, std::uint64_t seed, std::int64_t epoch);

}  // namespace tessera::train
