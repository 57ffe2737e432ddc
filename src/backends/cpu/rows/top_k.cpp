// TopK of float32 along the last axis: whole vectors of values that are no better than the worst of the best k so far
// are skipped.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/rows/kernels.h"
#include "base/error.h"
#include "ops/core/shape_arguments.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/top_k.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {

// The first position, from `begin` on, of a value that is better than `bound` (larger if `largest`, else smaller) or
// NaN; `count` if there is none.
std::int64_t next_candidate(const float* x, std::int64_t begin, std::int64_t count, float bound, bool largest) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(d, bound);
  std::int64_t i = begin;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(d, x + i);
    const auto passed = largest ? hn::Le(value, limit) : hn::Ge(value, limit);
    const std::intptr_t at = hn::FindFirstTrue(d, hn::Not(passed));
    if (at >= 0) return i + at;
  }
  for (; i < count; ++i) {
    if (!(largest ? x[i] <= bound : x[i] >= bound)) return i;
  }
  return count;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(next_candidate);

// Elements per chunk.
constexpr std::int64_t kTopGrain = 16384;

struct Candidate {
  float value;
  std::int64_t index;
};

// Whether a precedes b: by value, with NaN larger than every number, then by index.
template <bool largest>
bool comes_first(const Candidate& a, const Candidate& b) {
  const bool no_number_a = std::isnan(a.value), no_number_b = std::isnan(b.value);
  if (no_number_a != no_number_b) return no_number_a == largest;
  if (!no_number_a && a.value != b.value) return largest ? a.value > b.value : a.value < b.value;
  return a.index < b.index;
}

// Finds the best k elements of a line, in order. `best` is a heap whose front is the worst of them.
template <bool largest>
void best_of_line(const float* x, std::int64_t count, std::int64_t k, std::vector<Candidate>& best) {
  best.clear();
  for (std::int64_t i = 0; i < k; ++i) best.push_back({x[i], i});
  std::make_heap(best.begin(), best.end(), comes_first<largest>);
  for (std::int64_t i = k; i < count; ++i) {
    i = HWY_DYNAMIC_DISPATCH(next_candidate)(x, i, count, best.front().value, largest);
    if (i == count) break;
    const Candidate candidate{x[i], i};
    if (!comes_first<largest>(candidate, best.front())) continue;
    std::pop_heap(best.begin(), best.end(), comes_first<largest>);
    best.back() = candidate;
    std::push_heap(best.begin(), best.end(), comes_first<largest>);
  }
  std::sort_heap(best.begin(), best.end(), comes_first<largest>);
}

}  // namespace

std::string reject_top_k(const ops::NodeView& view) {
  const ops::TensorType& x = view.input(0);
  if (x.dtype != DType::f32) return "takes f32";
  const auto rank = static_cast<std::int64_t>(x.shape.size());
  return rank > 0 && ops::normalise_axis(view.integer("axis"), rank) == rank - 1 ? "" : "takes the last axis";
}

void top_k(KernelContext& context) {
  const Tensor& input = context.input(0);
  const std::int64_t k = ops::single_integer(context.input(1), "K");
  Shape shape = input.shape();
  const std::int64_t count = shape.back();
  require(k >= 0 && k <= count, ErrorKind::failed, "K is {}, expected at most the dimension, {}", k, count);
  shape.back() = k;
  float* values = context.wants_output(0) ? context.allocate_output(0, shape).mutable_data<float>() : nullptr;
  std::int64_t* indices =
      context.wants_output(1) ? context.allocate_output(1, shape).mutable_data<std::int64_t>() : nullptr;
  if (k == 0 || element_count(shape) == 0) return;
  const auto best_of = context.integer("largest") != 0 ? best_of_line<true> : best_of_line<false>;
  const float* x = input.data<float>();
  context.parallel_for(input.elements() / count, std::max<std::int64_t>(1, kTopGrain / count),
                       [&](std::int64_t begin, std::int64_t end) {
                         std::vector<Candidate> best;
                         for (std::int64_t line = begin; line < end; ++line) {
                           best_of(x + line * count, count, k, best);
                           for (std::int64_t i = 0; i < k; ++i) {
                             const Candidate& found = best[static_cast<std::size_t>(i)];
                             if (values != nullptr) values[line * k + i] = found.value;
                             if (indices != nullptr) indices[line * k + i] = found.index;
                           }
                         }
                       });
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
