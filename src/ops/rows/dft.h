// DFT and STFT: discrete Fourier transforms, whole and windowed.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef dft;
extern const OpDef stft;

// The parameters of a DFT node. `length` is dft_length; below 0 while unknown.
struct DftRequest {
  std::int64_t axis = 0, length = -1;
  bool inverse = false, onesided = false;
};
// `dft_length` and `axis` may be null. Throws Error(invalid_model) when they do not fit the input [..., 1 or 2].
DftRequest dft_request(const AttributeReader& reader, const ir::Dims& input, const Tensor* dft_length,
                       const Tensor* axis);
ir::Dims dft_dims(const ir::Dims& input, const DftRequest& request);

// The frames and lengths of an STFT of a signal [batch, samples] or [batch, samples, 1 or 2]; null: absent input.
struct StftRequest {
  std::int64_t step = 1, frame_length = 0, frames = 0, bins = 0;
};
StftRequest stft_request(const AttributeReader& reader, const Shape& signal, const Tensor& frame_step,
                         const Tensor* frame_length, std::optional<std::int64_t> window_length);

}  // namespace tessera::ops
