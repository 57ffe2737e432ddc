#include "protect/secret_shared/keystream.h"

#include <sodium.h>

#include <algorithm>
#include <functional>

#include "base/assert.h"
#include "tessera/secret_shared.h"

namespace tessera::protect {
namespace {

void deal_truncation(Dealing& dealing, std::size_t count) {
  Words mask = dealing.own_sum(count), top = mask;
  for (Word& word : mask) word >>= kSharedFractionBits;
  for (Word& word : top) word >>= 63;
  dealing.dependent_sum(mask);
  dealing.dependent_sum(top);
}

void deal_rectifier(Dealing& dealing, std::size_t count) {
  dealing.dependent_xor(dealing.own_sum(count));
  const auto multiply = [&](const auto& own, const auto& dependent, const auto& operation) {
    Words a = own();
    const Words b = own();
    for (std::size_t i = 0; i < count; ++i) a[i] = operation(a[i], b[i]);
    dependent(a);
  };
  const auto own_xor = [&] { return dealing.own_xor(count); };
  for (int level = 0; level < kComparisonLevels; ++level)
    multiply(own_xor, [&](const Words& words) { dealing.dependent_xor(words); }, std::bit_and<Word>{});
  Words bit = dealing.own_xor(count);
  for (Word& word : bit) word &= 1;
  dealing.dependent_sum(bit);
  multiply([&] { return dealing.own_sum(count); }, [&](const Words& words) { dealing.dependent_sum(words); },
           std::multiplies<Word>{});
}

constexpr std::uint64_t kOfRectifier = 1 + kComparisonLevels + 2, kOfTruncation = 2;

}  // namespace

Keystream::Keystream(const Secret& seed, std::uint64_t purpose) : key_(kSeedBytes) {
  crypto_generichash(key_.data(), key_.size(), reinterpret_cast<const std::uint8_t*>(&purpose), sizeof(purpose),
                     seed.data(), seed.size());
}

Words Keystream::words(std::size_t count) {
  Words words(count);
  static_assert(sizeof(drawn_) == crypto_stream_chacha20_NONCEBYTES);
  crypto_stream_chacha20(reinterpret_cast<std::uint8_t*>(words.data()), count * sizeof(Word),
                         reinterpret_cast<const std::uint8_t*>(&drawn_), key_.data());
  ++drawn_;
  return words;
}

Words Material::dependent(std::size_t count) {
  if (party_ == 0) return stream_.words(count);
  TESSERA_ASSERT(count <= corrections_.size(), "the number of corrections was checked");
  Words words(corrections_.begin(), corrections_.begin() + static_cast<std::ptrdiff_t>(count));
  corrections_ = corrections_.subspan(count);
  return words;
}

Words Dealing::own_sum(std::size_t count) {
  Words words = first_.words(count);
  const Words other = second_.words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] += other[i];
  return words;
}

Words Dealing::own_xor(std::size_t count) {
  Words words = first_.words(count);
  const Words other = second_.words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] ^= other[i];
  return words;
}

void Dealing::dependent_sum(std::span<const Word> values) {
  const Words share = first_.words(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) corrections_.push_back(values[i] - share[i]);
}

void Dealing::dependent_xor(std::span<const Word> values) {
  const Words share = first_.words(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) corrections_.push_back(values[i] ^ share[i]);
}

std::vector<std::size_t> tournament(std::span<const std::vector<std::uint32_t>> windows) {
  std::vector<std::size_t> left(windows.size()), rounds;
  std::ranges::transform(windows, left.begin(), [](const auto& window) { return window.size(); });
  while (true) {
    std::size_t pairs = 0;
    for (std::size_t& count : left) {
      pairs += count / 2;
      count -= count / 2;
    }
    if (pairs == 0) return rounds;
    rounds.push_back(pairs);
  }
}

Words deal(const SharedProgram& program, std::span<const Words> masks, const Secret& first, const Secret& second,
           std::uint64_t run) {
  Dealing dealing(first, second, run);
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const SharedStep& step = program.steps[i];
    const auto inputs = static_cast<std::size_t>(step.inputs()), outputs = static_cast<std::size_t>(step.outputs());
    if (step.kind == SharedStepKind::convolve) {
      Words product(outputs);
      convolve(step, dealing.own_sum(inputs), masks[i], product);
      dealing.dependent_sum(product);
      deal_truncation(dealing, outputs);
    } else if (step.kind == SharedStepKind::rectify) {
      deal_rectifier(dealing, outputs);
    } else if (step.kind == SharedStepKind::pool_max) {
      for (const std::size_t pairs : tournament(windows_of(step))) deal_rectifier(dealing, pairs);
    } else if (step.kind == SharedStepKind::pool_average) {
      deal_truncation(dealing, outputs);
    }
  }
  return dealing.take();
}

std::uint64_t corrections_of(const SharedProgram& program) {
  std::uint64_t words = 0;
  for (const SharedStep& step : program.steps) {
    const auto outputs = static_cast<std::uint64_t>(step.outputs());
    if (step.kind == SharedStepKind::convolve) words += outputs * (1 + kOfTruncation);
    if (step.kind == SharedStepKind::rectify) words += outputs * kOfRectifier;
    if (step.kind == SharedStepKind::pool_average) words += outputs * kOfTruncation;
    if (step.kind != SharedStepKind::pool_max) continue;
    for (const std::size_t pairs : tournament(windows_of(step))) words += pairs * kOfRectifier;
  }
  return words;
}

}  // namespace tessera::protect
