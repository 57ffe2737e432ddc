#include "compress/quantise/weight_form.h"

#include <algorithm>

#include "base/numbers/checked.h"

namespace tessera::compress {
namespace {

constexpr std::int64_t kFloatBytes = 4, kLeastGroup = 16;

WeightForm in_channels(const QuantisableLayer& layer, const Shape& weights) {
  // The zero points of tables are left out; those of layers are written because other programs need them.
  const std::int64_t of_channel = layer.kind == LayerKind::table ? kFloatBytes : kFloatBytes + 1;
  return {StoredAs::channels, 8, 0,
          element_count(weights) + of_channel * weights[static_cast<std::size_t>(layer.axis)]};
}

WeightForm in_blocks(const QuantisableLayer& layer, const Shape& weights, int bits, std::int64_t group) {
  const std::int64_t outputs = weights[static_cast<std::size_t>(layer.axis)],
                     inputs = weights[static_cast<std::size_t>(1 - layer.axis)];
  const std::int64_t blocks = base::ceil_divide(inputs, group);
  return {StoredAs::blocks, bits, group, outputs * blocks * (group / 8 * bits + kFloatBytes)};
}

}  // namespace

WeightForm form_of_weights(const QuantisableLayer& layer, const Shape& weights, int bits, std::int64_t group) {
  constexpr double kMostExcess = 1.25;
  WeightForm best = in_channels(layer, weights);
  if (layer.kind == LayerKind::product) {
    std::int64_t least = best.bytes;
    for (std::int64_t each = group; each >= kLeastGroup; each /= 2)
      least = std::min(least, in_blocks(layer, weights, bits, each).bytes);
    for (std::int64_t each = group; each >= kLeastGroup; each /= 2) {
      const WeightForm blocks = in_blocks(layer, weights, bits, each);
      if (static_cast<double>(blocks.bytes) > kMostExcess * static_cast<double>(least)) continue;
      best = blocks;
      break;
    }
  }
  const std::int64_t floats = kFloatBytes * element_count(weights);
  return best.bytes < floats ? best : WeightForm{StoredAs::floats, 32, 0, floats};
}

}  // namespace tessera::compress
