// Which weights magnitude pruning keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tensor.h"

namespace tessera::train {

// Of every `group` weights in a row along the inputs of a layer at most `kept` are kept ("2:4": kept 2 of group 4).
struct KeptOfGroup {
  std::int64_t kept = 0, group = 0;
};
// From "N:M"; nothing for "none". Throws Error(invalid_argument) for other texts, listing what is possible.
std::optional<KeptOfGroup> parse_structure(const std::string& structure);

// The masks (true: kept) of float32 weights. Equal magnitudes are kept in the order of their places, so that the number
// of zeros is exact.

// Of the round(sparsity · elements) smallest magnitudes false.
Tensor magnitude_mask(const Tensor& weights, double sparsity);
// The same over all tensors together: layers with small weights lose more of them.
std::vector<Tensor> global_magnitude_masks(const std::vector<Tensor>& weights, double sparsity);
// Groups run along `axis`, whose size must be a multiple of the group.
Tensor group_mask(const Tensor& weights, KeptOfGroup structure, std::int64_t axis);

// The weights with zeros where the mask is false.
Tensor masked(const Tensor& weights, const Tensor& mask);
// The share of elements that are zero; 0 of an empty tensor.
double sparsity_of(const Tensor& weights);

}  // namespace tessera::train
