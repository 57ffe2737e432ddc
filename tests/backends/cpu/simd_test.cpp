#include "backends/cpu/simd.h"

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

TEST(Simd, NeverAboveTheMachine) {
  const ScopedIsa best(base::Isa::avx512, Extensions::none);
  EXPECT_LE(active_isa(), base::cpu_info().isa);
  EXPECT_FALSE(active_vnni());
}

}  // namespace
}  // namespace tessera::backends::cpu::simd_test
