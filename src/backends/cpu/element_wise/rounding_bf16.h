// Conversions of rows between float32 and bfloat16 (bits: the upper half of a float). rounding_bf16_avx512bf16.cpp
// implements them by bfloat16 instructions.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// y = x rounded to the nearest bfloat16, ties to even; NaN stays NaN. Equal bit for bit on every machine, so packed
// weights are rounded by it.
void to_bf16_row(const float* x, std::uint16_t* y, std::int64_t count);
// y[2 i] = even[i], y[2 i + 1] = odd[i], rounded in the same way.
void to_bf16_pairs(const float* even, const float* odd, std::uint16_t* y, std::int64_t count);
// As to_bf16_row, but by an instruction that takes denormals as zero if the machine has it: for values that a layer
// rounds while it runs.
void round_to_bf16_row(const float* x, std::uint16_t* y, std::int64_t count);
// Rounds pixels of three channels, by that instruction, to pixels of four, the last of which is zero. Returns false and
// does nothing if the machine has no such instruction.
bool round_pictures(const float* x, std::uint16_t* y, std::int64_t pixels);
// y = x, exactly.
void from_bf16_row(const std::uint16_t* x, float* y, std::int64_t count);

// To be called only if active_bf16().
void round_to_bf16_row_avx512bf16(const float* x, std::uint16_t* y, std::int64_t count);
void round_pictures_avx512bf16(const float* x, std::uint16_t* y, std::int64_t pixels);

}  // namespace tessera::backends::cpu
