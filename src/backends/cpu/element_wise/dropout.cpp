// Dropout of float32. The random number of an element depends only on its position, so that any thread can draw it; the
// numbers are those that base::Philox gives in sequence.
#include "backends/cpu/element_wise/dropout.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/element_wise/kernels.h"
#include "backends/cpu/machine/operand_rules.h"
#include "backends/host/numeric.h"
#include "backends/host/random.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/element_wise/dropout.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#ifndef TESSERA_BACKENDS_CPU_DROPOUT
#define TESSERA_BACKENDS_CPU_DROPOUT
namespace tessera::backends::cpu {

constexpr std::int64_t kDropoutBlocks = 64;  // of Philox at a time: two random numbers each

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Draws 53 random bits for the first and the second number of each of the blocks [first, first + kDropoutBlocks).
void draw_blocks(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::uint64_t* evens,
                 std::uint64_t* odds) {
#if HWY_TARGET == HWY_SCALAR
  for (std::uint64_t i = 0; i < kDropoutBlocks; ++i) {
    const std::uint64_t position = first + i;
    const auto block =
        base::philox4x32({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                          static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                         {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    evens[i] = ((std::uint64_t{block[0]} << 32) | block[1]) >> 11;
    odds[i] = ((std::uint64_t{block[2]} << 32) | block[3]) >> 11;
  }
#else
  // A block is one 64-bit lane; the words of its counter are the lower halves of four vectors.
  const hn::ScalableTag<std::uint64_t> d;
  const hn::Repartition<std::uint32_t, decltype(d)> words;
  const auto multiply = [&](auto word, std::uint64_t factor) HWY_ATTR {
    return hn::MulEven(hn::BitCast(words, word), hn::BitCast(words, hn::Set(d, factor)));
  };
  const auto join = [&](auto high, auto low) HWY_ATTR {
    return hn::ShiftRight<11>(hn::Or(hn::ShiftLeft<32>(high), hn::And(low, hn::Set(d, 0xFFFFFFFF))));
  };
  for (std::int64_t i = 0; i < kDropoutBlocks; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto position = hn::Iota(d, first + static_cast<std::uint64_t>(i));
    auto c0 = position, c1 = hn::ShiftRight<32>(position), c2 = hn::Set(d, stream), c3 = hn::Set(d, stream >> 32);
    auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto product0 = multiply(c0, 0xD2511F53), product1 = multiply(c2, 0xCD9E8D57);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(d, key0));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d, key1));
      c1 = product1;
      c3 = product0;
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    hn::StoreU(join(c0, c1), d, evens + i);
    hn::StoreU(join(c2, c3), d, odds + i);
  }
#endif
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(draw_blocks);

constexpr std::int64_t kGroup = 2 * kDropoutBlocks;  // elements whose numbers are drawn at once
constexpr std::int64_t kGroupsAChunk = 64;

struct Dropped {
  const float* x;
  float* y;    // null: not wanted
  bool* mask;  // null: not wanted
  std::int64_t count;
  std::uint64_t least;  // the least 53 random bits for which an element is kept
  float divisor;
};

// Applies dropout to the elements of one group.
void drop_group(const Dropped& given, std::int64_t group, const std::uint64_t* evens, const std::uint64_t* odds) {
  const std::int64_t begin = group * kGroup, end = std::min(given.count, begin + kGroup);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t at = i - begin;
    const bool keeps = (at % 2 == 0 ? evens : odds)[at / 2] >= given.least;
    if (given.y != nullptr) given.y[i] = keeps ? given.x[i] / given.divisor : 0.0f;
    if (given.mask != nullptr) given.mask[i] = keeps;
  }
}

double scalar_of(const KernelContext& context, std::size_t i, double otherwise) {
  if (!context.has_input(i)) return otherwise;
  const std::vector<double> value = host::read<double>(context.input(i));
  require(value.size() == 1, ErrorKind::invalid_model, "input '{}' has shape {}, expected a scalar",
          context.op().inputs[i].name, to_string(context.input(i).shape()));
  return value[0];
}

void keep_all(const Dropped& given) {
  const auto count = static_cast<std::size_t>(given.count);
  if (given.y != nullptr && given.y != given.x && count > 0) std::memcpy(given.y, given.x, count * sizeof(float));
  if (given.mask != nullptr) std::fill_n(given.mask, given.count, true);
}

}  // namespace

void dropout_factors(const base::Philox& random, double ratio, std::int64_t first, std::int64_t count, float* factors) {
  const auto draw = HWY_DYNAMIC_DISPATCH(draw_blocks);
  const auto least = static_cast<std::uint64_t>(std::ceil(ratio * 0x1p53));
  const auto kept = static_cast<float>(1 / (1 - ratio));
  std::uint64_t numbers[2][kDropoutBlocks];  // the even and the odd ones
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t element = first + done, odd = element % 2;
    draw(random.seed(), random.stream(), static_cast<std::uint64_t>(element / 2), numbers[0], numbers[1]);
    const std::int64_t some = std::min(count - done, kGroup - odd);
    for (std::int64_t i = 0; i < some; ++i)
      factors[done + i] = numbers[(i + odd) % 2][(i + odd) / 2] >= least ? kept : 0.0f;
    done += some;
  }
}

std::string reject_dropout(const ops::NodeView& view) {
  return reject_unless_f32(view);
}

void dropout(KernelContext& context) {
  const double ratio = scalar_of(context, 1, 0.5);
  require(ratio >= 0 && ratio < 1, ErrorKind::invalid_argument, "ratio is {}, expected a number in [0, 1)", ratio);
  const Dropped given{context.input(0).data<float>(),
                      context.wants_output(0) ? context.output(0).mutable_data<float>() : nullptr,
                      context.wants_output(1) ? context.output(1).mutable_data<bool>() : nullptr,
                      context.input(0).elements(),
                      static_cast<std::uint64_t>(std::ceil(ratio * 0x1p53)),
                      static_cast<float>(1 - ratio)};
  if (scalar_of(context, 2, 0) == 0 || ratio == 0) return keep_all(given);
  const base::Philox random = host::random_of(context);
  const auto draw = HWY_DYNAMIC_DISPATCH(draw_blocks);
  context.parallel_for((given.count + kGroup - 1) / kGroup, kGroupsAChunk, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t evens[kDropoutBlocks], odds[kDropoutBlocks];
    for (std::int64_t group = begin; group < end; ++group) {
      draw(random.seed(), random.stream(), static_cast<std::uint64_t>(group * kDropoutBlocks), evens, odds);
      drop_group(given, group, evens, odds);
    }
  });
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
