#include "base/numbers/block_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "base/numbers/checked.h"
#include "base/numbers/half.h"

namespace tessera::base {
namespace {

constexpr BlockLayout kLayouts[] = {
    {BlockFormat::f32, "f32", 1, 4},           {BlockFormat::f16, "f16", 1, 2},
    {BlockFormat::bf16, "bf16", 1, 2},         {BlockFormat::q4_0, "q4_0", 32, 18},
    {BlockFormat::q4_1, "q4_1", 32, 20},       {BlockFormat::q5_0, "q5_0", 32, 22},
    {BlockFormat::q5_1, "q5_1", 32, 24},       {BlockFormat::q8_0, "q8_0", 32, 34},
    {BlockFormat::q2_k, "q2_k", 256, 84},      {BlockFormat::q3_k, "q3_k", 256, 110},
    {BlockFormat::q4_k, "q4_k", 256, 144},     {BlockFormat::q5_k, "q5_k", 256, 176},
    {BlockFormat::q6_k, "q6_k", 256, 210},     {BlockFormat::iq4_nl, "iq4_nl", 32, 18},
    {BlockFormat::iq4_xs, "iq4_xs", 256, 136}, {BlockFormat::mxfp4, "mxfp4", 32, 17},
};
static_assert([] {
  for (std::size_t i = 0; i < std::size(kLayouts); ++i)
    if (static_cast<std::size_t>(kLayouts[i].format) != i) return false;
  return true;
}());

template <typename T>
T load(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

float half_at(const std::uint8_t* bytes) {
  return to_float(load<f16_t>(bytes));
}

// In blocks of 32, byte j of 16 holds the 4-bit codes of elements j (low) and j + 16 (high).
int split_code(const std::uint8_t* codes, int e) {
  return e < 16 ? codes[e] & 15 : codes[e - 16] >> 4;
}

void decode_f32(const std::uint8_t* block, float* to) {
  *to = load<float>(block);
}
void decode_f16(const std::uint8_t* block, float* to) {
  *to = half_at(block);
}
void decode_bf16(const std::uint8_t* block, float* to) {
  *to = to_float(load<bf16_t>(block));
}

void decode_q4_0(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int e = 0; e < 32; ++e) to[e] = d * static_cast<float>(split_code(block + 2, e) - 8);
}

void decode_q4_1(const std::uint8_t* block, float* to) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int e = 0; e < 32; ++e) to[e] = d * static_cast<float>(split_code(block + 4, e)) + m;
}

void decode_q5_0(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  const auto fifth = load<std::uint32_t>(block + 2);
  for (int e = 0; e < 32; ++e)
    to[e] = d * static_cast<float>((split_code(block + 6, e) | static_cast<int>(fifth >> e & 1) << 4) - 16);
}

void decode_q5_1(const std::uint8_t* block, float* to) {
  const float d = half_at(block), m = half_at(block + 2);
  const auto fifth = load<std::uint32_t>(block + 4);
  for (int e = 0; e < 32; ++e)
    to[e] = d * static_cast<float>(split_code(block + 8, e) | static_cast<int>(fifth >> e & 1) << 4) + m;
}

void decode_q8_0(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int e = 0; e < 32; ++e) to[e] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + e]));
}

// In blocks of 256: the half that an element lies in, its group of 32 there, and its place in the group.
struct Place {
  explicit Place(int e) : half(e / 128), group(e % 128 / 32), in_group(e % 32) {}
  int half, group, in_group;
};

void decode_q2_k(const std::uint8_t* block, float* to) {
  const std::uint8_t *scales = block, *codes = block + 16;
  const float d = half_at(block + 80), m = half_at(block + 82);
  for (int e = 0; e < 256; ++e) {
    const Place at(e);
    const int code = codes[32 * at.half + at.in_group] >> (2 * at.group) & 3, scale = scales[e / 16];
    to[e] = d * static_cast<float>(scale & 15) * static_cast<float>(code) - m * static_cast<float>(scale >> 4);
  }
}

void decode_q3_k(const std::uint8_t* block, float* to) {
  const std::uint8_t *high = block, *codes = block + 32, *scales = block + 96;
  const float d = half_at(block + 108);
  for (int e = 0; e < 256; ++e) {
    const Place at(e);
    const int k = e / 16, low = k < 8 ? scales[k] & 15 : scales[k - 8] >> 4;
    const int scale = low | (scales[8 + k % 4] >> (2 * (k / 4)) & 3) << 4;
    const bool third = (high[at.in_group] >> (4 * at.half + at.group) & 1) != 0;
    const int code = (codes[32 * at.half + at.in_group] >> (2 * at.group) & 3) - (third ? 0 : 4);
    to[e] = d * static_cast<float>(scale - 32) * static_cast<float>(code);
  }
}

// `fifth` is null where codes have four bits.
void decode_scaled_codes(float d, float m, const std::uint8_t* scales, const std::uint8_t* codes,
                         const std::uint8_t* fifth, float* to) {
  for (int e = 0; e < 256; ++e) {
    const int j = e / 32;
    const auto [scale, minimum] = packed_scale(scales, j);
    int code = codes[32 * (j / 2) + e % 32] >> (4 * (j % 2)) & 15;
    if (fifth != nullptr) code |= (fifth[e % 32] >> j & 1) << 4;
    to[e] = d * static_cast<float>(scale) * static_cast<float>(code) - m * static_cast<float>(minimum);
  }
}

void decode_q4_k(const std::uint8_t* block, float* to) {
  decode_scaled_codes(half_at(block), half_at(block + 2), block + 4, block + 16, nullptr, to);
}

void decode_q5_k(const std::uint8_t* block, float* to) {
  decode_scaled_codes(half_at(block), half_at(block + 2), block + 4, block + 48, block + 16, to);
}

void decode_q6_k(const std::uint8_t* block, float* to) {
  const std::uint8_t *lows = block, *highs = block + 128;
  const float d = half_at(block + 208);
  for (int e = 0; e < 256; ++e) {
    const Place at(e);
    const int low = lows[64 * at.half + 32 * (at.group % 2) + at.in_group] >> (4 * (at.group / 2)) & 15;
    const int high = highs[32 * at.half + at.in_group] >> (2 * at.group) & 3;
    const auto scale = static_cast<std::int8_t>(block[192 + e / 16]);
    to[e] = d * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
  }
}

void decode_iq4_nl(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  for (int e = 0; e < 32; ++e) to[e] = d * static_cast<float>(kNonLinearValues[split_code(block + 2, e)]);
}

void decode_iq4_xs(const std::uint8_t* block, float* to) {
  const float d = half_at(block);
  const auto highs = load<std::uint16_t>(block + 2);
  const std::uint8_t *lows = block + 4, *codes = block + 8;
  for (int e = 0; e < 256; ++e) {
    const int j = e / 32;
    const int scale = (lows[j / 2] >> (4 * (j % 2)) & 15) | (highs >> (2 * j) & 3) << 4;
    to[e] =
        d * static_cast<float>(scale - 32) * static_cast<float>(kNonLinearValues[split_code(codes + 16 * j, e % 32)]);
  }
}

// 2^(exponent - 128), which is denormal below an exponent of 2.
float half_power(std::uint8_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? std::uint32_t{0x00200000} << exponent
                                           : static_cast<std::uint32_t>(exponent - 1) << 23);
}

void decode_mxfp4(const std::uint8_t* block, float* to) {
  const float d = half_power(block[0]);
  for (int e = 0; e < 32; ++e) to[e] = d * static_cast<float>(kDoubledFloat4[split_code(block + 1, e)]);
}

// --- codes ---

void split_codes(const std::uint8_t* from, std::int8_t* low, std::int8_t* high) {
  for (int i = 0; i < 16; ++i) {
    low[i] = static_cast<std::int8_t>(from[i] & 15);
    high[i] = static_cast<std::int8_t>(from[i] >> 4);
  }
}

template <typename Change>
void change_codes(std::int8_t* codes, int count, Change change) {
  for (int e = 0; e < count; ++e) codes[e] = static_cast<std::int8_t>(change(codes[e], e));
}

void set_one_group(CodedBlock& to, float scale, float offset) {
  to.scales[0] = scale;
  to.offsets[0] = offset;
}

void code_q4_0(const std::uint8_t* block, CodedBlock& to) {
  split_codes(block + 2, to.codes, to.codes + 16);
  change_codes(to.codes, 32, [](int code, int) { return code - 8; });
  set_one_group(to, half_at(block), 0);
}

void code_q4_1(const std::uint8_t* block, CodedBlock& to) {
  split_codes(block + 4, to.codes, to.codes + 16);
  set_one_group(to, half_at(block), half_at(block + 2));
}

void code_q5_0(const std::uint8_t* block, CodedBlock& to) {
  const auto fifth = load<std::uint32_t>(block + 2);
  split_codes(block + 6, to.codes, to.codes + 16);
  change_codes(to.codes, 32, [&](int code, int e) { return code + static_cast<int>(fifth >> e & 1) * 16 - 16; });
  set_one_group(to, half_at(block), 0);
}

void code_q5_1(const std::uint8_t* block, CodedBlock& to) {
  const auto fifth = load<std::uint32_t>(block + 4);
  split_codes(block + 8, to.codes, to.codes + 16);
  change_codes(to.codes, 32, [&](int code, int e) { return code + static_cast<int>(fifth >> e & 1) * 16; });
  set_one_group(to, half_at(block), half_at(block + 2));
}

void code_q8_0(const std::uint8_t* block, CodedBlock& to) {
  std::memcpy(to.codes, block + 2, 32);
  set_one_group(to, half_at(block), 0);
}

void code_q2_k(const std::uint8_t* block, CodedBlock& to) {
  const float d = half_at(block + 80), m = half_at(block + 82);
  for (int group = 0; group < 8; ++group) {
    const std::uint8_t* codes = block + 16 + 32 * (group / 4);
    for (int i = 0; i < 32; ++i) to.codes[32 * group + i] = static_cast<std::int8_t>(codes[i] >> (2 * (group % 4)) & 3);
  }
  for (int k = 0; k < 16; ++k) {
    to.scales[k] = d * static_cast<float>(block[k] & 15);
    to.offsets[k] = -(m * static_cast<float>(block[k] >> 4));
  }
}

void code_q3_k(const std::uint8_t* block, CodedBlock& to) {
  const std::uint8_t *high = block, *scales = block + 96;
  const float d = half_at(block + 108);
  for (int group = 0; group < 8; ++group) {
    const std::uint8_t* codes = block + 32 + 32 * (group / 4);
    for (int i = 0; i < 32; ++i) {
      const int third = high[i] >> group & 1;
      to.codes[32 * group + i] = static_cast<std::int8_t>((codes[i] >> (2 * (group % 4)) & 3) + 4 * third - 4);
    }
  }
  for (int k = 0; k < 16; ++k) {
    const int low = k < 8 ? scales[k] & 15 : scales[k - 8] >> 4;
    to.scales[k] = d * static_cast<float>((low | (scales[8 + k % 4] >> (2 * (k / 4)) & 3) << 4) - 32);
    to.offsets[k] = 0;
  }
}

// `fifth` is null where codes have four bits.
void code_scaled(float d, float m, const std::uint8_t* scales, const std::uint8_t* codes, const std::uint8_t* fifth,
                 CodedBlock& to) {
  for (int j = 0; j < 8; ++j) {
    for (int i = 0; i < 32; ++i) {
      const int high = fifth == nullptr ? 0 : (fifth[i] >> j & 1) << 4;
      to.codes[32 * j + i] = static_cast<std::int8_t>((codes[32 * (j / 2) + i] >> (4 * (j % 2)) & 15) | high);
    }
    const auto [scale, minimum] = packed_scale(scales, j);
    to.scales[j] = d * static_cast<float>(scale);
    to.offsets[j] = -(m * static_cast<float>(minimum));
  }
}

void code_q4_k(const std::uint8_t* block, CodedBlock& to) {
  code_scaled(half_at(block), half_at(block + 2), block + 4, block + 16, nullptr, to);
}

void code_q5_k(const std::uint8_t* block, CodedBlock& to) {
  code_scaled(half_at(block), half_at(block + 2), block + 4, block + 48, block + 16, to);
}

void code_q6_k(const std::uint8_t* block, CodedBlock& to) {
  const float d = half_at(block + 208);
  for (int group = 0; group < 8; ++group) {
    const int half = group / 4, part = group % 4;
    const std::uint8_t *lows = block + 64 * half + 32 * (part % 2), *highs = block + 128 + 32 * half;
    for (int i = 0; i < 32; ++i) {
      const int low = lows[i] >> (4 * (part / 2)) & 15, high = highs[i] >> (2 * part) & 3;
      to.codes[32 * group + i] = static_cast<std::int8_t>((low | high << 4) - 32);
    }
  }
  for (int k = 0; k < 16; ++k) {
    to.scales[k] = d * static_cast<float>(static_cast<std::int8_t>(block[192 + k]));
    to.offsets[k] = 0;
  }
}

void code_iq4_nl(const std::uint8_t* block, CodedBlock& to) {
  split_codes(block + 2, to.codes, to.codes + 16);
  change_codes(to.codes, 32, [](int code, int) { return kNonLinearValues[code]; });
  set_one_group(to, half_at(block), 0);
}

void code_iq4_xs(const std::uint8_t* block, CodedBlock& to) {
  const float d = half_at(block);
  const auto highs = load<std::uint16_t>(block + 2);
  const std::uint8_t* lows = block + 4;
  for (int j = 0; j < 8; ++j) {
    split_codes(block + 8 + 16 * j, to.codes + 32 * j, to.codes + 32 * j + 16);
    const int scale = (lows[j / 2] >> (4 * (j % 2)) & 15) | (highs >> (2 * j) & 3) << 4;
    to.scales[j] = d * static_cast<float>(scale - 32);
    to.offsets[j] = 0;
  }
  change_codes(to.codes, 256, [](int code, int) { return kNonLinearValues[code]; });
}

void code_mxfp4(const std::uint8_t* block, CodedBlock& to) {
  split_codes(block + 1, to.codes, to.codes + 16);
  change_codes(to.codes, 32, [](int code, int) { return kDoubledFloat4[code]; });
  set_one_group(to, half_power(block[0]), 0);
}

// In the order of the enumeration.
struct Coding {
  std::int64_t group;
  void (*decode)(const std::uint8_t* block, CodedBlock& to);
};
constexpr Coding kCodings[] = {{0, nullptr},    {0, nullptr},      {0, nullptr},      {32, code_q4_0},
                               {32, code_q4_1}, {32, code_q5_0},   {32, code_q5_1},   {32, code_q8_0},
                               {16, code_q2_k}, {16, code_q3_k},   {32, code_q4_k},   {32, code_q5_k},
                               {16, code_q6_k}, {32, code_iq4_nl}, {32, code_iq4_xs}, {32, code_mxfp4}};
static_assert(std::size(kCodings) == std::size(kLayouts));

using Decoder = void (*)(const std::uint8_t* block, float* to);
// In the order of the enumeration.
constexpr Decoder kDecoders[] = {decode_f32,  decode_f16,    decode_bf16,   decode_q4_0, decode_q4_1, decode_q5_0,
                                 decode_q5_1, decode_q8_0,   decode_q2_k,   decode_q3_k, decode_q4_k, decode_q5_k,
                                 decode_q6_k, decode_iq4_nl, decode_iq4_xs, decode_mxfp4};
static_assert(std::size(kDecoders) == std::size(kLayouts));

}  // namespace

std::span<const BlockLayout> block_layouts() {
  return kLayouts;
}

const BlockLayout& layout_of(BlockFormat format) {
  return kLayouts[static_cast<std::size_t>(format)];
}

std::optional<BlockFormat> block_format_from_name(std::string_view name) {
  const auto* found = std::ranges::find(kLayouts, name, &BlockLayout::name);
  return found == std::end(kLayouts) ? std::nullopt : std::optional(found->format);
}

std::int64_t row_bytes(BlockFormat format, std::int64_t elements) {
  const BlockLayout& layout = layout_of(format);
  require(elements >= 0 && elements % layout.elements == 0, ErrorKind::invalid_model,
          "rows of {} elements cannot be stored as {}, whose blocks have {} elements", elements, layout.name,
          layout.elements);
  return checked_multiply(elements / layout.elements, layout.bytes);
}

void dequantize(BlockFormat format, std::span<const std::byte> blocks, std::span<float> to) {
  const BlockLayout& layout = layout_of(format);
  const auto bytes = static_cast<std::size_t>(layout.bytes), elements = static_cast<std::size_t>(layout.elements);
  const std::size_t count = to.size() / elements;
  require(to.size() % elements == 0 && blocks.size() == count * bytes, ErrorKind::invalid_argument,
          "{} bytes of {} do not hold {} elements", blocks.size(), layout.name, to.size());
  const auto* from = reinterpret_cast<const std::uint8_t*>(blocks.data());
  const Decoder decode = kDecoders[static_cast<std::size_t>(format)];
  for (std::size_t block = 0; block < count; ++block) decode(from + block * bytes, to.data() + block * elements);
}

std::int64_t group_of(BlockFormat format) {
  return kCodings[static_cast<std::size_t>(format)].group;
}

void decode_block(BlockFormat format, const std::byte* block, CodedBlock& to) {
  kCodings[static_cast<std::size_t>(format)].decode(reinterpret_cast<const std::uint8_t*>(block), to);
}

}  // namespace tessera::base
