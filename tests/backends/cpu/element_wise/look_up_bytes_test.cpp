#include "backends/cpu/element_wise/look_up_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "backends/cpu/machine/simd.h"

namespace tessera::backends::cpu {
namespace {

TEST(CpuLookUpBytes, AnyCountWithAnyInstructions) {
  std::array<std::uint8_t, 256> table;
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::uint8_t>(i * 167 + 13);
  for (const Extensions extensions : {Extensions::none, Extensions::vectors}) {
    const ScopedIsa scoped(base::Isa::avx512, extensions);
    for (const std::size_t count : {0, 1, 63, 64, 65, 256, 1000}) {
      std::vector<std::uint8_t> x(count), y(count + 1, 7), expected(count + 1, 7);
      std::iota(x.begin(), x.end(), std::uint8_t{0});
      std::transform(x.begin(), x.end(), expected.begin(), [&](std::uint8_t byte) { return table[byte]; });
      look_up_bytes()(x.data(), y.data(), static_cast<std::int64_t>(count), table.data());
      EXPECT_EQ(y, expected) << count;
      look_up_bytes()(x.data(), x.data(), static_cast<std::int64_t>(count), table.data());
      EXPECT_TRUE(std::equal(x.begin(), x.end(), expected.begin())) << count;
    }
  }
}

}  // namespace
}  // namespace tessera::backends::cpu
