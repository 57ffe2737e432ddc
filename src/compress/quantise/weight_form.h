// The form in which a layer's weights are stored if activations stay float32.
#pragma once

#include <cstdint>

#include "compress/quantise/quantisable_layers.h"

namespace tessera::compress {

enum class StoredAs : std::uint8_t {
  blocks,    // com.microsoft::MatMulNBits: 4 or 8 bits in groups along the inputs, of which the last is padded
  channels,  // int8 with one scale per output channel, or per row of a table
  floats,    // unchanged: every other form takes more bytes
};

struct WeightForm {
  StoredAs as = StoredAs::floats;
  int bits = 32;
  std::int64_t group = 0;  // of `blocks`
  std::int64_t bytes = 0;  // including scales and zero points
};

// The form of a layer whose weights have this shape. `bits` is 4 or 8. `group` is the number of weights that share a
// scale; products use it unless a smaller group, or one scale per channel, takes at least a fifth less. A form is
// chosen only if it is smaller than float32.
WeightForm form_of_weights(const QuantisableLayer& layer, const Shape& weights, int bits, std::int64_t group);

}  // namespace tessera::compress
