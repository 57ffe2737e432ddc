// Replaces bytes by entries of a table. Self-contained, as indirect_product_s8.h.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// y[i] = table[x[i]], with 256 entries; y may be x.
using LookUpBytes = void (*)(const std::uint8_t* x, std::uint8_t* y, std::int64_t count, const std::uint8_t* table);

void look_up_bytes_scalar(const std::uint8_t* x, std::uint8_t* y, std::int64_t count, const std::uint8_t* table);
void look_up_bytes_vbmi(const std::uint8_t* x, std::uint8_t* y, std::int64_t count, const std::uint8_t* table);
// Returns the function of the active instruction set.
LookUpBytes look_up_bytes();

}  // namespace tessera::backends::cpu
