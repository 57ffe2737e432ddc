// How often labels occur in the training data, and what follows from it for losses and for sampling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/data/dataset.h"

namespace tessera::train {

// Samples that cannot be read count for nothing here. All functions throw Error(invalid_argument) where the data have
// no such field.

// A factor for each class up to the largest label: labels / (classes that occur · labels of the class), as
// sklearn.utils.class_weight.compute_class_weight("balanced") has it, and 1 for classes that do not occur. Throws
// Error(invalid_argument) for labels that are no whole numbers of at least 0; `ignore_index` is no label.
std::vector<double> balanced_class_weights(const Dataset& data, const std::string& field, std::int64_t ignore_index);

// The number of negative targets (0.5 or less) for each positive one: for each position along the first axis of the
// field, or one number for a field without axes. Throws Error(invalid_argument) where nothing is positive.
std::vector<double> balanced_pos_weight(const Dataset& data, const std::string& field);

// For each sample 1 / the number of samples of its class; 0 where its label is `ignore_index`. Throws
// Error(invalid_argument) unless a sample has one label, a whole number.
std::vector<double> balanced_sample_weights(const Dataset& data, const std::string& field, std::int64_t ignore_index);

// The field as a weight for each sample. Throws Error(invalid_argument) unless a sample has one number of at least 0,
// and some are above 0.
std::vector<double> sample_weights(const Dataset& data, const std::string& field);

}  // namespace tessera::train
