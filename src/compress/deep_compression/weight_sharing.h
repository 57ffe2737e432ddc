// Weight sharing: the weights of a layer take only a few values, which are stored as a codebook and each weight's index
// in it (Han et al., arXiv:1510.00149, section 3).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/graph.h"
#include "tessera/tensor.h"

namespace tessera::compress {

// Weight i is codebook[indices[i]]. Entry 0 of the codebook is 0, and only zero weights have index 0.
struct SharedWeights {
  Tensor codebook;  // f32 [values]
  Tensor indices;   // i32, of the weights' shape

  // The weights that this stands for. Index 0 gives 0 whatever the codebook's entry is.
  Tensor expand() const;
};

// Divides the nonzero weights into at most 2^bits clusters by k-means, starting from centroids at equal distances
// between the smallest and the largest weight (section 3.2: other starts lose the few large weights). Clusters that
// become empty are left out. `bits` is 1 to 8; throws Error(invalid_argument) for other numbers, and for weights that
// are not finite.
SharedWeights share_weights(const Tensor& weights, int bits);

// The model in which a run looks these constants, given by name, up in their codebooks, so that training changes the
// codebooks. The gradient of a codebook's entry is the sum of the gradients of its weights (section 3.3). The codebook
// of NAME, without its zero, is the constant NAME/codebook; the zero is NAME/zero, which is not to be trained.
ir::Graph with_shared_weights(ir::Graph model, const std::map<std::string, SharedWeights>& shared);
// Names of the constants that with_shared_weights() makes.
std::string codebook_of(const std::string& weight);
std::string zero_of(const std::string& weight);

}  // namespace tessera::compress
