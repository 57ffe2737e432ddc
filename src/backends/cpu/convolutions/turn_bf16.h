// Transposes and interleaves rows of bfloat16 numbers (bits), as products need them.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

inline constexpr std::int64_t kRowsTurnedTogether = 32;

// Transposes: to[c * stride + i] = rows[i][c] for i < kRowsTurnedTogether, c < count.
void turn_rows_bf16(const std::uint16_t* const* rows, std::int64_t count, std::uint16_t* to, std::int64_t stride);

// Interleaves: to[2 c] = even[c], to[2 c + 1] = odd[c].
void pair_rows_bf16(const std::uint16_t* even, const std::uint16_t* odd, std::int64_t count, std::uint16_t* to);

}  // namespace tessera::backends::cpu
