// HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix: weights for spectra.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef hann_window;
extern const OpDef hamming_window;
extern const OpDef blackman_window;
extern const OpDef mel_weight_matrix;

// A count given as a one-element tensor; throws Error(failed) below 0 or from 2^40 on.
std::int64_t positive_count(const Tensor& tensor, std::string_view name);

}  // namespace tessera::ops
