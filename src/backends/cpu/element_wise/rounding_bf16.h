// Rows between float32 and bfloat16, whose numbers are the upper halves of floats (bits). rounding_bf16_avx512bf16.cpp
// has the same by instructions for bfloat16.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// y = x rounded to the nearest bfloat16, ties to even; NaN stays NaN. The same bits on every machine, so this rounds
// weights that are packed.
void to_bf16_row(const float* x, std::uint16_t* y, std::int64_t count);
// y[2 i] = even[i], y[2 i + 1] = odd[i], rounded in the same way.
void to_bf16_pairs(const float* even, const float* odd, std::uint16_t* y, std::int64_t count);
// to_bf16_row by an instruction that takes denormals as zero, where the machine has it: for what a layer rounds as it
// runs.
void round_to_bf16_row(const float* x, std::uint16_t* y, std::int64_t count);
// Rounds pixels of three channels, by that instruction, to pixels of four, of which the last is zero. Returns false
// and does nothing where the machine has no such instruction.
bool round_pictures(const float* x, std::uint16_t* y, std::int64_t pixels);
// y = x, exactly.
void from_bf16_row(const std::uint16_t* x, float* y, std::int64_t count);

// Called only where active_bf16() holds.
void round_to_bf16_row_avx512bf16(const float* x, std::uint16_t* y, std::int64_t count);
void round_pictures_avx512bf16(const float* x, std::uint16_t* y, std::int64_t pixels);

}  // namespace tessera::backends::cpu
