// tessera::Unmask: the weights behind a mask, which a run computes right before it uses them (docs/protect.md).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ops/core/op.h"

namespace tessera::ops {

// Inputs: the masked weights, and a value that is computed first, without being looked at: it makes the result a part
// of the run, so that nothing computes it ahead. The attribute `key` holds the numbers of a Mask; a symbol of an
// operator library has the attribute `mask` instead, the number that the library's function takes. The result has the
// attribute `shape`, if there is one, else that of the masked weights.
extern const OpDef unmask;

// A function of its own on the words (4 bytes) of one weight: x -> x xor noise(index). It is its own inverse and exact.
// The noise is a finaliser of hash functions whose multipliers, shifts and additions are the key: it hides patterns
// from whoever lacks the key, and is no cipher: words whose plain values are known say what the noise at their places
// was.
struct Mask {
  std::array<std::uint32_t, 3> multipliers{1, 1, 1};  // odd
  std::array<std::uint32_t, 2> addends{};
  std::array<std::uint32_t, 3> shifts{16, 13, 16};  // 11 to 20

  // From kWords numbers, whatever they are. Throws Error(invalid_model) for another count.
  static constexpr std::size_t kWords = 8;
  static Mask from(std::span<const std::int64_t> key);

  std::uint32_t noise(std::uint32_t index) const {
    std::uint32_t x = index * multipliers[0] + addends[0];
    x ^= x >> shifts[0];
    x *= multipliers[1];
    x ^= x >> shifts[1];
    x = x * multipliers[2] + addends[1];
    return x ^ x >> shifts[2];
  }
  // `from` and `to` begin at word `first`, and may be equal.
  void apply(const void* from, void* to, std::uint64_t first, std::uint64_t words) const;
};

}  // namespace tessera::ops
