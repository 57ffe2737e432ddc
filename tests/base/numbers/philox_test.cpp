#include "base/numbers/philox.h"

#include <gtest/gtest.h>

#include <limits>

namespace tessera::test::philox_test {
namespace {

using Words = std::array<std::uint32_t, 4>;

// kat_vectors of Random123 (Salmon et al.), philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  constexpr std::uint32_t ones = 0xFFFFFFFF;
  EXPECT_EQ(base::philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(base::philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(base::philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Philox, StreamsAreRepeatableAndApart) {
  base::Philox a(1, 2), b(1, 2), other_stream(1, 3), other_seed(2, 2);
  const std::uint64_t first = a.next_u64();
  EXPECT_EQ(first, b.next_u64());
  EXPECT_NE(first, other_stream.next_u64());
  EXPECT_NE(first, other_seed.next_u64());
  base::Philox copy = a;
  EXPECT_EQ(copy.next_u32(), a.next_u32());
}

TEST(Philox, NumbersStayInRange) {
  base::Philox random(5);
  double sum = 0, squares = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double uniform = random.next_uniform();
    ASSERT_GE(uniform, 0.0);
    ASSERT_LT(uniform, 1.0);
    const std::int64_t integer = random.next_integer(-3, 4);
    ASSERT_GE(integer, -3);
    ASSERT_LE(integer, 4);
    const double normal = random.next_normal();
    sum += normal;
    squares += normal * normal;
  }
  EXPECT_NEAR(sum / 20'000, 0.0, 0.03);
  EXPECT_NEAR(squares / 20'000, 1.0, 0.05);
  random.next_integer(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(random.next_integer(7, 7), 7);
}

}  // namespace
}  // namespace tessera::test::philox_test
