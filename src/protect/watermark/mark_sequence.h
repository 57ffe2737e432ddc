// The secret signs of a watermark.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "protect/secret.h"
#include "tessera/tensor.h"

namespace tessera::protect {

// Returns a sign, +1 or -1, for each element of a weight of this canonical shape (marked_weights.h): a pseudorandom
// function of the key, the identity and the shape (keyed BLAKE2b, then the ChaCha20 stream).
std::vector<std::int8_t> mark_sequence(const Secret& key, std::string_view identity, const Shape& shape);

}  // namespace tessera::protect
