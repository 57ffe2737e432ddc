// How a cache of keys or values keeps a row of a head in int8.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace tessera::backends::cpu {

// Rounds a row of a head to codes and returns their scale, the largest magnitude / 127.
inline float round_to_bytes(std::span<const float> row, std::int8_t* to) {
  float largest = 0;
  for (const float x : row) largest = std::isnan(x) || std::abs(x) > largest ? std::abs(x) : largest;
  const float scale = largest / 127.0f;
  const bool has_codes = scale > 0 && std::isfinite(scale);
  for (std::size_t i = 0; i < row.size(); ++i)
    to[i] = has_codes ? static_cast<std::int8_t>(std::round(row[i] / scale)) : std::int8_t{0};
  return scale;
}

}  // namespace tessera::backends::cpu
