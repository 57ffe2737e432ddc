// Random numbers that two parties hold shares of: those that each draws from its own seed, and the dealer's
// corrections, by which the shares of a dependent number, such as a product, add up.
#pragma once

#include <array>
#include <span>

#include "protect/secret.h"
#include "protect/secret_shared/shared_program.h"

namespace tessera::protect {

// An identity or digest, which anybody may know. Seeds and keys are of the same size, and in locked memory (Secret).
using PublicId = std::array<std::uint8_t, 32>;
inline constexpr std::size_t kSeedBytes = 32;

// The pseudorandom words of a seed (ChaCha20) for one purpose: a run, or the weights.
class Keystream {
 public:
  Keystream(const Secret& seed, std::uint64_t purpose);
  Words words(std::size_t count);

 private:
  Secret key_;
  std::uint64_t drawn_ = 0;
};

inline constexpr std::uint64_t kWeightsPurpose = ~std::uint64_t{0};  // others: the index of a run

// One party's random numbers of a run. Both parties and the dealer must ask in the same order.
class Material {
 public:
  // `corrections` of the second party (1); empty of the first (0).
  Material(int party, const Secret& seed, std::uint64_t run, std::span<const Word> corrections)
      : party_(party), stream_(seed, run), corrections_(corrections) {}
  // Shares of independent numbers.
  Words own(std::size_t count) { return stream_.words(count); }
  // Shares of numbers that depend on earlier ones.
  Words dependent(std::size_t count);

 private:
  int party_;
  Keystream stream_;
  std::span<const Word> corrections_;
};

// Makes the corrections of one run.
class Dealing {
 public:
  Dealing(const Secret& first, const Secret& second, std::uint64_t run) : first_(first, run), second_(second, run) {}
  Words own_sum(std::size_t count);  // what the shares add up to modulo 2^64
  Words own_xor(std::size_t count);  // and bit by bit modulo 2
  void dependent_sum(std::span<const Word> values);
  void dependent_xor(std::span<const Word> values);
  Words take() { return std::move(corrections_); }

 private:
  Keystream first_, second_;
  Words corrections_;
};

inline constexpr int kComparisonLevels = 6;  // 64 bits, halved to one

// The corrections of a run of the program, for weights whose masks are `masks` (of each step, empty without weights).
Words deal(const SharedProgram& program, std::span<const Words> masks, const Secret& first, const Secret& second,
           std::uint64_t run);
// Their number, without making them.
std::uint64_t corrections_of(const SharedProgram& program);
// How many pairs are compared in each round of a maximum over windows of these sizes.
std::vector<std::size_t> tournament(std::span<const std::vector<std::uint32_t>> windows);

}  // namespace tessera::protect
