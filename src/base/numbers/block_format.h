// The formats in which language models store their weights: rows of elements in blocks, each with its own scale, byte
// for byte as in GGUF files. The float32, float16 and bfloat16 formats have blocks of one element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tessera::base {

enum class BlockFormat : std::uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};

struct BlockLayout {
  BlockFormat format;
  std::string_view name;  // in lower case: "q4_k"
  std::int64_t elements;  // of a block
  std::int64_t bytes;     // of a block
};

// All formats, in the order of the enumeration.
std::span<const BlockLayout> block_layouts();
const BlockLayout& layout_of(BlockFormat format);
// Nothing when the name is that of no format.
std::optional<BlockFormat> block_format_from_name(std::string_view name);

// Bytes of a row of `elements`. Throws Error(invalid_model) unless they are a multiple of the block, and
// Error(over_budget) on overflow.
std::int64_t row_bytes(BlockFormat format, std::int64_t elements);

// The sixteen values that 4-bit codes of iq4_nl and iq4_xs stand for.
inline constexpr std::int8_t kNonLinearValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                     1,    13,   25,  38,  53,  69,  89,  113};
// Twice the values of float4 (e2m1) codes, of which mxfp4 consists.
inline constexpr std::int8_t kDoubledFloat4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The 6-bit scale and minimum of sub-block `index` (0 to 7) in the 12 bytes that q4_k and q5_k pack them in.
struct ScaleAndMinimum {
  std::uint8_t scale, minimum;
};
inline ScaleAndMinimum packed_scale(const std::uint8_t* packed, int index) {
  if (index < 4)
    return {static_cast<std::uint8_t>(packed[index] & 63), static_cast<std::uint8_t>(packed[index + 4] & 63)};
  return {static_cast<std::uint8_t>((packed[index + 4] & 15) | (packed[index - 4] >> 6) << 4),
          static_cast<std::uint8_t>((packed[index + 4] >> 4) | (packed[index] >> 6) << 4)};
}

// The elements of whole blocks in float32, each product and each sum rounded once, as ggml's reference rounds them:
// d·q + m, and (d·s)·q − (m·n) for formats with scales of sub-blocks. Throws Error(invalid_argument) unless `to` holds
// as many elements as the blocks.
void dequantize(BlockFormat format, std::span<const std::byte> blocks, std::span<float> to);

// The elements of one block as small integers: element e is scales[e / group] · codes[e] + offsets[e / group], up to
// the rounding of dequantize. Codes lie in [−128, 127].
struct CodedBlock {
  static constexpr std::int64_t kMostElements = 256, kMostGroups = 16;
  std::int8_t codes[kMostElements];
  float scales[kMostGroups];
  float offsets[kMostGroups];
};
// The elements that share a scale: 32, or 16 in formats whose sub-blocks are smaller; 0 for formats without codes
// (float32, float16, bfloat16).
std::int64_t group_of(BlockFormat format);
// Decodes one block of a format with codes.
void decode_block(BlockFormat format, const std::byte* block, CodedBlock& to);

}  // namespace tessera::base
