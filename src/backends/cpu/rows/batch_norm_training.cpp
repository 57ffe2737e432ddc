// Batch normalisation by the statistics of the batch, in float32. Each piece is centred at its own mean as computed in
// float32; the sums of differences and of their squares give its exact mean and squared deviations, and those of all
// pieces are joined in double precision (Chan, Golub and LeVeque, "Updating formulae", 1979). So the variance is
// accurate even if the mean is large.
#include "ops/rows/batch_norm_training.h"

#include <cmath>

#include "backends/cpu/rows/batch_norm_channels.h"
#include "backends/cpu/rows/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/batch_norm_training.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/machine/vector_loop.h"
#include "backends/cpu/rows/vector_rows.h"

#ifndef TESSERA_BACKENDS_CPU_BATCH_NORM_TRAINING
#define TESSERA_BACKENDS_CPU_BATCH_NORM_TRAINING
namespace tessera::backends::cpu {

// y = (x − mean) · factor + shift (+ addend), at least 0 with `relu`. `addend`: null if there is none.
struct BatchNormLine {
  const float *x, *addend;
  float* y;
  std::int64_t count;
};

// Sums of d = x − centre and of d².
struct CentredSums {
  double difference = 0, square = 0;
};

struct BatchNormFunctions {
  // For each channel of a piece: a number near its mean, and the sums of differences from it and of their squares.
  void (*piece_moments)(const float* x, std::int64_t rows, std::int64_t channels, float* centre, float* differences,
                        float* squares);
  double (*segment_sum)(const float* x, std::int64_t count);
  CentredSums (*segment_moments)(const float* x, std::int64_t count, float centre);
  void (*normalise_rows)(const BatchNormLine& first, std::int64_t rows, const float* mean, const float* factor,
                         const float* shift, bool relu);
  void (*normalise_line)(const BatchNormLine& line, float mean, float factor, float shift, bool relu);
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

// Computes `vectors` vectors of channels; `load` masks lanes behind the last channel.
template <int vectors, class Load, class Store>
HWY_INLINE void moments_of_channels(const float* x, std::int64_t rows, std::int64_t channels, float* centres,
                                    float* differences, float* squares, const Load& load, const Store& store) {
  V sum[vectors], square[vectors], centre[vectors];
  for (int v = 0; v < vectors; ++v) sum[v] = set(0);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (int v = 0; v < vectors; ++v) sum[v] = hn::Add(sum[v], load(x + row * channels + v * lane_count()));
  }
  const V share = set(1.0f / static_cast<float>(rows));
  for (int v = 0; v < vectors; ++v) {
    centre[v] = hn::Mul(sum[v], share);
    sum[v] = square[v] = set(0);
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (int v = 0; v < vectors; ++v) {
      const V difference = hn::Sub(load(x + row * channels + v * lane_count()), centre[v]);
      sum[v] = hn::Add(sum[v], difference);
      square[v] = hn::MulAdd(difference, difference, square[v]);
    }
  }
  for (int v = 0; v < vectors; ++v) {
    store(centre[v], centres + v * lane_count());
    store(sum[v], differences + v * lane_count());
    store(square[v], squares + v * lane_count());
  }
}

void piece_moments(const float* x, std::int64_t rows, std::int64_t channels, float* centre, float* differences,
                   float* squares) {
  const D d;
  const std::int64_t lanes = lane_count();
  const auto load = [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); };
  const auto store = [&](V value, float* to) HWY_ATTR { hn::StoreU(value, d, to); };
  std::int64_t c = 0;
  for (; c + 4 * lanes <= channels; c += 4 * lanes)
    moments_of_channels<4>(x + c, rows, channels, centre + c, differences + c, squares + c, load, store);
  for (; c + lanes <= channels; c += lanes)
    moments_of_channels<1>(x + c, rows, channels, centre + c, differences + c, squares + c, load, store);
  if (c == channels) return;
  const Mask rest = hn::FirstN(d, static_cast<std::size_t>(channels - c));
  moments_of_channels<1>(
      x + c, rows, channels, centre + c, differences + c, squares + c,
      [&](const float* from) HWY_ATTR { return hn::MaskedLoad(rest, d, from); },
      [&](V value, float* to) HWY_ATTR { hn::BlendedStore(value, rest, d, to); });
}

double segment_sum(const float* x, std::int64_t count) {
  return static_cast<double>(reduce(Sum(), x, count));
}

CentredSums segment_moments(const float* x, std::int64_t count, float centre) {
  const D d;
  const std::int64_t lanes = lane_count();
  const V c = set(centre);
  V sum = set(0), square = sum, other_sum = sum, other_square = sum;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const V a = hn::Sub(hn::LoadU(d, x + i), c), b = hn::Sub(hn::LoadU(d, x + i + lanes), c);
    sum = hn::Add(sum, a);
    other_sum = hn::Add(other_sum, b);
    square = hn::MulAdd(a, a, square);
    other_square = hn::MulAdd(b, b, other_square);
  }
  for (; i < count; i += lanes) {
    const Mask part = hn::FirstN(d, static_cast<std::size_t>(count - i));
    const V a = hn::IfThenElseZero(part, hn::Sub(hn::MaskedLoad(part, d, x + i), c));
    sum = hn::Add(sum, a);
    square = hn::MulAdd(a, a, square);
  }
  return {static_cast<double>(join_lanes(Sum(), hn::Add(sum, other_sum))),
          static_cast<double>(join_lanes(Sum(), hn::Add(square, other_square)))};
}

template <bool adds, bool relu, class Channel>
HWY_INLINE void normalise(const BatchNormLine& line, const Channel& channel) {
  for_each_vector(line.count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    V y = hn::MulAdd(hn::Sub(load(line.x + i), channel.mean(i, load)), channel.factor(i, load), channel.shift(i, load));
    if constexpr (adds) y = hn::Add(y, load(line.addend + i));
    if constexpr (relu) y = hn::IfThenElse(hn::Lt(y, set(0)), set(0), y);  // NaN stays NaN
    store(y, line.y + i);
  });
}

template <class Channel>
HWY_INLINE void normalise(const BatchNormLine& line, const Channel& channel, bool relu) {
  if (line.addend != nullptr && relu) normalise<true, true>(line, channel);
  else if (line.addend != nullptr) normalise<true, false>(line, channel);
  else if (relu) normalise<false, true>(line, channel);
  else normalise<false, false>(line, channel);
}

struct ChannelsOfRow {
  const float *means, *factors, *shifts;
  template <class Load>
  HWY_INLINE V mean(std::int64_t i, const Load& load) const {
    return load(means + i);
  }
  template <class Load>
  HWY_INLINE V factor(std::int64_t i, const Load& load) const {
    return load(factors + i);
  }
  template <class Load>
  HWY_INLINE V shift(std::int64_t i, const Load& load) const {
    return load(shifts + i);
  }
};

struct OneChannel {
  V m, f, s;
  template <class Load>
  HWY_INLINE V mean(std::int64_t, const Load&) const {
    return m;
  }
  template <class Load>
  HWY_INLINE V factor(std::int64_t, const Load&) const {
    return f;
  }
  template <class Load>
  HWY_INLINE V shift(std::int64_t, const Load&) const {
    return s;
  }
};

void normalise_rows(const BatchNormLine& first, std::int64_t rows, const float* mean, const float* factor,
                    const float* shift, bool relu) {
  const ChannelsOfRow channels{mean, factor, shift};
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * first.count;
    const BatchNormLine line{first.x + at, first.addend != nullptr ? first.addend + at : nullptr, first.y + at,
                             first.count};
    normalise(line, channels, relu);
  }
}

void normalise_line(const BatchNormLine& line, float mean, float factor, float shift, bool relu) {
  normalise(line, OneChannel{set(mean), set(factor), set(shift)}, relu);
}

}  // namespace

BatchNormFunctions batch_norm_functions() {
  return {piece_moments, segment_sum, segment_moments, normalise_rows, normalise_line};
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(batch_norm_functions);

class BatchNormTrainingKernel final : public Kernel {
 public:
  explicit BatchNormTrainingKernel(const ops::NodeView& view)
      : functions_(HWY_DYNAMIC_DISPATCH(batch_norm_functions)()),
        map_(view.input(0).shape, view.integer("channel_axis")),
        epsilon_(static_cast<double>(view.real("epsilon"))),
        relu_(view.integer("relu") != 0) {}

  // With channels last: a factor per channel, then three numbers per channel and piece.
  std::int64_t scratch_bytes() const override {
    const std::int64_t floats = map_.are_last() ? map_.channels * (1 + 3 * map_.pieces()) : 0;
    return floats * static_cast<std::int64_t>(sizeof(float));
  }

  void run(KernelContext& context) const override {
    const Operands operands{
        context.input(0).data<float>(),          context.has_input(3) ? context.input(3).data<float>() : nullptr,
        context.input(1).data<float>(),          context.input(2).data<float>(),
        context.output(0).mutable_data<float>(), context.output(1).mutable_data<float>(),
        context.output(2).mutable_data<float>()};
    if (map_.are_last()) run_rows(context, operands);
    else run_channels(context, operands);
  }

 private:
  struct Operands {
    const float *x, *addend, *scale, *bias;
    float *y, *mean, *variance;
  };

  float factor_of(double variance, float scale) const {
    return static_cast<float>(static_cast<double>(scale) / std::sqrt(variance + epsilon_));
  }

  void run_rows(KernelContext& context, const Operands& o) const {
    const std::int64_t channels = map_.channels, pieces = map_.pieces(), stride = map_.rows_a_piece() * channels;
    auto* factors = reinterpret_cast<float*>(context.scratch());
    float *centres = factors + channels, *differences = centres + pieces * channels,
          *squares = differences + pieces * channels;
    context.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        functions_.piece_moments(o.x + i * stride, map_.rows_of(i), channels, centres + i * channels,
                                 differences + i * channels, squares + i * channels);
    });
    context.parallel_for(channels, BatchNormChannels::kChannelGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        const double variance = join_pieces(centres + c, differences + c, squares + c, o.mean[c]);
        o.variance[c] = static_cast<float>(variance);
        factors[c] = factor_of(variance, o.scale[c]);
      }
    });
    context.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t at = i * stride;
        const BatchNormLine first{o.x + at, o.addend != nullptr ? o.addend + at : nullptr, o.y + at, channels};
        functions_.normalise_rows(first, map_.rows_of(i), o.mean, factors, o.bias, relu_);
      }
    });
  }

  // Returns the variance of a channel from the sums of its pieces, and sets the mean.
  double join_pieces(const float* centres, const float* differences, const float* squares, float& mean) const {
    const auto at = [&](const float* numbers, std::int64_t piece) {
      return static_cast<double>(numbers[piece * map_.channels]);
    };
    double sum = 0, around = 0;
    for (std::int64_t i = 0; i < map_.pieces(); ++i)
      sum += static_cast<double>(map_.rows_of(i)) * at(centres, i) + at(differences, i);
    const double common = sum / map_.count();
    for (std::int64_t i = 0; i < map_.pieces(); ++i) {
      const double distance = at(centres, i) - common;
      around += at(squares, i) + 2 * distance * at(differences, i) +
                static_cast<double>(map_.rows_of(i)) * distance * distance;
    }
    mean = static_cast<float>(common);
    return not_negative(around / map_.count());
  }
  // Removes negative rounding errors; NaN stays NaN.
  static double not_negative(double variance) { return variance < 0 ? 0 : variance; }

  void run_channels(KernelContext& context, const Operands& o) const {
    context.parallel_for(map_.channels, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        double sum = 0;
        for_each_segment(o.x, c, [&](const float* x, std::int64_t count) { sum += functions_.segment_sum(x, count); });
        const float centre = static_cast<float>(sum / map_.count());
        CentredSums total;
        for_each_segment(o.x, c, [&](const float* x, std::int64_t count) {
          const CentredSums part = functions_.segment_moments(x, count, centre);
          total.difference += part.difference;
          total.square += part.square;
        });
        const double rest = total.difference / map_.count();
        const double variance = not_negative(total.square / map_.count() - rest * rest);
        o.mean[c] = static_cast<float>(static_cast<double>(centre) + rest);
        o.variance[c] = static_cast<float>(variance);
        const float factor = factor_of(variance, o.scale[c]);
        for (std::int64_t i = 0; i < map_.outer; ++i) {
          const std::int64_t at = (i * map_.channels + c) * map_.inner;
          const BatchNormLine line{o.x + at, o.addend != nullptr ? o.addend + at : nullptr, o.y + at, map_.inner};
          functions_.normalise_line(line, o.mean[c], factor, o.bias[c], relu_);
        }
      }
    });
  }

  // Calls body for the lines of a channel.
  template <typename Body>
  void for_each_segment(const float* x, std::int64_t channel, const Body& body) const {
    for (std::int64_t i = 0; i < map_.outer; ++i) {
      const float* line = x + (i * map_.channels + channel) * map_.inner;
      for (std::int64_t at = 0; at < map_.inner; at += BatchNormChannels::kSegmentElements)
        body(line + at, std::min(BatchNormChannels::kSegmentElements, map_.inner - at));
    }
  }

  BatchNormFunctions functions_;
  BatchNormChannels map_;
  double epsilon_;
  bool relu_;
};

}  // namespace

std::string reject_batch_norm_training(const ops::NodeView& view) {
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (view.has_input(i) && view.input(i).dtype != DType::f32) return "takes f32";
  }
  return view.input(0).elements() == 0 ? "normalises no empty tensor" : "";
}

KernelPointer make_batch_norm_training(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<BatchNormTrainingKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
