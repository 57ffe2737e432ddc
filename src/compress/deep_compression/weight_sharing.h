// Weights of a layer that share a few values: a codebook and each weight's place in it (Han et al., arXiv:1510.00149,
// section 3).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/graph.h"
#include "tessera/tensor.h"

namespace tessera::compress {

// Weight i is codebook[indices[i]]; place 0 of the codebook is 0, and only weights that are zero are there.
struct SharedWeights {
  Tensor codebook;  // f32 [values]
  Tensor indices;   // i32, of the weights' shape

  // The weights that it stands for, where place 0 stays 0 whatever the codebook has there.
  Tensor expand() const;
};

// Divides the weights that are not zero into at most 2^bits clusters by k-means, from centroids at equal distances
// between the least and the greatest weight (section 3.2: others lose the few large weights). Clusters that lose all of
// their weights are left out. `bits`: 1 to 8. Throws Error(invalid_argument) for others, and for weights that are not
// finite.
SharedWeights share_weights(const Tensor& weights, int bits);

// The model with these constants, by name, looked up in their codebooks by its run, so that a training moves the
// codebooks, whose gradients are the sums over their weights (section 3.3). The codebook of NAME, without its zero, is
// the constant NAME/codebook; the zero is NAME/zero, which is not to be trained.
ir::Graph with_shared_weights(ir::Graph model, const std::map<std::string, SharedWeights>& shared);
// Names of the constants that it makes.
std::string codebook_of(const std::string& weight);
std::string zero_of(const std::string& weight);

}  // namespace tessera::compress
