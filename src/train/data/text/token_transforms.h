// Transforms of token numbers; see make_transform.
#pragma once

#include "train/data/transform.h"

namespace tessera::train {

// The label of a position that takes no part in the loss.
inline constexpr std::int64_t kIgnoredLabel = -100;

std::unique_ptr<SampleTransform> make_mask_tokens(double part, std::int64_t mask, std::int64_t vocabulary);

}  // namespace tessera::train
