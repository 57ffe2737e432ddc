// The gradient of batch normalisation in training, in float32: one pass over the feature map for the sums of each
// channel, one for the gradient of the data.
#include <cmath>

#include "backends/cpu/rows/batch_norm_channels.h"
#include "backends/cpu/rows/kernels.h"
#include "ops/rows/batch_norm_training.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/rows/batch_norm_training_gradient.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/machine/vector_loop.h"
#include "backends/cpu/rows/vector_rows.h"

#ifndef TESSERA_BACKENDS_CPU_BATCH_NORM_TRAINING_GRADIENT
#define TESSERA_BACKENDS_CPU_BATCH_NORM_TRAINING_GRADIENT
namespace tessera::backends::cpu {

// A run of elements. The effective gradient g is dy or, if y is given, dy where y > 0 and 0 elsewhere.
struct GradientLine {
  const float *dy, *x, *y;  // null y: g = dy
  float *dx, *da;           // null da: the addend's gradient (which is g) is not wanted
  std::int64_t count;

  GradientLine from(std::int64_t at, std::int64_t elements) const {
    return {dy + at, x + at, y != nullptr ? y + at : nullptr, dx + at, da != nullptr ? da + at : nullptr, elements};
  }
};

struct ChannelSums {
  double gradient = 0, product = 0;  // Σ g, Σ g (x − mean)
};

struct BatchNormGradientFunctions {
  // The sums of a piece per channel; also writes da.
  void (*piece_sums)(const GradientLine& first, std::int64_t rows, const float* mean, float* sums, float* products);
  ChannelSums (*segment_sums)(const GradientLine& line, float mean);
  // dx = factor · (g − shift − (x − mean) · slope)
  void (*rows)(const GradientLine& first, std::int64_t rows, const float* mean, const float* factor, const float* shift,
               const float* slope);
  void (*line)(const GradientLine& line, float mean, float factor, float shift, float slope);
};

}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace {

using namespace rows;

template <bool masks, class Load>
HWY_INLINE V gradient_at(const GradientLine& line, std::int64_t i, const Load& load) {
  const V g = load(line.dy + i);
  if constexpr (!masks) return g;
  return hn::IfThenElseZero(hn::Gt(load(line.y + i), set(0)), g);
}

template <int vectors, bool masks, bool keeps, class Load, class Store>
HWY_INLINE void sums_of_channels(const GradientLine& first, std::int64_t c, std::int64_t rows, const float* mean,
                                 float* sums, float* products, const Load& load, const Store& store) {
  const std::int64_t channels = first.count;
  V sum[vectors], product[vectors], centre[vectors];
  for (int v = 0; v < vectors; ++v) {
    sum[v] = product[v] = set(0);
    centre[v] = load(mean + c + v * lane_count());
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (int v = 0; v < vectors; ++v) {
      const std::int64_t i = row * channels + c + v * lane_count();
      const V g = gradient_at<masks>(first, i, load);
      if constexpr (keeps) store(g, first.da + i);
      sum[v] = hn::Add(sum[v], g);
      product[v] = hn::MulAdd(g, hn::Sub(load(first.x + i), centre[v]), product[v]);
    }
  }
  for (int v = 0; v < vectors; ++v) {
    store(sum[v], sums + c + v * lane_count());
    store(product[v], products + c + v * lane_count());
  }
}

template <bool masks, bool keeps>
void sums_of_piece(const GradientLine& first, std::int64_t rows, const float* mean, float* sums, float* products) {
  const D d;
  const std::int64_t lanes = lane_count(), channels = first.count;
  const auto load = [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); };
  const auto store = [&](V value, float* to) HWY_ATTR { hn::StoreU(value, d, to); };
  std::int64_t c = 0;
  for (; c + 4 * lanes <= channels; c += 4 * lanes)
    sums_of_channels<4, masks, keeps>(first, c, rows, mean, sums, products, load, store);
  for (; c + lanes <= channels; c += lanes)
    sums_of_channels<1, masks, keeps>(first, c, rows, mean, sums, products, load, store);
  if (c == channels) return;
  const Mask rest = hn::FirstN(d, static_cast<std::size_t>(channels - c));
  sums_of_channels<1, masks, keeps>(
      first, c, rows, mean, sums, products, [&](const float* from) HWY_ATTR { return hn::MaskedLoad(rest, d, from); },
      [&](V value, float* to) HWY_ATTR { hn::BlendedStore(value, rest, d, to); });
}

void piece_sums(const GradientLine& first, std::int64_t rows, const float* mean, float* sums, float* products) {
  if (first.y == nullptr) sums_of_piece<false, false>(first, rows, mean, sums, products);
  else if (first.da == nullptr) sums_of_piece<true, false>(first, rows, mean, sums, products);
  else sums_of_piece<true, true>(first, rows, mean, sums, products);
}

template <bool masks>
HWY_INLINE ChannelSums sums_of_segment(const GradientLine& line, float mean) {
  const V centre = set(mean);
  V sum = set(0), product = sum, other_sum = sum, other_product = sum;
  const std::int64_t lanes = lane_count(), pairs = line.count / (2 * lanes) * (2 * lanes);
  const D d;
  const auto whole = [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); };
  const auto add = [&](std::int64_t i, const auto& load, V& s, V& p) HWY_ATTR {
    const V g = gradient_at<masks>(line, i, load);
    s = hn::Add(s, g);
    p = hn::MulAdd(g, hn::Sub(load(line.x + i), centre), p);
  };
  for (std::int64_t i = 0; i < pairs; i += 2 * lanes) {
    add(i, whole, sum, product);
    add(i + lanes, whole, other_sum, other_product);
  }
  const GradientLine rest = line.from(pairs, line.count - pairs);
  for_each_vector(rest.count, [&](std::int64_t i, auto load, auto) HWY_ATTR {
    const V g = gradient_at<masks>(rest, i, load);
    sum = hn::Add(sum, g);
    product = hn::MulAdd(g, hn::Sub(load(rest.x + i), centre), product);
  });
  return {static_cast<double>(join_lanes(Sum(), hn::Add(sum, other_sum))),
          static_cast<double>(join_lanes(Sum(), hn::Add(product, other_product)))};
}

ChannelSums segment_sums(const GradientLine& line, float mean) {
  return line.y != nullptr ? sums_of_segment<true>(line, mean) : sums_of_segment<false>(line, mean);
}

template <bool masks, bool keeps, class Channel>
HWY_INLINE void data_gradient(const GradientLine& line, const Channel& channel) {
  for_each_vector(line.count, [&](std::int64_t i, auto load, auto store) HWY_ATTR {
    const V g = gradient_at<masks>(line, i, load);
    if constexpr (keeps) store(g, line.da + i);
    const V centred = hn::Sub(load(line.x + i), channel.mean(i, load));
    const V rest = hn::NegMulAdd(centred, channel.slope(i, load), hn::Sub(g, channel.shift(i, load)));
    store(hn::Mul(channel.factor(i, load), rest), line.dx + i);
  });
}

struct ChannelsOfRow {
  const float *means, *factors, *shifts, *slopes;
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
  template <class Load>
  HWY_INLINE V slope(std::int64_t i, const Load& load) const {
    return load(slopes + i);
  }
};

struct OneChannel {
  V m, f, a, b;
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
    return a;
  }
  template <class Load>
  HWY_INLINE V slope(std::int64_t, const Load&) const {
    return b;
  }
};

// Reads g from da if the first pass wrote it.
void gradient_rows(const GradientLine& first, std::int64_t rows, const float* mean, const float* factor,
                   const float* shift, const float* slope) {
  const ChannelsOfRow channels{mean, factor, shift, slope};
  for (std::int64_t row = 0; row < rows; ++row) {
    GradientLine line = first.from(row * first.count, first.count);
    if (line.da != nullptr) {
      line.dy = line.da;
      data_gradient<false, false>(line, channels);
    } else if (line.y != nullptr) {
      data_gradient<true, false>(line, channels);
    } else {
      data_gradient<false, false>(line, channels);
    }
  }
}

void gradient_line(const GradientLine& line, float mean, float factor, float shift, float slope) {
  const OneChannel channel{set(mean), set(factor), set(shift), set(slope)};
  if (line.da != nullptr) data_gradient<true, true>(line, channel);
  else if (line.y != nullptr) data_gradient<true, false>(line, channel);
  else data_gradient<false, false>(line, channel);
}

}  // namespace

BatchNormGradientFunctions batch_norm_gradient_functions() {
  return {piece_sums, segment_sums, gradient_rows, gradient_line};
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {
namespace {

HWY_EXPORT(batch_norm_gradient_functions);

class BatchNormGradientKernel final : public Kernel {
 public:
  explicit BatchNormGradientKernel(const ops::NodeView& view)
      : functions_(HWY_DYNAMIC_DISPATCH(batch_norm_gradient_functions)()),
        map_(view.input(1).shape, view.integer("channel_axis")),
        epsilon_(static_cast<double>(view.real("epsilon"))),
        relu_(view.integer("relu") != 0) {}

  // With channels last: three numbers per channel, then two sums per channel and piece.
  std::int64_t scratch_bytes() const override {
    const std::int64_t floats = map_.are_last() ? map_.channels * (3 + 2 * map_.pieces()) : 0;
    return floats * static_cast<std::int64_t>(sizeof(float));
  }

  void run(KernelContext& context) const override {
    const Operands operands{{context.input(0).data<float>(), context.input(1).data<float>(),
                             relu_ ? context.input(5).data<float>() : nullptr, context.output(0).mutable_data<float>(),
                             context.wants_output(3) ? context.output(3).mutable_data<float>() : nullptr, 0},
                            context.input(2).data<float>(),
                            context.input(3).data<float>(),
                            context.input(4).data<float>(),
                            context.output(1).mutable_data<float>(),
                            context.output(2).mutable_data<float>()};
    if (map_.are_last()) run_rows(context, operands);
    else run_channels(context, operands);
  }

 private:
  struct Operands {
    GradientLine map;
    const float *scale, *mean, *variance;
    float *scale_gradient, *bias_gradient;
  };
  struct Factors {
    float factor, shift, slope;
  };

  // Returns the factors of a channel's data gradient, and sets the gradients of its scale and bias.
  Factors finish_channel(const Operands& o, std::int64_t c, const ChannelSums& sums) const {
    const double inverse = 1 / std::sqrt(static_cast<double>(o.variance[c]) + epsilon_);
    o.scale_gradient[c] = static_cast<float>(sums.product * inverse);
    o.bias_gradient[c] = static_cast<float>(sums.gradient);
    return {static_cast<float>(static_cast<double>(o.scale[c]) * inverse),
            static_cast<float>(sums.gradient / map_.count()),
            static_cast<float>(sums.product * inverse * inverse / map_.count())};
  }

  void run_rows(KernelContext& context, const Operands& o) const {
    const std::int64_t channels = map_.channels, pieces = map_.pieces(), stride = map_.rows_a_piece() * channels;
    auto* factors = reinterpret_cast<float*>(context.scratch());
    float *shifts = factors + channels, *slopes = shifts + channels, *sums = slopes + channels,
          *products = sums + pieces * channels;
    context.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        functions_.piece_sums(o.map.from(i * stride, channels), map_.rows_of(i), o.mean, sums + i * channels,
                              products + i * channels);
    });
    context.parallel_for(channels, BatchNormChannels::kChannelGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        ChannelSums total;
        for (std::int64_t i = 0; i < pieces; ++i) {
          total.gradient += static_cast<double>(sums[i * channels + c]);
          total.product += static_cast<double>(products[i * channels + c]);
        }
        const Factors found = finish_channel(o, c, total);
        factors[c] = found.factor;
        shifts[c] = found.shift;
        slopes[c] = found.slope;
      }
    });
    context.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        functions_.rows(o.map.from(i * stride, channels), map_.rows_of(i), o.mean, factors, shifts, slopes);
    });
  }

  void run_channels(KernelContext& context, const Operands& o) const {
    context.parallel_for(map_.channels, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        ChannelSums total;
        for_each_line(c, [&](std::int64_t at) {
          for (std::int64_t i = 0; i < map_.inner; i += BatchNormChannels::kSegmentElements) {
            const std::int64_t count = std::min(BatchNormChannels::kSegmentElements, map_.inner - i);
            const ChannelSums part = functions_.segment_sums(o.map.from(at + i, count), o.mean[c]);
            total.gradient += part.gradient;
            total.product += part.product;
          }
        });
        const Factors found = finish_channel(o, c, total);
        for_each_line(c, [&](std::int64_t at) {
          functions_.line(o.map.from(at, map_.inner), o.mean[c], found.factor, found.shift, found.slope);
        });
      }
    });
  }

  template <typename Body>
  void for_each_line(std::int64_t channel, const Body& body) const {
    for (std::int64_t i = 0; i < map_.outer; ++i) body((i * map_.channels + channel) * map_.inner);
  }

  BatchNormGradientFunctions functions_;
  BatchNormChannels map_;
  double epsilon_;
  bool relu_;
};

}  // namespace

std::string reject_batch_norm_training_gradient(const ops::NodeView& view) {
  for (std::size_t i = 0; i < view.input_count(); ++i) {
    if (view.has_input(i) && view.input(i).dtype != DType::f32) return "takes f32";
  }
  if (view.wants_output(3) && view.integer("relu") == 0) return "copies no gradient";
  return view.input(1).elements() == 0 ? "takes no empty tensor" : "";
}

KernelPointer make_batch_norm_training_gradient(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<BatchNormGradientKernel>(view);
}

}  // namespace tessera::backends::cpu
#endif  // HWY_ONCE
