// Learns a small dictionary of vectors for the kernels of a convolution, such that each kernel's vector at each tap is
// a combination of a few of them.
#pragma once

#include <cstdint>

#include "tessera/tensor.h"

namespace tessera::compress {

// Laid out as the operands of tessera::DictionaryConv (ops/convolutions/dictionary_conv.h).
struct LearnedDictionary {
  Tensor vectors;       // f32 [vectors, channels], each of length 1
  Tensor indices;       // i32 [outputs, terms, kernel...]
  Tensor coefficients;  // f32, of the same shape; 0 where fewer terms suffice
  double error = 0;     // |kernels − combinations| / |kernels| in the Frobenius norm
};

// `kernels` [outputs, channels, kernel...] must be finite float32 numbers. The dictionary has at most `vectors`
// vectors, and no more than there are pairs of a kernel and a tap; a combination has at most `terms` terms. Starts from
// clusters of directions (k-means by the absolute cosine) and alternates orthogonal matching pursuit (Pati et al.,
// 1993) with the method of optimal directions (Engan et al., 1999): the best coefficients for the vectors, then the
// best vectors for the coefficients. The result depends on the arguments alone.
LearnedDictionary learn_dictionary(const Tensor& kernels, std::int64_t vectors, std::int64_t terms);

}  // namespace tessera::compress
