// SkipLayerNormalization, SkipSimplifiedLayerNormalization and EmbedLayerNormalization of float32: each row is summed,
// measured and normalised while it is in the first-level cache; rows of embeddings are read from their tables.
#include "ops/rows/skip_normalisation.h"

#include <cmath>

#include "backends/cpu/movement/movement.h"
#include "backends/cpu/rows/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/skip_normalisation.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/rows/normalisation_rows.h"

#ifndef TESSERA_BACKENDS_CPU_SKIP_NORMALISATION
#define TESSERA_BACKENDS_CPU_SKIP_NORMALISATION
namespace tessera::backends::cpu {

// The parameters of a row's normalisation; null shift and bias: none.
struct SkipRow {
  const float *scale = nullptr, *shift = nullptr, *bias = nullptr;
  std::int64_t count = 0;
  float epsilon = 0;
  bool centres = false;  // around the mean; otherwise around 0
};

struct RowStatistics {
  float mean = 0, factor = 0;
};

// sum = x + skip + bias; y = normalised sum. `sum` may be y.
using SkipRowFunction = RowStatistics (*)(const SkipRow& row, const float* x, const float* skip, float* sum, float* y);

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

// Writes one vector of the sum and returns its contribution to the reduction.
template <bool biased, class Reduction>
HWY_INLINE V add_vector(const Reduction& reduction, const SkipRow& row, const float* x, const float* skip, float* sum,
                        std::int64_t i) {
  const D d;
  V value = hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, skip + i));
  if constexpr (biased) value = hn::Add(value, hn::LoadU(d, row.bias + i));
  hn::StoreU(value, d, sum + i);
  return reduction.map(value);
}

// Writes the sum, and returns the sum of its elements or of their squares.
template <bool biased, class Reduction>
float add_rows(const Reduction& reduction, const SkipRow& row, const float* x, const float* skip, float* sum) {
  const D d;
  const std::int64_t lanes = lane_count();
  V a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 4 * lanes <= row.count; i += 4 * lanes) {
    a = hn::Add(a, add_vector<biased>(reduction, row, x, skip, sum, i));
    b = hn::Add(b, add_vector<biased>(reduction, row, x, skip, sum, i + lanes));
    c = hn::Add(c, add_vector<biased>(reduction, row, x, skip, sum, i + 2 * lanes));
    e = hn::Add(e, add_vector<biased>(reduction, row, x, skip, sum, i + 3 * lanes));
  }
  for (; i + lanes <= row.count; i += lanes) a = hn::Add(a, add_vector<biased>(reduction, row, x, skip, sum, i));
  if (i < row.count) {
    const Mask rest = hn::FirstN(d, static_cast<std::size_t>(row.count - i));
    V value = hn::Add(hn::MaskedLoad(rest, d, x + i), hn::MaskedLoad(rest, d, skip + i));
    if constexpr (biased) value = hn::Add(value, hn::MaskedLoad(rest, d, row.bias + i));
    hn::BlendedStore(value, rest, d, sum + i);
    b = hn::Add(b, reduction.map(value));
  }
  return join_lanes(reduction, hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

template <class Reduction>
float add_rows(const Reduction& reduction, const SkipRow& row, const float* x, const float* skip, float* sum) {
  return row.bias != nullptr ? add_rows<true>(reduction, row, x, skip, sum)
                             : add_rows<false>(reduction, row, x, skip, sum);
}

RowStatistics skip_row(const SkipRow& row, const float* x, const float* skip, float* sum, float* y) {
  const auto count = static_cast<float>(row.count);
  RowStatistics statistics;
  float variance = 0;
  if (row.centres) {
    statistics.mean = add_rows(Sum(), row, x, skip, sum) / count;
    variance = mean_square_around(sum, row.count, statistics.mean);
  } else {
    variance = add_rows(SumOfSquares(), row, x, skip, sum) / count;
  }
  statistics.factor = 1.0f / std::sqrt(variance + row.epsilon);
  scale_and_shift(sum, y, row.count, statistics.mean, statistics.factor, row.scale, row.shift);
  return statistics;
}

}  // namespace

SkipRowFunction skip_row_function() {
  return skip_row;
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(skip_row_function);

// Elements per chunk.
constexpr std::int64_t kGrain = 8192;

bool centres(const ops::NodeView& view) {
  return view.op().name == "com.microsoft::SkipLayerNormalization";
}

class SkipNormalisationKernel final : public Kernel {
 public:
  explicit SkipNormalisationKernel(const ops::NodeView& view)
      : function_(HWY_DYNAMIC_DISPATCH(skip_row_function)()),
        rows_(view.input(0).elements() / view.input(0).shape.back()),
        bias_(centres(view) ? 4 : 3) {
    row_.count = view.input(0).shape.back();
    row_.epsilon = view.real("epsilon");
    row_.centres = centres(view);
  }

  void run(KernelContext& context) const override {
    const auto optional = [&](std::size_t i) {
      return context.has_input(i) ? context.input(i).data<float>() : nullptr;
    };
    const auto wanted = [&](std::size_t i) {
      return context.wants_output(i) ? context.output(i).mutable_data<float>() : nullptr;
    };
    SkipRow row = row_;
    row.scale = context.input(2).data<float>();
    row.shift = row_.centres ? optional(3) : nullptr;
    row.bias = optional(bias_);
    const float *x = context.input(0).data<float>(), *skip = context.input(1).data<float>();
    float *y = context.output(0).mutable_data<float>(), *means = wanted(1), *factors = wanted(2), *sums = wanted(3);
    context.parallel_for(rows_, std::max<std::int64_t>(1, kGrain / row.count),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             const std::int64_t at = i * row.count;
                             const RowStatistics statistics =
                                 function_(row, x + at, skip + at, (sums != nullptr ? sums : y) + at, y + at);
                             if (means != nullptr) means[i] = statistics.mean;
                             if (factors != nullptr) factors[i] = statistics.factor;
                           }
                         });
  }

 private:
  SkipRowFunction function_;
  std::int64_t rows_;
  std::size_t bias_;  // index of its input
  SkipRow row_;
};

// Rows of a table selected by ids; without ids, row i of each sequence is row i of the table.
class LookUp {
 public:
  LookUp(const Tensor* table, const Tensor* ids, std::int64_t length)
      : table_(table == nullptr ? nullptr : table->data<float>()),
        rows_(table == nullptr ? 0 : table->shape()[0]),
        width_(table == nullptr ? 0 : table->shape()[1]),
        ids_(ids),
        count_(ids == nullptr ? length : ids->elements()) {}

  const float* row(std::int64_t i) const {
    if (table_ == nullptr) return nullptr;
    const std::int64_t at = i % count_;
    const std::int64_t id = ids_ == nullptr               ? at
                            : ids_->dtype() == DType::i64 ? ids_->data<std::int64_t>()[at]
                                                          : ids_->data<std::int32_t>()[at];
    return table_ + checked_index(id, rows_) * width_;
  }

 private:
  const float* table_;
  std::int64_t rows_, width_;
  const Tensor* ids_;
  std::int64_t count_;
};

class EmbeddingKernel final : public Kernel {
 public:
  explicit EmbeddingKernel(const ops::NodeView& view)
      : function_(HWY_DYNAMIC_DISPATCH(skip_row_function)()),
        rows_(view.input(kIds).elements()),
        length_(view.input(kIds).shape[1]) {
    row_.count = view.output(0).shape.back();
    row_.epsilon = view.real("epsilon");
    row_.centres = true;
  }

  void run(KernelContext& context) const override {
    const auto input = [&](std::size_t i) { return context.has_input(i) ? &context.input(i) : nullptr; };
    const LookUp words(input(kWords), input(kIds), length_), positions(input(kPositions), input(kPositionIds), length_),
        segments(input(kSegments), input(kSegmentIds), length_);
    float *y = context.output(0).mutable_data<float>(),
          *sums = context.wants_output(2) ? context.output(2).mutable_data<float>() : y;
    context.parallel_for(rows_, std::max<std::int64_t>(1, kGrain / row_.count),
                         [&](std::int64_t begin, std::int64_t end) {
                           SkipRow row = row_;
                           row.scale = context.input(kScale).data<float>();
                           row.shift = context.input(kShift).data<float>();
                           for (std::int64_t i = begin; i < end; ++i) {
                             row.bias = segments.row(i);
                             function_(row, words.row(i), positions.row(i), sums + i * row.count, y + i * row.count);
                           }
                         });
  }

  enum Input : std::size_t { kIds, kSegmentIds, kWords, kPositions, kSegments, kScale, kShift, kMask, kPositionIds };

 private:
  SkipRowFunction function_;
  std::int64_t rows_, length_;
  SkipRow row_;
};

}  // namespace

std::string reject_embedding(const ops::NodeView& view) {
  if (view.input(EmbeddingKernel::kWords).dtype != DType::f32) return "takes f32";
  if (view.output(0).elements() == 0) return "normalises no empty tensor";
  return view.wants_output(1) ? "counts no masks" : "";
}

KernelPointer make_embedding(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<EmbeddingKernel>(view);
}

std::string reject_skip_normalisation(const ops::NodeView& view) {
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (view.has_input(i) && view.input(i).dtype != DType::f32) return "takes f32";
  }
  if (view.input(0).elements() == 0) return "normalises no empty tensor";
  return view.input(0).shape == view.input(1).shape ? "" : "wants a skip connection of the same shape";
}

KernelPointer make_skip_normalisation(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<SkipNormalisationKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
