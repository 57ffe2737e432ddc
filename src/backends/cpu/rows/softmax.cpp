// Softmax and LogSoftmax of float32 along any axis: contiguous lines are vectorised along their elements, others across
// lines.
#include "ops/rows/softmax.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/rows/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/softmax.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/rows/exponential_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

// One vector of a row: store(i, value) writes all lanes, or those of a mask.
struct WholeVector {
  HWY_INLINE V load(const float* x) const { return hn::LoadU(D(), x); }
  HWY_INLINE void store(V value, float* y) const { hn::StoreU(value, D(), y); }
};
struct PartOfVector {
  Mask mask;
  HWY_INLINE V load(const float* x) const { return hn::MaskedLoad(mask, D(), x); }
  HWY_INLINE void store(V value, float* y) const { hn::BlendedStore(value, mask, D(), y); }
};

// y = x * scale + shift
HWY_INLINE void scale_row(const float* x, float* y, std::int64_t count, V scale, V shift) {
  const D d;
  std::int64_t i = 0;
  for (; i + lane_count() <= count; i += lane_count())
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), scale, shift), d, y + i);
  if (i == count) return;
  const PartOfVector part{hn::FirstN(d, static_cast<std::size_t>(count - i))};
  part.store(hn::MulAdd(part.load(x + i), scale, shift), y + i);
}

void softmax_row(const float* x, float* y, std::int64_t count) {
  const float largest = reduce(Largest(), x, count);
  const float sum = exponentials<true>(x, y, count, set(largest));
  scale_row(y, y, count, set(1.0f / sum), hn::Zero(D()));
}

void log_softmax_row(const float* x, float* y, std::int64_t count) {
  const float largest = reduce(Largest(), x, count);
  const float sum = exponentials<false>(x, y, count, set(largest));
  // Subtracts `largest` first: the difference is exact if both are close.
  const V shift = set(std::log(sum)), top = set(largest);
  const D d;
  for (std::int64_t i = 0; i < count; i += lane_count()) {
    const PartOfVector part{hn::FirstN(d, static_cast<std::size_t>(count - i))};
    part.store(hn::Sub(hn::Sub(part.load(x + i), top), shift), y + i);
  }
}

// Computes one vector of neighbouring lines of `length` elements, `stride` apart.
template <bool logarithm, class Part>
HWY_INLINE void column(const Part& part, const float* x, float* y, std::int64_t length, std::int64_t stride) {
  const D d;
  V largest = part.load(x);
  for (std::int64_t i = 1; i < length; ++i) largest = Largest().join(largest, part.load(x + i * stride));
  V sum = hn::Zero(d);
  for (std::int64_t i = 0; i < length; ++i) {
    const V e = math::exp_of_nonpositive(d, hn::Sub(part.load(x + i * stride), largest));
    sum = hn::Add(sum, e);
    if constexpr (!logarithm) part.store(e, y + i * stride);
  }
  const V last = logarithm ? math::log(d, sum) : hn::Div(set(1), sum);
  for (std::int64_t i = 0; i < length; ++i) {
    float* to = y + i * stride;
    if constexpr (logarithm) part.store(hn::Sub(hn::Sub(part.load(x + i * stride), largest), last), to);
    else part.store(hn::Mul(part.load(to), last), to);
  }
}

template <bool logarithm>
void columns(const float* x, float* y, std::int64_t length, std::int64_t inner, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  for (; i + lane_count() <= end; i += lane_count()) column<logarithm>(WholeVector(), x + i, y + i, length, inner);
  if (i == end) return;
  const PartOfVector part{hn::FirstN(D(), static_cast<std::size_t>(end - i))};
  column<logarithm>(part, x + i, y + i, length, inner);
}

// Lines up to this length are computed with one line per lane.
constexpr std::int64_t kShortSoftmax = 16;

// Contiguous short lines: transposes as many as there are lanes, computes them as columns and transposes back.
template <bool logarithm>
void short_lines(const float* x, float* y, std::int64_t lines, std::int64_t length) {
  const std::int64_t lanes = lane_count();
  HWY_ALIGN float turned[kShortSoftmax * hn::MaxLanes(D())] = {};
  for (std::int64_t line = 0; line < lines; line += lanes, x += lanes * length, y += lanes * length) {
    const std::int64_t count = std::min(lanes, lines - line);
    for (std::int64_t k = 0; k < count; ++k) {
      for (std::int64_t i = 0; i < length; ++i) turned[i * lanes + k] = x[k * length + i];
    }
    column<logarithm>(WholeVector(), turned, turned, length, lanes);
    for (std::int64_t k = 0; k < count; ++k) {
      for (std::int64_t i = 0; i < length; ++i) y[k * length + i] = turned[i * lanes + k];
    }
  }
}

}  // namespace

// Computes `rows` contiguous lines.
void softmax_rows(bool logarithm, const float* x, float* y, std::int64_t rows, std::int64_t length) {
  if (length <= kShortSoftmax)
    return logarithm ? short_lines<true>(x, y, rows, length) : short_lines<false>(x, y, rows, length);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (logarithm) log_softmax_row(x + row * length, y + row * length, length);
    else softmax_row(x + row * length, y + row * length, length);
  }
}

// Computes the lines [begin, end) of `inner` lines whose elements are `inner` apart.
void softmax_columns(bool logarithm, const float* x, float* y, std::int64_t length, std::int64_t inner,
                     std::int64_t begin, std::int64_t end) {
  if (logarithm) columns<true>(x, y, length, inner, begin, end);
  else columns<false>(x, y, length, inner, begin, end);
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(softmax_columns);

// Elements per chunk.
constexpr std::int64_t kGrain = 8192;
// Lines per chunk if vectorised across lines: a multiple of every vector length, and whole cache lines.
constexpr std::int64_t kColumnBlock = 64;

class SoftmaxKernel final : public Kernel {
 public:
  explicit SoftmaxKernel(const ops::NodeView& view)
      : rows_(HWY_DYNAMIC_DISPATCH(softmax_rows)),
        columns_(HWY_DYNAMIC_DISPATCH(softmax_columns)),
        logarithm_(view.op().name == "LogSoftmax") {
    const Shape& shape = view.input(0).shape;
    const auto axis =
        static_cast<std::size_t>(ops::normalise_axis(view.integer("axis"), static_cast<std::int64_t>(shape.size())));
    if (element_count(shape) == 0) return;
    length_ = shape[axis];
    for (std::size_t i = 0; i < axis; ++i) outer_ *= shape[i];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner_ *= shape[i];
  }

  void run(KernelContext& context) const override {
    if (length_ == 0) return;
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    if (inner_ == 1) {
      const std::int64_t grain = std::max<std::int64_t>(1, kGrain / length_);
      return context.parallel_for(outer_, grain, [&](std::int64_t begin, std::int64_t end) {
        rows_(logarithm_, x + begin * length_, y + begin * length_, end - begin, length_);
      });
    }
    const std::int64_t blocks = (inner_ + kColumnBlock - 1) / kColumnBlock;
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (length_ * std::min(inner_, kColumnBlock)));
    context.parallel_for(outer_ * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t slab = item / blocks * length_ * inner_, first = item % blocks * kColumnBlock;
        columns_(logarithm_, x + slab, y + slab, length_, inner_, first, std::min(inner_, first + kColumnBlock));
      }
    });
  }

 private:
  decltype(&HWY_STATIC_DISPATCH(softmax_rows)) rows_;
  decltype(&HWY_STATIC_DISPATCH(softmax_columns)) columns_;
  bool logarithm_;
  std::int64_t outer_ = 1, length_ = 0, inner_ = 1;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<SoftmaxKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
