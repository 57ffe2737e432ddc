#include "base/numbers/block_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/numbers/philox.h"
#include "support/error_of.h"

namespace tessera::base::block_format_test {
namespace {

using testing::HasSubstr;

constexpr std::uint8_t kOneLow = 0x00, kOneHigh = 0x3C;    // 1 in float16
constexpr std::uint8_t kHalfLow = 0x00, kHalfHigh = 0x38;  // 0.5

std::vector<float> decode(BlockFormat format, std::vector<std::uint8_t> block) {
  const BlockLayout& layout = layout_of(format);
  block.resize(static_cast<std::size_t>(layout.bytes));
  std::vector<float> values(static_cast<std::size_t>(layout.elements));
  dequantize(format, std::as_bytes(std::span(block)), values);
  return values;
}

TEST(BlockFormat, EveryFormatIsFoundByItsName) {
  for (const BlockLayout& layout : block_layouts()) {
    EXPECT_EQ(block_format_from_name(layout.name), layout.format);
    EXPECT_EQ(&layout_of(layout.format), &layout);
  }
  EXPECT_EQ(block_format_from_name("q4_9"), std::nullopt);
}

TEST(BlockFormat, RowsConsistOfWholeBlocks) {
  EXPECT_EQ(row_bytes(BlockFormat::q4_1, 576), 360);
  EXPECT_EQ(row_bytes(BlockFormat::q6_k, 512), 420);
  EXPECT_EQ(row_bytes(BlockFormat::bf16, 3), 6);
  EXPECT_THAT(test::error_of([] { row_bytes(BlockFormat::q4_k, 576); }),
              HasSubstr("rows of 576 elements cannot be stored as q4_k, whose blocks have 256 elements"));
  EXPECT_THAT(test::error_of([] { row_bytes(BlockFormat::f32, std::int64_t{1} << 62); }), HasSubstr("size overflow"));
}

TEST(BlockFormat, LowCodesComeBeforeHighOnes) {
  // Byte 0: element 0 has code 3, element 16 has code 12.
  const std::vector<float> plain = decode(BlockFormat::q4_0, {kHalfLow, kHalfHigh, 0xC3});
  EXPECT_EQ(plain[0], 0.5F * (3 - 8));
  EXPECT_EQ(plain[16], 0.5F * (12 - 8));
  EXPECT_EQ(plain[1], -4);
  const std::vector<float> shifted = decode(BlockFormat::q4_1, {kHalfLow, kHalfHigh, kOneLow, kOneHigh, 0xC3});
  EXPECT_EQ(shifted[0], 0.5F * 3 + 1);
  EXPECT_EQ(shifted[16], 0.5F * 12 + 1);
  const std::vector<float> table = decode(BlockFormat::iq4_nl, {kOneLow, kOneHigh, 0xC3});
  EXPECT_EQ(table[0], -65);
  EXPECT_EQ(table[16], 53);
}

TEST(BlockFormat, FifthBitsLieApart) {
  // Bits 0 and 31 are set.
  const std::vector<float> plain = decode(BlockFormat::q5_0, {kOneLow, kOneHigh, 0x01, 0, 0, 0x80, 0x02});
  EXPECT_EQ(plain[0], 18 - 16);
  EXPECT_EQ(plain[31], 16 - 16);
  EXPECT_EQ(plain[1], -16);
  const std::vector<float> shifted =
      decode(BlockFormat::q5_1, {kOneLow, kOneHigh, kHalfLow, kHalfHigh, 0x01, 0, 0, 0x80, 0x02});
  EXPECT_EQ(shifted[0], 18.5F);
  EXPECT_EQ(shifted[31], 16.5F);
}

TEST(BlockFormat, ScalesOfSubBlocksArePackedInSixBits) {
  std::array<std::uint8_t, 12> packed{};
  packed[1] = 0xC5;  // scale 1 is 5, and the high bits of scale 5 are 3
  packed[5] = 0x87;  // minimum 1 is 7, and the high bits of minimum 5 are 2
  packed[9] = 0xA9;  // low bits of scale 5: 9; of minimum 5: 10
  EXPECT_EQ(packed_scale(packed.data(), 1).scale, 5);
  EXPECT_EQ(packed_scale(packed.data(), 1).minimum, 7);
  EXPECT_EQ(packed_scale(packed.data(), 5).scale, 9 | 3 << 4);
  EXPECT_EQ(packed_scale(packed.data(), 5).minimum, 10 | 2 << 4);
  std::vector<std::uint8_t> block{kOneLow, kOneHigh, kHalfLow, kHalfHigh};
  block.insert(block.end(), packed.begin(), packed.end());
  block.push_back(0x20);  // the code of element 32, which is in sub-block 1, is 2
  const std::vector<float> values = decode(BlockFormat::q4_k, block);
  EXPECT_EQ(values[32], 5 * 2 - 0.5F * 7);
  EXPECT_EQ(values[5 * 32], -0.5F * 42);
}

TEST(BlockFormat, PowersOfTwoReachIntoDenormalNumbers) {
  EXPECT_EQ(decode(BlockFormat::mxfp4, {128, 0x7F})[0], -12.0F);
  EXPECT_EQ(decode(BlockFormat::mxfp4, {128, 0x7F})[16], 12.0F);
  EXPECT_EQ(decode(BlockFormat::mxfp4, {0, 0x01})[0], std::ldexp(1.0F, -128));
  EXPECT_EQ(decode(BlockFormat::mxfp4, {1, 0x01})[0], std::ldexp(1.0F, -127));
  EXPECT_EQ(decode(BlockFormat::mxfp4, {2, 0x01})[0], std::ldexp(1.0F, -126));
}

TEST(BlockFormat, CodesAndScalesSayTheSame) {
  Philox random(46);
  for (const BlockLayout& layout : block_layouts()) {
    const std::int64_t group = group_of(layout.format);
    if (group == 0) continue;
    for (int draw = 0; draw < 50; ++draw) {
      std::vector<std::uint8_t> block(static_cast<std::size_t>(layout.bytes));
      for (std::uint8_t& byte : block) byte = static_cast<std::uint8_t>(random.next_integer(0, 0x7B));
      std::vector<float> expected(static_cast<std::size_t>(layout.elements));
      dequantize(layout.format, std::as_bytes(std::span(block)), expected);
      CodedBlock coded;
      decode_block(layout.format, std::as_bytes(std::span(block)).data(), coded);
      for (std::int64_t e = 0; e < layout.elements; ++e)
        EXPECT_EQ(coded.scales[e / group] * static_cast<float>(coded.codes[e]) + coded.offsets[e / group],
                  expected[static_cast<std::size_t>(e)])
            << layout.name << " " << e;
    }
  }
}

TEST(BlockFormat, LengthsMustAgree) {
  std::vector<float> to(31);
  const std::vector<std::byte> block(18);
  EXPECT_THAT(test::error_of([&] { dequantize(BlockFormat::q4_0, block, to); }),
              HasSubstr("18 bytes of q4_0 do not hold 31 elements"));
  to.resize(64);
  EXPECT_THAT(test::error_of([&] { dequantize(BlockFormat::q4_0, block, to); }), HasSubstr("64 elements"));
}

}  // namespace
}  // namespace tessera::base::block_format_test
