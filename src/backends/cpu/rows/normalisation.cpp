// Normalisations of float32. Variances are computed around the mean in a second pass over the row, which is in a cache
// by then.
#include "ops/rows/normalisation.h"

#include <cmath>

#include "backends/cpu/rows/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/normalisation.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/rows/normalisation_rows.h"

#ifndef TESSERA_BACKENDS_CPU_NORMALISATION
#define TESSERA_BACKENDS_CPU_NORMALISATION
namespace tessera::backends::cpu {

struct RowMoments {
  float mean = 0, variance = 0;
};

struct NormalisationFunctions {
  RowMoments (*moments)(const float* x, std::int64_t count);
  float (*mean_square)(const float* x, std::int64_t count);
  // y = (x - mean) * factor * scale + shift, with one scale and shift per element; null shift: none.
  void (*with_vectors)(const float* x, float* y, std::int64_t count, float mean, float factor, const float* scale,
                       const float* shift);
  // y = (x - mean) * factor + shift
  void (*with_scalars)(const float* x, float* y, std::int64_t count, float mean, float factor, float shift);
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

RowMoments moments(const float* x, std::int64_t count) {
  const float mean = reduce(Sum(), x, count) / static_cast<float>(count);
  return {mean, mean_square_around(x, count, mean)};
}

float mean_square(const float* x, std::int64_t count) {
  return reduce(SumOfSquares(), x, count) / static_cast<float>(count);
}

void with_vectors(const float* x, float* y, std::int64_t count, float mean, float factor, const float* scale,
                  const float* shift) {
  scale_and_shift(x, y, count, mean, factor, scale, shift);
}

void with_scalars(const float* x, float* y, std::int64_t count, float mean, float factor, float shift) {
  const D d;
  const V m = set(mean), f = set(factor), s = set(shift);
  std::int64_t i = 0;
  for (; i + lane_count() <= count; i += lane_count()) {
    hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(d, x + i), m), f, s), d, y + i);
  }
  if (i == count) return;
  const Mask rest = hn::FirstN(d, static_cast<std::size_t>(count - i));
  hn::BlendedStore(hn::MulAdd(hn::Sub(hn::MaskedLoad(rest, d, x + i), m), f, s), rest, d, y + i);
}

}  // namespace

NormalisationFunctions normalisation_functions() {
  return {moments, mean_square, with_vectors, with_scalars};
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(normalisation_functions);

// Elements per chunk.
constexpr std::int64_t kGrain = 8192;

std::int64_t rows_a_chunk(std::int64_t row) {
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, row));
}

// The number of elements from `axis` on.
std::int64_t trailing_elements(const Shape& shape, std::int64_t axis) {
  return element_count(Shape(shape.begin() + axis, shape.end()));
}

std::int64_t row_axis(const ops::NodeView& view) {
  return ops::normalise_axis(view.integer("axis"), static_cast<std::int64_t>(view.input(0).shape.size()));
}

// LayerNormalization and RMSNormalization: each row by its own statistics, then a scale (and shift) per element of the
// row.
class RowNormalisationKernel final : public Kernel {
 public:
  explicit RowNormalisationKernel(const ops::NodeView& view)
      : functions_(HWY_DYNAMIC_DISPATCH(normalisation_functions)()),
        row_(trailing_elements(view.input(0).shape, row_axis(view))),
        rows_(view.input(0).elements() / row_),
        epsilon_(view.real("epsilon")),
        centres_(view.op().name == "LayerNormalization") {}

  void run(KernelContext& context) const override {
    const float *x = context.input(0).data<float>(), *scale = context.input(1).data<float>();
    const float* shift = context.has_input(2) ? context.input(2).data<float>() : nullptr;
    float* y = context.output(0).mutable_data<float>();
    float* means = context.wants_output(1) ? context.output(1).mutable_data<float>() : nullptr;
    float* factors = context.wants_output(2) ? context.output(2).mutable_data<float>() : nullptr;
    context.parallel_for(rows_, rows_a_chunk(row_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float* from = x + i * row_;
        const RowMoments moments =
            centres_ ? functions_.moments(from, row_) : RowMoments{0, functions_.mean_square(from, row_)};
        const float factor = 1.0f / std::sqrt(moments.variance + epsilon_);
        functions_.with_vectors(from, y + i * row_, row_, moments.mean, factor, scale, shift);
        if (means != nullptr) means[i] = moments.mean;
        if (factors != nullptr) factors[i] = factor;
      }
    });
  }

 private:
  NormalisationFunctions functions_;
  std::int64_t row_, rows_;
  float epsilon_;
  bool centres_;
};

// A tensor [batch, channels, positions…].
struct Channels {
  explicit Channels(const Shape& shape) : batch(shape[0]), channels(shape[1]), positions(trailing_elements(shape, 2)) {}
  std::int64_t batch, channels, positions;
};

// GroupNormalization, and InstanceNormalization with one channel per group.
class GroupNormalisationKernel final : public Kernel {
 public:
  GroupNormalisationKernel(const ops::NodeView& view, std::int64_t groups)
      : functions_(HWY_DYNAMIC_DISPATCH(normalisation_functions)()),
        shape_(view.input(0).shape),
        groups_(groups),
        epsilon_(view.real("epsilon")) {}

  void run(KernelContext& context) const override {
    const float* x = context.input(0).data<float>();
    const float *scale = context.input(1).data<float>(), *shift = context.input(2).data<float>();
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t channels = shape_.channels / groups_, group = channels * shape_.positions;
    context.parallel_for(shape_.batch * groups_, rows_a_chunk(group), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const RowMoments moments = functions_.moments(x + i * group, group);
        const float factor = 1.0f / std::sqrt(moments.variance + epsilon_);
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::int64_t channel = i % groups_ * channels + c, offset = i * group + c * shape_.positions;
          functions_.with_scalars(x + offset, y + offset, shape_.positions, moments.mean, factor * scale[channel],
                                  shift[channel]);
        }
      }
    });
  }

 private:
  NormalisationFunctions functions_;
  Channels shape_;
  std::int64_t groups_;
  float epsilon_;
};

// Batch normalisation by given statistics (inference).
class BatchNormalisationKernel final : public Kernel {
 public:
  explicit BatchNormalisationKernel(const ops::NodeView& view)
      : functions_(HWY_DYNAMIC_DISPATCH(normalisation_functions)()),
        shape_(view.input(0).shape),
        epsilon_(view.real("epsilon")) {}

  void run(KernelContext& context) const override {
    const auto data = [&](std::size_t i) { return context.input(i).data<float>(); };
    const float *x = data(0), *scale = data(1), *shift = data(2), *mean = data(3), *variance = data(4);
    float* y = context.output(0).mutable_data<float>();
    const std::int64_t rows = shape_.batch * shape_.channels;
    context.parallel_for(rows, rows_a_chunk(shape_.positions), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t c = i % shape_.channels, offset = i * shape_.positions;
        functions_.with_scalars(x + offset, y + offset, shape_.positions, mean[c],
                                scale[c] / std::sqrt(variance[c] + epsilon_), shift[c]);
      }
    });
  }

 private:
  NormalisationFunctions functions_;
  Channels shape_;
  float epsilon_;
};

bool all_f32(const ops::NodeView& view) {
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (view.has_input(i) && view.input(i).dtype != DType::f32) return false;
  }
  for (std::size_t i = 0; i < view.output_count(); ++i) {
    if (view.wants_output(i) && view.output(i).dtype != DType::f32) return false;
  }
  return true;
}

}  // namespace

std::string reject_row_normalisation(const ops::NodeView& view) {
  if (!all_f32(view)) return "takes f32";
  if (view.input(0).elements() == 0) return "normalises no empty tensor";
  const Shape& shape = view.input(0).shape;
  const Shape row(shape.begin() + row_axis(view), shape.end());
  for (std::size_t i = 1; i < view.input_count(); ++i) {
    if (view.has_input(i) && view.input(i).shape != row) return "wants one scale and shift an element of a row";
  }
  return "";
}

KernelPointer make_row_normalisation(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<RowNormalisationKernel>(view);
}

std::string reject_channel_normalisation(const ops::NodeView& view) {
  if (!all_f32(view)) return "takes f32";
  if (view.input(0).shape.size() < 2) return "wants a batch and channels";
  if (view.op().name == "BatchNormalization" && view.integer("training_mode") != 0) return "is for inference";
  return view.input(0).elements() == 0 ? "normalises no empty tensor" : "";
}

KernelPointer make_group_normalisation(const ops::NodeView& view, WeightStore&) {
  const bool grouped = view.op().name == "GroupNormalization";
  const std::int64_t groups = grouped ? view.integer("num_groups") : view.input(0).shape[1];
  return std::make_unique<GroupNormalisationKernel>(view, groups);
}

KernelPointer make_batch_normalisation(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<BatchNormalisationKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
