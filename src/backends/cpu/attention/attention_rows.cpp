#include "backends/cpu/attention/attention_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/attention_rows.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/rows/exponential_rows.h"
#include "base/numbers/half.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

constexpr std::int64_t kLanes = HWY_LANES(float);
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Scores of `keys` keys at once, in independent sums.
template <int keys>
void some_scores(const float* query, const float* key, std::int64_t stride, std::int64_t size, float* scores) {
  const D d;
  V sum[keys];
  for (int j = 0; j < keys; ++j) sum[j] = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const V q = hn::LoadU(d, query + i);
    for (int j = 0; j < keys; ++j) sum[j] = hn::MulAdd(q, hn::LoadU(d, key + j * stride + i), sum[j]);
  }
  if (i < size) {
    const Mask part = hn::FirstN(d, static_cast<std::size_t>(size - i));
    const V q = hn::MaskedLoad(part, d, query + i);
    for (int j = 0; j < keys; ++j) sum[j] = hn::MulAdd(q, hn::MaskedLoad(part, d, key + j * stride + i), sum[j]);
  }
  for (int j = 0; j < keys; ++j) scores[j] = hn::GetLane(hn::SumOfLanes(d, sum[j]));
}

void scores(const float* query, const float* keys, std::int64_t stride, std::int64_t size, std::int64_t count,
            float* to) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) some_scores<4>(query, keys + i * stride, stride, size, to + i);
  for (; i < count; ++i) some_scores<1>(query, keys + i * stride, stride, size, to + i);
}

// Processes whole vectors, then the remainder.
template <class Rule>
HWY_INLINE void apply(const Rule& rule, float* scores, std::int64_t count) {
  const D d;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(rule(hn::LoadU(d, scores + i), i, hn::FirstN(d, kLanes)), d, scores + i);
  if (i == count) return;
  const Mask part = hn::FirstN(d, static_cast<std::size_t>(count - i));
  hn::BlendedStore(rule(hn::MaskedLoad(part, d, scores + i), i, part), part, d, scores + i);
}

void apply(const ScoreRule& rule, float* scores, std::int64_t count) {
  if (rule.softcap > 0) {
    const V cap = set(rule.softcap);
    apply([&](V x, std::int64_t, Mask) HWY_ATTR { return hn::Mul(cap, math::tanh(D(), hn::Div(x, cap))); }, scores,
          count);
  }
  const auto masked = [&](V x, std::int64_t i, Mask part)
                          HWY_ATTR { return hn::Add(x, hn::MaskedLoad(part, D(), rule.mask + i)); };
  const auto replaced = [&](V x, std::int64_t i, Mask part) HWY_ATTR {
    const V replacement = hn::MaskedLoad(part, D(), rule.replacement + i);
    return hn::IfThenElse(hn::IsNaN(replacement), x, replacement);
  };
  const bool replaces = rule.replacement != nullptr;
  if (rule.mask != nullptr && replaces && rule.second_mask == nullptr) {
    apply([&](V x, std::int64_t i, Mask part) HWY_ATTR { return replaced(masked(x, i, part), i, part); }, scores,
          count);
    return;
  }
  if (rule.mask != nullptr) apply(masked, scores, count);
  if (rule.second_mask != nullptr)
    apply([&](V x, std::int64_t i, Mask part)
              HWY_ATTR { return hn::Add(x, hn::MaskedLoad(part, D(), rule.second_mask + i)); },
          scores, count);
  if (replaces) apply(replaced, scores, count);
  if (rule.allowed == nullptr) return;
  for (std::int64_t i = 0; i < count; ++i) scores[i] = rule.allowed[i] ? scores[i] : -kInfinity;
}

float weigh(float* scores, std::int64_t count, const ScoreRule& rule, SoftmaxState& state) {
  if (rule.softcap > 0 || rule.mask != nullptr || rule.allowed != nullptr || rule.replacement != nullptr)
    apply(rule, scores, count);
  const float before = state.largest;
  const float largest = hn::GetLane(Largest().join(set(before), set(reduce(Largest(), scores, count))));
  if (largest == -kInfinity) {
    std::fill_n(scores, count, 0.0f);
    return 1;
  }
  const float factor = before == -kInfinity ? 0 : std::exp(before - largest);
  const float sum = exponentials<true>(scores, scores, count, set(largest));
  state = {largest, state.sum * factor + sum};
  return factor;
}

template <int vectors>
void add_weighted_columns(const float* weights, const float* values, std::int64_t stride, std::int64_t count,
                          bool skips_zeros, float* y) {
  const D d;
  V sum[vectors];
  for (int j = 0; j < vectors; ++j) sum[j] = hn::LoadU(d, y + j * kLanes);
  for (std::int64_t i = 0; i < count; ++i) {
    if (weights[i] == 0 && skips_zeros) continue;
    const V weight = set(weights[i]);
    for (int j = 0; j < vectors; ++j)
      sum[j] = hn::MulAdd(weight, hn::LoadU(d, values + i * stride + j * kLanes), sum[j]);
  }
  for (int j = 0; j < vectors; ++j) hn::StoreU(sum[j], d, y + j * kLanes);
}

void add_weighted(const float* weights, const float* values, std::int64_t stride, std::int64_t size, std::int64_t count,
                  bool skips_zeros, float* y) {
  const D d;
  std::int64_t column = 0;
  for (; column + 4 * kLanes <= size; column += 4 * kLanes)
    add_weighted_columns<4>(weights, values + column, stride, count, skips_zeros, y + column);
  for (; column + kLanes <= size; column += kLanes)
    add_weighted_columns<1>(weights, values + column, stride, count, skips_zeros, y + column);
  if (column == size) return;
  const Mask part = hn::FirstN(d, static_cast<std::size_t>(size - column));
  V sum = hn::MaskedLoad(part, d, y + column);
  for (std::int64_t i = 0; i < count; ++i) {
    if (weights[i] != 0 || !skips_zeros)
      sum = hn::MulAdd(set(weights[i]), hn::MaskedLoad(part, d, values + i * stride + column), sum);
  }
  hn::BlendedStore(sum, part, d, y + column);
}

// Rounds masked products as the forward pass does: one multiplication, then additions.
template <bool has_mask, bool has_more>
void go_back_masked(const GradientRule& rule, float* products, float* gradients, std::int64_t count) {
  const D d;
  const V scale = set(rule.scale), largest = set(rule.largest), inverse = set(rule.inverse_sum), mean = set(rule.mean);
  const ScoreRule& masks = rule.rule;
  const auto step = [&](V s, V g, std::int64_t i, Mask part, V& weight) HWY_ATTR {
    const auto load = [&](const float* from) HWY_ATTR { return hn::MaskedLoad(part, d, from + i); };
    V score = hn::Mul(s, scale);
    if (has_mask) score = hn::Add(score, load(masks.mask));
    Mask is_replaced = hn::FirstN(d, 0);
    if constexpr (has_more) {
      if (masks.second_mask != nullptr) score = hn::Add(score, load(masks.second_mask));
      if (masks.replacement != nullptr) {
        const V replacement = load(masks.replacement);
        is_replaced = hn::Not(hn::IsNaN(replacement));
        score = hn::IfThenElse(is_replaced, replacement, score);
      }
    }
    V x = has_mask || has_more ? hn::Sub(score, largest) : hn::MulSub(s, scale, largest);
    // Rounding may make the largest score exceed itself.
    x = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Zero(d), x);
    weight = hn::Mul(math::exp_of_nonpositive(d, x), inverse);
    const V gradient = hn::Mul(hn::Mul(weight, hn::Sub(g, mean)), scale);
    const Mask has_none = hn::Eq(weight, hn::Zero(d));
    return hn::IfThenZeroElse(has_more ? hn::Or(has_none, is_replaced) : has_none, gradient);
  };
  std::int64_t i = 0;
  const Mask whole = hn::FirstN(d, kLanes);
  for (; i + kLanes <= count; i += kLanes) {
    V weight;
    const V gradient = step(hn::LoadU(d, products + i), hn::LoadU(d, gradients + i), i, whole, weight);
    hn::StoreU(weight, d, products + i);
    hn::StoreU(gradient, d, gradients + i);
  }
  if (i == count) return;
  const Mask part = hn::FirstN(d, static_cast<std::size_t>(count - i));
  V weight;
  const V gradient =
      step(hn::MaskedLoad(part, d, products + i), hn::MaskedLoad(part, d, gradients + i), i, part, weight);
  hn::BlendedStore(weight, part, d, products + i);
  hn::BlendedStore(gradient, part, d, gradients + i);
}

void go_back(const GradientRule& rule, float* products, float* gradients, std::int64_t count, std::int64_t width) {
  const bool has_mask = rule.rule.mask != nullptr,
             has_more = rule.rule.replacement != nullptr || rule.rule.second_mask != nullptr;
  if (rule.largest == -kInfinity) {
    if (!rule.propagates_nan) count = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool is_replaced = rule.rule.replacement != nullptr && !std::isnan(rule.rule.replacement[i]);
      products[i] = std::numeric_limits<float>::quiet_NaN();
      gradients[i] = is_replaced ? 0 : products[i];
    }
  } else if (has_more) {
    if (has_mask) go_back_masked<true, true>(rule, products, gradients, count);
    else go_back_masked<false, true>(rule, products, gradients, count);
  } else {
    if (has_mask) go_back_masked<true, false>(rule, products, gradients, count);
    else go_back_masked<false, false>(rule, products, gradients, count);
  }
  if (rule.rule.allowed != nullptr) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (!rule.rule.allowed[i]) products[i] = gradients[i] = 0;
    }
  }
  std::fill(products + count, products + width, 0.0f);
  std::fill(gradients + count, gradients + width, 0.0f);
}

void scale(const float* x, float factor, std::int64_t count, float* y) {
  const D d;
  if (factor == 0) return std::fill_n(y, count, 0.0f), void();
  const V by = set(factor);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), by), d, y + i);
  if (i == count) return;
  const Mask part = hn::FirstN(d, static_cast<std::size_t>(count - i));
  hn::BlendedStore(hn::Mul(hn::MaskedLoad(part, d, x + i), by), part, d, y + i);
}

// 0 · x is NaN if x is not finite.
struct SumOfNothing : Sum {
  HWY_INLINE V map(V x) const { return hn::Mul(x, hn::Zero(D())); }
};
bool is_finite(const float* x, std::int64_t count) {
  return reduce(SumOfNothing(), x, count) == 0;
}

bool join_pair(const std::uint16_t* first, const std::uint16_t* second, std::int64_t count, std::int64_t width,
               std::uint16_t* to) {
  const hn::RebindToUnsigned<D> d;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto exponent = hn::Set(d, 0x7F80u);
  auto finite = hn::FirstN(d, kLanes);
  const auto join = [&](auto low, auto high, std::int64_t i) HWY_ATTR {
    finite =
        hn::And(finite, hn::And(hn::Ne(hn::And(low, exponent), exponent), hn::Ne(hn::And(high, exponent), exponent)));
    hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), d, reinterpret_cast<std::uint32_t*>(to) + i);
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto low = hn::PromoteTo(d, hn::LoadU(d16, first + i));
    join(low, second != nullptr ? hn::PromoteTo(d, hn::LoadU(d16, second + i)) : hn::Zero(d), i);
  }
  for (; i < width; i += kLanes) {
    std::uint16_t rest[2][kLanes] = {};
    if (i < count) std::copy_n(first + i, count - i, rest[0]);
    if (i < count && second != nullptr) std::copy_n(second + i, count - i, rest[1]);
    join(hn::PromoteTo(d, hn::LoadU(d16, rest[0])), hn::PromoteTo(d, hn::LoadU(d16, rest[1])), i);
  }
  return hn::AllTrue(d, finite);
}

void from_f16(const std::uint16_t* x, std::int64_t count, float* y) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(d16, x + i))), d, y + i);
#endif
  for (; i < count; ++i) y[i] = base::to_float(f16_t{x[i]});
}

void to_f16(const float* x, std::int64_t count, std::uint16_t* y) {
  std::int64_t i = 0;
#if HWY_MAX_BYTES >= 32
  const D d;
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(hn::BitCast(d16, hn::DemoteTo(half, hn::LoadU(d, x + i))), d16, y + i);
#endif
  for (; i < count; ++i) y[i] = base::to_f16(x[i]).bits;
}

void from_s8(const std::int8_t* x, float factor, std::int64_t count, float* y) {
  const D d;
  const hn::RebindToSigned<D> whole;
  const hn::Rebind<std::int8_t, D> bytes;
  const V scale = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(hn::Mul(scale, hn::ConvertTo(d, hn::PromoteTo(whole, hn::LoadU(bytes, x + i)))), d, y + i);
  for (; i < count; ++i) y[i] = factor * static_cast<float>(x[i]);
}

}  // namespace

const AttentionRows* rows_of_isa() {
  static constexpr AttentionRows functions{scores,    weigh,     add_weighted, go_back, scale,
                                           is_finite, join_pair, from_f16,     to_f16,  from_s8};
  return &functions;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(rows_of_isa);

const AttentionRows& attention_rows() {
  return *HWY_DYNAMIC_DISPATCH(rows_of_isa)();
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
