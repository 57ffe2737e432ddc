#include "backends/cpu/element_wise/rounding_bf16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/machine/simd.h"
#include "base/numbers/half.h"

namespace tessera::backends::cpu::rounding_bf16_test {
namespace {

// Ties to both sides, numbers around them, the largest, infinities and NaN; no denormals.
std::vector<float> numbers() {
  std::vector<float> list{0.0f,
                          -0.0f,
                          1.0f,
                          std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()};
  for (std::uint32_t bits = 0x3F7F'7FFE; bits < 0x3F81'8003; bits += 0x3FFF) list.push_back(std::bit_cast<float>(bits));
  for (const std::uint32_t bits : {0x3F80'8000u, 0x3F81'8000u, 0xBF80'8000u, 0xBF81'8000u, 0x3F80'8001u, 0x3F80'7FFFu})
    list.push_back(std::bit_cast<float>(bits));
  list.push_back(std::nanf(""));
  return list;
}

template <typename Check>
void for_each_set(Check check) {
  for (const base::Isa isa : {base::Isa::scalar, base::Isa::avx2, base::Isa::avx512}) {
    for (const Extensions extensions : {Extensions::none, Extensions::vectors}) {
      const ScopedIsa scope(isa, extensions);
      check();
    }
  }
}

TEST(RoundingBf16, PairsAreTheNumbersOfTwoRowsInTurn) {
  const std::vector<float> x = numbers();
  const std::vector<float> reversed(x.rbegin(), x.rend());
  for_each_set([&] {
    for (std::size_t count = 0; count <= x.size(); ++count) {
      std::vector<std::uint16_t> even(count), odd(count), pairs(2 * count + 1, 0xABCD);
      const auto numbers_of_row = static_cast<std::int64_t>(count);
      to_bf16_row(x.data(), even.data(), numbers_of_row);
      to_bf16_row(reversed.data(), odd.data(), numbers_of_row);
      to_bf16_pairs(x.data(), reversed.data(), pairs.data(), numbers_of_row);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(pairs[2 * i], even[i]);
        EXPECT_EQ(pairs[2 * i + 1], odd[i]);
      }
      EXPECT_EQ(pairs.back(), 0xABCD);
    }
  });
}

TEST(RoundingBf16, RowsOfAnyLengthAreRoundedToEvenByEverySet) {
  const std::vector<float> x = numbers();
  for_each_set([&] {
    for (std::size_t count = 0; count <= x.size(); ++count) {
      std::vector<std::uint16_t> weights(count + 1, 0xABCD), data(count + 1, 0xABCD);
      to_bf16_row(x.data(), weights.data(), static_cast<std::int64_t>(count));
      round_to_bf16_row(x.data(), data.data(), static_cast<std::int64_t>(count));
      for (std::size_t i = 0; i < count; ++i) {
        const float expected = base::to_float(base::to_bf16(x[i]));
        for (const std::uint16_t bits : {weights[i], data[i]}) {
          const float rounded = base::to_float(bf16_t{bits});
          if (std::isnan(expected)) EXPECT_TRUE(std::isnan(rounded)) << i;
          else EXPECT_EQ(std::bit_cast<std::uint32_t>(rounded), std::bit_cast<std::uint32_t>(expected)) << x[i];
        }
      }
      EXPECT_EQ(weights[count], 0xABCD);
      EXPECT_EQ(data[count], 0xABCD);
      std::vector<float> widened(count);
      from_bf16_row(weights.data(), widened.data(), static_cast<std::int64_t>(count));
      for (std::size_t i = 0; i < count; ++i)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(widened[i]), std::uint32_t{weights[i]} << 16);
    }
  });
}

TEST(RoundingBf16, PixelsOfThreeChannelsGetAFourthThatIsZero) {
  for_each_set([&] {
    for (std::int64_t pixels = 1; pixels <= 19; ++pixels) {
      std::vector<float> x(static_cast<std::size_t>(3 * pixels));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0f + 0.013f * static_cast<float>(i);
      std::vector<std::uint16_t> y(static_cast<std::size_t>(4 * pixels), 0xABCD);
      if (!round_pictures(x.data(), y.data(), pixels)) {
        EXPECT_FALSE(active_bf16());
        EXPECT_EQ(y.front(), 0xABCD);
        continue;
      }
      for (std::size_t i = 0; i < y.size(); ++i)
        EXPECT_EQ(y[i], i % 4 == 3 ? 0 : base::to_bf16(x[i / 4 * 3 + i % 4]).bits) << pixels << " pixels, " << i;
    }
  });
}

}  // namespace
}  // namespace tessera::backends::cpu::rounding_bf16_test
