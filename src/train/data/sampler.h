// The order in which samples are taken.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::train {

// The order of one epoch: a permutation of [0, size) that depends on nothing but the seed and the number of the epoch
// (Fisher and Yates's shuffle with numbers of Philox), or the order of the source.
std::vector<std::int64_t> epoch_order(std::int64_t size, bool shuffle, std::uint64_t seed, std::int64_t epoch);

// As many samples as there are weights, drawn with replacement in proportion to them, which are at least 0 with a
// positive sum. It too depends on nothing but its arguments.
std::vector<std::int64_t> weighted_order(const std::vector<double>& weights, std::uint64_t seed, std::int64_t epoch);

}  // namespace tessera::train
