// The inner loop of the 8-bit product. Self-contained: files compiled for one instruction set include nothing else that
// could leave their instructions in shared inline functions.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

inline constexpr std::int64_t kS8Rows = 12;     // of a panel of A
inline constexpr std::int64_t kS8Columns = 32;  // of a panel of B
inline constexpr std::int64_t kS8Group = 4;     // neighbouring k that lie together

// sums[i * kS8Columns + j] = sum over k of a(i, k) b(k, j), exact. A panel lies as left[(group * rows + i) * 4 + k %
// 4], B's as right[(group * kS8Columns + j) * 4 + k % 4]; k is padded with zeros to whole groups.
struct S8Panel {
  std::int64_t rows = 0;
  std::int64_t groups = 0;
  const std::uint8_t* left = nullptr;
  const std::int8_t* right = nullptr;
  std::int32_t* sums = nullptr;
};

void multiply_s8_scalar(const S8Panel& panel);
void multiply_s8_avx2(const S8Panel& panel);
void multiply_s8_vnni(const S8Panel& panel);

}  // namespace tessera::backends::cpu
