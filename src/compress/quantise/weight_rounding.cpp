#include "compress/quantise/weight_rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numbers/checked.h"

namespace tessera::compress {

AxisSplit split_at(const Shape& shape, std::int64_t axis) {
  AxisSplit split;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    (at < axis ? split.outer : at == axis ? split.axis : split.inner) *= shape[i];
  }
  return split;
}

ChannelWeights round_by_channel(const Tensor& weights, std::int64_t axis, std::span<const double> least_scales) {
  constexpr float kMost = 127;
  const AxisSplit split = split_at(weights.shape(), axis);
  ChannelWeights result{Tensor(DType::i8, weights.shape()), Tensor(DType::f32, {split.axis}), axis};
  const float* from = weights.data<float>();
  auto* to = result.values.mutable_data<std::int8_t>();
  for (std::int64_t c = 0; c < split.axis; ++c) {
    float largest = 0;
    for (std::int64_t o = 0; o < split.outer; ++o) {
      const float* run = from + (o * split.axis + c) * split.inner;
      for (std::int64_t i = 0; i < split.inner; ++i) largest = std::max(largest, std::abs(run[i]));
    }
    float scale = std::max(largest / kMost, std::numeric_limits<float>::min());
    if (largest == 0) scale = 1e-6f;
    if (!least_scales.empty()) scale = std::max(scale, static_cast<float>(least_scales[static_cast<std::size_t>(c)]));
    result.scales.mutable_data<float>()[c] = scale;
    for (std::int64_t o = 0; o < split.outer; ++o) {
      const std::int64_t start = (o * split.axis + c) * split.inner;
      for (std::int64_t i = start; i < start + split.inner; ++i)
        to[i] = static_cast<std::int8_t>(std::clamp(std::nearbyint(from[i] / scale), -kMost, kMost));
    }
  }
  return result;
}

Tensor real_weights(const ChannelWeights& weights) {
  const AxisSplit split = split_at(weights.values.shape(), weights.axis);
  Tensor real(DType::f32, weights.values.shape());
  const auto* from = weights.values.data<std::int8_t>();
  float* to = real.mutable_data<float>();
  for (std::int64_t i = 0; i < real.elements(); ++i)
    to[i] = static_cast<float>(from[i]) * weights.scales.data<float>()[i / split.inner % split.axis];
  return real;
}

ChannelWeights transposed(const ChannelWeights& weights) {
  const std::int64_t rows = weights.values.shape()[0], columns = weights.values.shape()[1];
  ChannelWeights result{Tensor(DType::i8, {columns, rows}), weights.scales, 1 - weights.axis};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j)
      result.values.mutable_data<std::int8_t>()[j * rows + i] = weights.values.data<std::int8_t>()[i * columns + j];
  }
  return result;
}

Tensor with_variance_of(const Tensor& exact, const ChannelWeights& rounded) {
  struct Moments {
    double sum = 0, squares = 0, count = 0;
    void add(double value) {
      sum += value;
      squares += value * value;
      count += 1;
    }
    double variance() const { return squares / count - sum / count * (sum / count); }
  };
  const AxisSplit split = split_at(exact.shape(), rounded.axis);
  std::vector<Moments> before(static_cast<std::size_t>(split.axis)), after = before;
  const Tensor real = real_weights(rounded);
  for (std::int64_t i = 0; i < exact.elements(); ++i) {
    const auto channel = static_cast<std::size_t>(i / split.inner % split.axis);
    before[channel].add(static_cast<double>(exact.data<float>()[i]));
    after[channel].add(static_cast<double>(real.data<float>()[i]));
  }
  Tensor scales = rounded.scales.clone();
  for (std::size_t c = 0; c < before.size(); ++c) {
    const double from = after[c].variance(), to = before[c].variance();
    constexpr double kMost = 1.5;  // beyond it, a channel has so few integers that their deviation says nothing
    if (from > 0 && to > 0 && to < kMost * kMost * from && from < kMost * kMost * to)
      scales.mutable_data<float>()[c] *= static_cast<float>(std::sqrt(to / from));
  }
  return scales;
}

namespace {

// Rounds one group around zero to integers from -2^(bits-1) to 2^(bits-1) - 1, and returns its scale.
float round_group(std::span<const float> values, int bits, std::span<int> to) {
  const float least = -static_cast<float>(1 << (bits - 1)), most = -least - 1;
  float low = 0, high = 0;
  for (const float value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // The end of the range with the larger magnitude becomes -2^(bits-1), whatever its sign.
  const float widest = -low >= high ? low / least : high / least;
  if (widest == 0) {
    std::ranges::fill(to, 0);
    return 1;
  }
  double best = std::numeric_limits<double>::infinity();
  float scale = widest;
  const int steps = bits < 8 ? 16 : 1;
  for (int i = 0; i < steps; ++i) {
    const float tried = widest * (1 - 0.025f * static_cast<float>(i));
    double error = 0;
    for (const float value : values) {
      const double difference =
          static_cast<double>(value - std::clamp(std::nearbyint(value / tried), least, most) * tried);
      error += difference * difference;
    }
    if (error < best) {
      best = error;
      scale = tried;
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    to[i] = static_cast<int>(std::clamp(std::nearbyint(values[i] / scale), least, most));
  return scale;
}

}  // namespace

RoundedBlocks pack_blocks(const Tensor& integers, const Tensor& scales, int bits, std::int64_t group) {
  RoundedBlocks result;
  result.n = integers.shape()[0];
  result.k = integers.shape()[1];
  const std::int64_t blocks = base::ceil_divide(result.k, group), row_bytes = blocks * (group / 8 * bits);
  result.numbers = Tensor(DType::u8, {result.n, blocks, group / 8 * bits});
  result.scales = scales;
  const auto* from = integers.data<std::int8_t>();
  auto* to = result.numbers.mutable_data<std::uint8_t>();
  for (std::int64_t row = 0; row < result.n; ++row, to += row_bytes) {
    std::fill_n(to, row_bytes, std::uint8_t{0});
    for (std::int64_t i = 0; i < blocks * group; ++i) {
      const int number = (i < result.k ? from[row * result.k + i] : 0) + (1 << (bits - 1));
      to[i * bits / 8] |= static_cast<std::uint8_t>(number << (i * bits % 8));
    }
  }
  return result;
}

RoundedBlocks round_by_block(const Tensor& weights, std::int64_t axis, int bits, std::int64_t group) {
  const std::int64_t n = weights.shape()[static_cast<std::size_t>(axis)],
                     k = weights.shape()[static_cast<std::size_t>(1 - axis)], blocks = base::ceil_divide(k, group);
  Tensor integers(DType::i8, {n, k}), scales(DType::f32, {n, blocks});
  const float* from = weights.data<float>();
  auto* to = integers.mutable_data<std::int8_t>();
  std::vector<float> values(static_cast<std::size_t>(group));
  std::vector<int> rounded(static_cast<std::size_t>(group));
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t start = block * group, length = std::min(group, k - start);
      std::ranges::fill(values, 0.0f);
      for (std::int64_t i = 0; i < length; ++i)
        values[static_cast<std::size_t>(i)] = from[axis == 0 ? row * k + start + i : (start + i) * n + row];
      scales.mutable_data<float>()[row * blocks + block] = round_group(values, bits, rounded);
      for (std::int64_t i = 0; i < length; ++i)
        to[row * k + start + i] = static_cast<std::int8_t>(rounded[static_cast<std::size_t>(i)]);
    }
  }
  return pack_blocks(integers, scales, bits, group);
}

}  // namespace tessera::compress
