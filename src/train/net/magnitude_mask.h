// Chooses the weights that magnitude pruning keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::train {

// Structured sparsity: of every `group` consecutive weights along the inputs of a layer, at most `kept` are kept
// ("2:4": 2 of 4).
struct KeptOfGroup {
  std::int64_t kept = 0, group = 0;
};
// Parses "N:M"; nothing for "none". Throws Error(invalid_argument) that lists the possible values for other texts.
std::optional<KeptOfGroup> parse_structure(const std::string& structure);

// Masks of float32 weights, true for those that are kept. Among equal magnitudes, the earlier ones are kept, so that
// the number of zeros is exact.

// The mask that is false for the round(sparsity · elements) smallest magnitudes.
Tensor magnitude_mask(const Tensor& weights, double sparsity);
// The masks that are false for the smallest magnitudes among all tensors together: layers with small weights lose more
// of them.
std::vector<Tensor> global_magnitude_masks(const std::vector<Tensor>& weights, double sparsity);
// The mask by groups along `axis`, whose size must be a multiple of the group.
Tensor group_mask(const Tensor& weights, KeptOfGroup structure, std::int64_t axis);

// The weights with zeros where the mask is false.
Tensor masked(const Tensor& weights, const Tensor& mask);
// The fraction of elements that are zero; 0 for an empty tensor.
double sparsity_of(const Tensor& weights);

}  // namespace tessera::train
