// The number formats in which a device computes.
#pragma once

#include <optional>
#include <string_view>

#include "tessera/dtype.h"

namespace tessera::cost {

// tf32 is stored as float32 and multiplied with 10 bits of fraction.
enum class Precision : std::uint8_t { f32, tf32, f16, bf16, int8 };
inline constexpr Precision kAllPrecisions[] = {Precision::f32, Precision::tf32, Precision::f16, Precision::bf16,
                                               Precision::int8};

std::string_view name_of(Precision precision);  // "f32"
std::optional<Precision> parse_precision(std::string_view text);
DType storage_type(Precision precision);  // tf32 → f32
int storage_bytes(Precision precision);

}  // namespace tessera::cost
