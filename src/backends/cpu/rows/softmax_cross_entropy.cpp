// Cross-entropy of softmax and its gradient in float32. The classes of a sample are contiguous and vectorised as a row,
// or the samples at neighbouring positions are vectorised together.
#include "ops/training/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/rows/kernels.h"
#include "base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/softmax_cross_entropy.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/machine/vector_loop.h"
#include "backends/cpu/rows/exponential_rows.h"

#ifndef TESSERA_BACKENDS_CPU_SOFTMAX_CROSS_ENTROPY
#define TESSERA_BACKENDS_CPU_SOFTMAX_CROSS_ENTROPY
namespace tessera::backends::cpu {

struct ScoreSums {
  float largest = 0, exponentials = 0, total = 0;  // Σ exp(x − largest), Σ (x − largest)
};

struct CrossEntropyFunctions {
  ScoreSums (*row)(const float* x, std::int64_t classes, bool totals);
  // Computes the sums of `count` positions whose classes are `stride` apart.
  void (*columns)(const float* x, std::int64_t classes, std::int64_t stride, std::int64_t count, float* largest,
                  float* exponentials, float* totals);
  // dx = g · (exp(x − log_sum) − base)
  void (*row_gradient)(const float* x, float* dx, std::int64_t classes, float log_sum, float g, float base);
  // As row_gradient, for `count` positions; 0 where g is 0.
  void (*columns_gradient)(const float* x, float* dx, std::int64_t classes, std::int64_t stride, std::int64_t count,
                           const float* log_sums, const float* g, float base);
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

struct CentredSum : Sum {
  V centre;
  HWY_INLINE V map(V x) const { return hn::Sub(x, centre); }
};

ScoreSums row_sums(const float* x, std::int64_t classes, bool totals) {
  ScoreSums sums;
  sums.largest = reduce(Largest(), x, classes);
  sums.exponentials = exponentials<false>(x, nullptr, classes, set(sums.largest));
  if (!totals) return sums;
  CentredSum centred;
  centred.centre = set(sums.largest);
  sums.total = reduce(centred, x, classes);
  return sums;
}

void column_sums(const float* x, std::int64_t classes, std::int64_t stride, std::int64_t count, float* largest,
                 float* exponentials, float* totals) {
  for_each_vector(count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    V most = load(x + i);
    for (std::int64_t c = 1; c < classes; ++c) most = Largest().join(most, load(x + i + c * stride));
    V sum = set(0), total = set(0);
    for (std::int64_t c = 0; c < classes; ++c) {
      const V centred = hn::Sub(load(x + i + c * stride), most);
      sum = hn::Add(sum, math::exp_of_nonpositive(D(), centred));
      total = hn::Add(total, centred);
    }
    store(most, largest + i);
    store(sum, exponentials + i);
    store(total, totals + i);
  });
}

// exp(x − log_sum), at most 1 but for rounding.
HWY_INLINE V probability(V x, V log_sum) {
  const V exponent = hn::Sub(x, log_sum);
  return math::exp_of_nonpositive(D(), hn::IfThenElse(hn::Gt(exponent, set(0)), set(0), exponent));
}

void row_gradient(const float* x, float* dx, std::int64_t classes, float log_sum, float g, float base) {
  for_each_vector(classes, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    store(hn::Mul(set(g), hn::Sub(probability(load(x + i), set(log_sum)), set(base))), dx + i);
  });
}

void column_gradients(const float* x, float* dx, std::int64_t classes, std::int64_t stride, std::int64_t count,
                      const float* log_sums, const float* g, float base) {
  for_each_vector(count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    const V slope = load(g + i), log_sum = load(log_sums + i);
    const Mask counts = hn::Ne(slope, set(0));
    for (std::int64_t c = 0; c < classes; ++c) {
      const std::int64_t at = i + c * stride;
      const V difference = hn::Sub(probability(load(x + at), log_sum), set(base));
      store(hn::IfThenElseZero(counts, hn::Mul(slope, difference)), dx + at);
    }
  });
}

}  // namespace

CrossEntropyFunctions cross_entropy_functions() {
  return {row_sums, column_sums, row_gradient, column_gradients};
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(cross_entropy_functions);

constexpr std::int64_t kChunkElements = 8192;
constexpr std::int64_t kPositions = 64;  // at once: a multiple of every vector length

// Scores [outer, classes, inner]; labels [outer, inner].
class CrossEntropy : public Kernel {
 protected:
  CrossEntropy(const ops::NodeView& view, const Shape& shape)
      : functions_(HWY_DYNAMIC_DISPATCH(cross_entropy_functions)()),
        ignored_(view.integer("ignore_index")),
        smoothing_(view.real("label_smoothing")) {
    const auto axis =
        static_cast<std::size_t>(ops::normalise_axis(view.integer("axis"), static_cast<std::int64_t>(shape.size())));
    for (std::size_t i = 0; i < axis; ++i) outer_ *= shape[i];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner_ *= shape[i];
    classes_ = shape[axis];
  }

  bool counts(std::int64_t label) const {
    if (label == ignored_) return false;
    require(label >= 0 && label < classes_, ErrorKind::failed, "label {} is outside [0, {})", label, classes_);
    return true;
  }

  // Calls row(line) for each line of contiguous classes, or columns(first score, first line, lines) for lines of
  // neighbouring positions.
  template <typename Row, typename Columns>
  void for_each_line(KernelContext& context, const Row& row, const Columns& columns) const {
    if (inner_ == 1) {
      const std::int64_t grain = std::max<std::int64_t>(1, kChunkElements / classes_);
      return context.parallel_for(outer_, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t line = begin; line < end; ++line) row(line);
      });
    }
    const std::int64_t blocks = (inner_ + kPositions - 1) / kPositions;
    const std::int64_t grain = std::max<std::int64_t>(1, kChunkElements / (classes_ * std::min(inner_, kPositions)));
    context.parallel_for(outer_ * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t slab = item / blocks, first = item % blocks * kPositions;
        columns(slab * classes_ * inner_ + first, slab * inner_ + first, std::min(kPositions, inner_ - first));
      }
    });
  }

  CrossEntropyFunctions functions_;
  std::int64_t ignored_, outer_ = 1, classes_ = 1, inner_ = 1;
  float smoothing_;
};

class CrossEntropyForward final : public CrossEntropy {
 public:
  explicit CrossEntropyForward(const ops::NodeView& view) : CrossEntropy(view, view.input(0).shape) {}

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    const std::int64_t* labels = context.input(1).data<std::int64_t>();
    float *losses = context.output(0).mutable_data<float>(), *log_sums = context.output(1).mutable_data<float>();
    const auto finish = [&](std::int64_t line, const float* scores, const ScoreSums& sums) {
      const float log_sum = std::log(sums.exponentials);
      log_sums[line] = sums.largest + log_sum;
      losses[line] = 0;
      if (!counts(labels[line])) return;
      losses[line] = log_sum - (1 - smoothing_) * (scores[labels[line] * inner_] - sums.largest);
      if (smoothing_ > 0) losses[line] -= smoothing_ * sums.total / static_cast<float>(classes_);
    };
    for_each_line(
        context,
        [&](std::int64_t line) {
          const float* row = x + line * classes_;
          finish(line, row, functions_.row(row, classes_, smoothing_ > 0));
        },
        [&](std::int64_t from, std::int64_t first, std::int64_t count) {
          float largest[kPositions], exponentials[kPositions], totals[kPositions];
          functions_.columns(x + from, classes_, inner_, count, largest, exponentials, totals);
          for (std::int64_t i = 0; i < count; ++i)
            finish(first + i, x + from + i, {largest[i], exponentials[i], totals[i]});
        });
  }
};

class CrossEntropyBackward final : public CrossEntropy {
 public:
  explicit CrossEntropyBackward(const ops::NodeView& view) : CrossEntropy(view, view.input(1).shape) {}

  void run(KernelContext& context) const override {
    const float *g = context.input(0).data<float>(), *x = context.input(1).data<float>(),
                *log_sums = context.input(3).data<float>();
    const std::int64_t* labels = context.input(2).data<std::int64_t>();
    float* dx = context.output(0).mutable_data<float>();
    const float base = smoothing_ / static_cast<float>(classes_), rest = 1 - smoothing_;
    for_each_line(
        context,
        [&](std::int64_t line) {
          float* row = dx + line * classes_;
          if (!counts(labels[line])) return std::fill_n(row, classes_, 0.0f), void();
          functions_.row_gradient(x + line * classes_, row, classes_, log_sums[line], g[line], base);
          row[labels[line]] -= g[line] * rest;
        },
        [&](std::int64_t from, std::int64_t first, std::int64_t count) {
          float slopes[kPositions];
          for (std::int64_t i = 0; i < count; ++i) slopes[i] = counts(labels[first + i]) ? g[first + i] : 0;
          functions_.columns_gradient(x + from, dx + from, classes_, inner_, count, log_sums + first, slopes, base);
          for (std::int64_t i = 0; i < count; ++i) {
            if (slopes[i] != 0) dx[from + i + labels[first + i] * inner_] -= slopes[i] * rest;
          }
        });
  }
};

std::string reject(const ops::NodeView& view, std::size_t labels) {
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (i != labels && view.input(i).dtype != DType::f32) return "takes f32";
  }
  if (view.input(labels).dtype != DType::i64) return "takes labels in i64";
  return view.input(labels - 1).elements() == 0 ? "takes no empty tensor" : "";
}

}  // namespace

std::string reject_softmax_cross_entropy(const ops::NodeView& view) {
  return reject(view, 1);
}
KernelPointer make_softmax_cross_entropy(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<CrossEntropyForward>(view);
}

std::string reject_softmax_cross_entropy_gradient(const ops::NodeView& view) {
  return reject(view, 2);
}
KernelPointer make_softmax_cross_entropy_gradient(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<CrossEntropyBackward>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
