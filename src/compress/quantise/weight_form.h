// In which form the weights of a layer are stored when activations stay float32.
#pragma once

#include <cstdint>

#include "compress/quantise/quantisable_layers.h"

namespace tessera::compress {

enum class StoredAs : std::uint8_t {
  blocks,    // com.microsoft::MatMulNBits: 4 or 8 bits in groups along the inputs, the last of which is padded
  channels,  // int8 with a scale for each output channel, of a table for each row
  floats,    // as they are: every other form takes more bytes
};

struct WeightForm {
  StoredAs as = StoredAs::floats;
  int bits = 32;
  std::int64_t group = 0;  // of blocks
  std::int64_t bytes = 0;  // with scales and zero points
};

// The form of a layer whose weights have this shape. `bits`: 4 or 8; `group`: the weights that share a scale, which is
// what a product gets unless a smaller group, or a scale for each channel, takes at least a fifth less. A form is taken
// only where it is smaller than float32.
WeightForm form_of_weights(const QuantisableLayer& layer, const Shape& weights, int bits, std::int64_t group);

}  // namespace tessera::compress
