#include "backends/cpu/machine/simd.h"

#include <gtest/gtest.h>

namespace tessera::backends::cpu::simd_test {
namespace {

TEST(Simd, ScopedIsaLowersAndRestores) {
  const base::Isa before = active_isa();
  {
    const ScopedIsa scalar(base::Isa::scalar);
    EXPECT_EQ(active_isa(), base::Isa::scalar);
    EXPECT_FALSE(active_vnni());
  }
  EXPECT_EQ(active_isa(), before);
}

TEST(Simd, TileRegistersAreExtensions) {
  EXPECT_EQ(active_tiles(), base::cpu_info().amx);
  {
    const ScopedIsa vectors(base::Isa::avx512, Extensions::vectors);
    EXPECT_FALSE(active_tiles());
    EXPECT_FALSE(emulates_tiles());
    EXPECT_EQ(active_vnni(), base::cpu_info().avx512_vnni);
  }
  {
    const ScopedIsa emulated(base::Isa::scalar, Extensions::emulated_tiles);
    EXPECT_TRUE(emulates_tiles());
    EXPECT_FALSE(active_tiles());
  }
  EXPECT_FALSE(emulates_tiles());
}

TEST(Simd, NeverAboveTheMachine) {
  const ScopedIsa best(base::Isa::avx512, Extensions::none);
  EXPECT_LE(active_isa(), base::cpu_info().isa);
  EXPECT_FALSE(active_vnni());
}

}  // namespace
}  // namespace tessera::backends::cpu::simd_test
