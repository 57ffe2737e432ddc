// Reductions of float32 over any axes. Neighbouring axes that are both kept or both reduced are merged. If the
// innermost axis is reduced, works along rows; if it is kept, works across rows, on many columns at a time.
#include "ops/rows/reduction.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/rows/kernels.h"
#include "backends/cpu/rows/reduction_geometry.h"
#include "ops/core/shape_arguments.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/reduction.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/rows/vector_rows.h"

#ifndef TESSERA_BACKENDS_CPU_REDUCTION
#define TESSERA_BACKENDS_CPU_REDUCTION
namespace tessera::backends::cpu {

struct ReductionFunctions {
  // Returns `before` joined with all elements of the row.
  float (*row)(const float* x, std::int64_t count, float before);
  // y[i] = y[i] joined with x[i], x[i + stride] … over `rows` rows; if `first`, y is not read.
  void (*columns)(const float* x, std::int64_t rows, std::int64_t stride, float* y, std::int64_t count, bool first);
  // y[i] = reduction of row i of x, for many contiguous short rows of `length` elements.
  void (*short_rows)(const float* x, std::int64_t rows, std::int64_t length, float* y);
  float neutral;
};

// Rows up to this length are reduced with one row per lane.
inline constexpr std::int64_t kShortRow = 32;

enum class ReductionKind { sum, magnitudes, squares, product, largest, smallest };

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

template <class Reduction>
float reduce_row(const float* x, std::int64_t count, float before) {
  const Reduction reduction;
  return hn::GetLane(reduction.join(set(before), set(reduce(reduction, x, count))));
}

template <class Reduction>
void reduce_columns(const float* x, std::int64_t rows, std::int64_t stride, float* y, std::int64_t count, bool first) {
  const D d;
  const Reduction reduction;
  const std::int64_t lanes = lane_count();
  const V neutral = set(Reduction::neutral);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    V a = first ? neutral : hn::LoadU(d, y + i), b = first ? neutral : hn::LoadU(d, y + i + lanes);
    V c = first ? neutral : hn::LoadU(d, y + i + 2 * lanes), e = first ? neutral : hn::LoadU(d, y + i + 3 * lanes);
    const float* from = x + i;
    for (std::int64_t row = 0; row < rows; ++row, from += stride) {
      a = reduction.join(a, reduction.map(hn::LoadU(d, from)));
      b = reduction.join(b, reduction.map(hn::LoadU(d, from + lanes)));
      c = reduction.join(c, reduction.map(hn::LoadU(d, from + 2 * lanes)));
      e = reduction.join(e, reduction.map(hn::LoadU(d, from + 3 * lanes)));
    }
    hn::StoreU(a, d, y + i);
    hn::StoreU(b, d, y + i + lanes);
    hn::StoreU(c, d, y + i + 2 * lanes);
    hn::StoreU(e, d, y + i + 3 * lanes);
  }
  for (; i < count; i += lanes) {
    const Mask part = hn::FirstN(d, static_cast<std::size_t>(std::min(lanes, count - i)));
    V a = first ? neutral : hn::MaskedLoad(part, d, y + i);
    const float* from = x + i;
    for (std::int64_t row = 0; row < rows; ++row, from += stride) {
      a = reduction.join(a, reduction.map(hn::MaskedLoad(part, d, from)));
    }
    hn::BlendedStore(a, part, d, y + i);
  }
}

// Reduces as many rows as there are lanes.
template <class Reduction>
void reduce_rows_in_lanes(const float* x, std::int64_t length, float* y) {
  const D d;
  const hn::RebindToSigned<D> integers;
  const Reduction reduction;
  const auto starts = hn::Mul(hn::Iota(integers, 0), hn::Set(integers, static_cast<std::int32_t>(length)));
  V value = reduction.map(hn::GatherIndex(d, x, starts));
  for (std::int64_t k = 1; k < length; ++k)
    value = reduction.join(value, reduction.map(hn::GatherIndex(d, x + k, starts)));
  hn::StoreU(value, d, y);
}

// The result of a row does not depend on its position: the last vector of rows overlaps the previous one.
template <class Reduction>
void reduce_short_rows(const float* x, std::int64_t rows, std::int64_t length, float* y) {
  const std::int64_t lanes = lane_count();
  for (std::int64_t i = 0; i + lanes <= rows; i += lanes)
    reduce_rows_in_lanes<Reduction>(x + i * length, length, y + i);
  if (rows % lanes == 0) return;
  if (rows > lanes) return reduce_rows_in_lanes<Reduction>(x + (rows - lanes) * length, length, y + rows - lanes);
  float values[kShortRow * 16] = {}, results[16];
  static_assert(HWY_MAX_BYTES <= 16 * sizeof(float));
  std::copy_n(x, rows * length, values);
  reduce_rows_in_lanes<Reduction>(values, length, results);
  std::copy_n(results, rows, y);
}

template <class Reduction>
ReductionFunctions functions_of() {
  return {reduce_row<Reduction>, reduce_columns<Reduction>, reduce_short_rows<Reduction>, Reduction::neutral};
}

}  // namespace

ReductionFunctions reduction_functions(ReductionKind kind) {
  switch (kind) {
    case ReductionKind::magnitudes:
      return functions_of<SumOfMagnitudes>();
    case ReductionKind::squares:
      return functions_of<SumOfSquares>();
    case ReductionKind::product:
      return functions_of<ProductOfRow>();
    case ReductionKind::largest:
      return functions_of<Largest>();
    case ReductionKind::smallest:
      return functions_of<Smallest>();
    case ReductionKind::sum:
      break;
  }
  return functions_of<Sum>();
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(reduction_functions);

// Elements per chunk.
constexpr std::int64_t kGrain = 16384;
// Columns reduced together: whole cache lines, a multiple of every vector length.
constexpr std::int64_t kColumnBlock = 256;
// Rows that are summed before their sum is joined with others: in one long sum of floats small terms would be lost.
constexpr std::int64_t kRowBlock = 128;
constexpr std::int64_t kLineBlock = 4096;  // likewise for elements of a row, which are summed in many lanes
// The most pieces that many rows are cut into, for threads.
constexpr std::int64_t kMostPieces = 32;

// The reduction that joins partial results: squares and magnitudes are joined by addition.
ReductionKind joining(ReductionKind kind) {
  return kind == ReductionKind::squares || kind == ReductionKind::magnitudes ? ReductionKind::sum : kind;
}

enum class Finish { none, mean, square_root, logarithm };

struct ReductionName {
  std::string_view op;
  ReductionKind kind;
  Finish finish = Finish::none;
};
constexpr ReductionName kNames[] = {
    {"ReduceL1", ReductionKind::magnitudes},
    {"ReduceL2", ReductionKind::squares, Finish::square_root},
    {"ReduceLogSum", ReductionKind::sum, Finish::logarithm},
    {"ReduceMax", ReductionKind::largest},
    {"ReduceMean", ReductionKind::sum, Finish::mean},
    {"ReduceMin", ReductionKind::smallest},
    {"ReduceProd", ReductionKind::product},
    {"ReduceSum", ReductionKind::sum},
    {"ReduceSumSquare", ReductionKind::squares},
};

class ReductionKernel final : public Kernel {
 public:
  ReductionKernel(const ReductionName& name, const Shape& shape, const std::vector<std::int64_t>& axes)
      : functions_(HWY_DYNAMIC_DISPATCH(reduction_functions)(name.kind)),
        join_(HWY_DYNAMIC_DISPATCH(reduction_functions)(joining(name.kind))),
        finish_(name.finish) {
    ReductionGeometry geometry(shape, axes);
    kept_ = std::move(geometry.kept);
    reduced_ = std::move(geometry.reduced);
    along_rows_ = geometry.along_rows;
    line_ = geometry.line;
    group_ = geometry.group;
    results_ = geometry.results;
    // The innermost reduced axis is passed as a whole.
    if (!along_rows_ && !reduced_.empty()) {
      rows_ = reduced_.back();
      reduced_.pop_back();
    }
    if (!along_rows_ && reduced_.empty() && results_ * blocks() < kMostPieces) {
      pieces_ = std::clamp<std::int64_t>(rows_.count * std::min(line_, kColumnBlock) / kGrain, 1,
                                         std::min(kMostPieces, rows_.count));
    }
  }

  std::int64_t scratch_bytes() const override { return pieces_ == 1 ? 0 : results_ * pieces_ * line_ * 4; }

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    float* y = context.output(0).mutable_data<float>();
    if (along_rows_) {
      const std::int64_t grain = std::max<std::int64_t>(1, kGrain / group_);
      if (reduced_.empty() && kept_.size() == 1 && line_ <= kShortRow) {
        return context.parallel_for(results_, grain, [&](std::int64_t begin, std::int64_t end) {
          functions_.short_rows(x + begin * line_, end - begin, line_, y + begin);
          finish(y + begin, end - begin);
        });
      }
      return context.parallel_for(results_, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) y[i] = reduce_rows(x + offset_of(kept_, i));
      });
    }
    if (pieces_ > 1) return run_in_pieces(context, x, y);
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (group_ * std::min(line_, kColumnBlock)));
    context.parallel_for(results_ * blocks(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t first = item % blocks() * kColumnBlock;
        reduce_block(x + offset_of(kept_, item / blocks()) + first, y + item / blocks() * line_ + first,
                     std::min(kColumnBlock, line_ - first));
      }
    });
  }

 private:
  std::int64_t blocks() const { return (line_ + kColumnBlock - 1) / kColumnBlock; }

  // For few results of many rows: reduces each piece of the rows, then joins all pieces of a result.
  void run_in_pieces(KernelContext& context, const float* x, float* y) const {
    auto* parts = reinterpret_cast<float*>(context.scratch());
    context.parallel_for(results_ * blocks() * pieces_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t piece = item % pieces_, first = item / pieces_ % blocks() * kColumnBlock,
                           result = item / pieces_ / blocks();
        const std::int64_t row = rows_.count * piece / pieces_, count = rows_.count * (piece + 1) / pieces_ - row;
        reduce_columns(x + offset_of(kept_, result) + row * rows_.stride + first, count,
                       parts + (result * pieces_ + piece) * line_ + first, std::min(kColumnBlock, line_ - first), true);
      }
    });
    for (std::int64_t result = 0; result < results_; ++result) {
      join_.columns(parts + result * pieces_ * line_, pieces_, line_, y + result * line_, line_, true);
    }
    finish(y, results_ * line_);
  }

  // Reduces columns [0, count) of `rows` rows, joined with the values of y unless `first`.
  void reduce_columns(const float* x, std::int64_t rows, float* y, std::int64_t count, bool first) const {
    float sums[kColumnBlock];
    for (std::int64_t row = 0; row < rows; row += kRowBlock, first = false) {
      functions_.columns(x + row * rows_.stride, std::min(kRowBlock, rows - row), rows_.stride, sums, count, true);
      join_.columns(sums, 1, count, y, count, first);
    }
  }

  void finish(float* y, std::int64_t count) const {
    if (finish_ == Finish::none) return;
    for (std::int64_t i = 0; i < count; ++i) y[i] = finished(y[i]);
  }

  float reduce_rows(const float* x) const {
    float value = functions_.neutral;
    for_each_offset(reduced_.data(), reduced_.size(), 0, [&](std::int64_t offset) {
      for (std::int64_t i = 0; i < line_; i += kLineBlock) {
        const float part = functions_.row(x + offset + i, std::min(kLineBlock, line_ - i), functions_.neutral);
        value = join_.row(&part, 1, value);
      }
    });
    return finished(value);
  }

  void reduce_block(const float* x, float* y, std::int64_t count) const {
    bool first = true;
    for_each_offset(reduced_.data(), reduced_.size(), 0, [&](std::int64_t offset) {
      reduce_columns(x + offset, rows_.count, y, count, first);
      first = false;
    });
    finish(y, count);
  }

  float finished(float value) const {
    switch (finish_) {
      case Finish::mean:
        return value / static_cast<float>(group_);
      case Finish::square_root:
        return std::sqrt(value);
      case Finish::logarithm:
        return std::log(value);
      case Finish::none:
        break;
    }
    return value;
  }

  ReductionFunctions functions_, join_;
  Finish finish_;
  std::vector<ReductionAxis> kept_, reduced_;  // without the innermost axis of the tensor; outermost first
  ReductionAxis rows_{1, 0};                   // across rows: the innermost reduced axis
  bool along_rows_ = false;                    // whether the innermost axis is reduced
  std::int64_t pieces_ = 1;
  std::int64_t line_ = 1, group_ = 1,
               results_ = 1;  // as in ReductionGeometry
};

}  // namespace

std::string reject_reduction(const ops::NodeView& view) {
  if (view.input(0).dtype != DType::f32) return "takes f32";
  if (view.has_input(1) && view.constant(1) == nullptr) return "wants axes that are known before the run";
  return view.input(0).elements() == 0 ? "reduces no empty tensor" : "";
}

KernelPointer make_reduction(const ops::NodeView& view, WeightStore&) {
  std::vector<std::int64_t> given;
  if (view.has_input(1)) given = ops::integers_of(*view.constant(1));
  const Shape& shape = view.input(0).shape;
  const auto axes =
      ops::reduction_axes(given, static_cast<std::int64_t>(shape.size()), view.integer("noop_with_empty_axes") != 0);
  for (const ReductionName& name : kNames) {
    if (name.op == view.op().name) return std::make_unique<ReductionKernel>(name, shape, axes);
  }
  return nullptr;
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
