// Counts how often labels occur in the training data, to balance losses and sampling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/data/dataset.h"

namespace tessera::train {

// Samples that cannot be read are not counted. All functions throw Error(invalid_argument) if the data have no such
// field.

// A factor for each class up to the largest label: labels / (number of occurring classes · labels of the class), as
// sklearn.utils.class_weight.compute_class_weight("balanced"), and 1 for classes that do not occur. Throws
// Error(invalid_argument) for labels that are not whole numbers of at least 0; `ignore_index` does not count as a
// label.
std::vector<double> balanced_class_weights(const Dataset& data, const std::string& field, std::int64_t ignore_index);

// The number of negative targets (0.5 or less) per positive one, for each position along the first axis of the field,
// or one number for a field without axes. Throws Error(invalid_argument) if a position has no positive target.
std::vector<double> balanced_pos_weight(const Dataset& data, const std::string& field);

// For each sample, 1 / the number of samples of its class; 0 if its label is `ignore_index`. Throws
// Error(invalid_argument) unless each sample has one label, which must be a whole number.
std::vector<double> balanced_sample_weights(const Dataset& data, const std::string& field, std::int64_t ignore_index);

// The field as a weight for each sample. Throws Error(invalid_argument) unless each sample has one number of at least
// 0, and at least one is above 0.
std::vector<double> sample_weights(const Dataset& data, const std::string& field);

}  // namespace tessera::train
