#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

struct Moments {
  double mean = 0, variance = 0;  // population variance
};

// Mean and variance of the elements that `at(0 … count − 1)` returns, in two passes.
template <typename At>
Moments moments_of(std::int64_t count, At at) {
  Moments moments;
  for (std::int64_t i = 0; i < count; ++i) moments.mean += at(i);
  moments.mean /= static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) moments.variance += (at(i) - moments.mean) * (at(i) - moments.mean);
  moments.variance /= static_cast<double>(count);
  return moments;
}

// A tensor [batch, channels, positions].
struct Channels {
  explicit Channels(const Shape& shape) : batch(shape[0]), channels(shape[1]) {
    for (std::size_t i = 2; i < shape.size(); ++i) positions *= shape[i];
  }
  std::size_t at(std::int64_t n, std::int64_t c, std::int64_t p) const {
    return static_cast<std::size_t>((n * channels + c) * positions + p);
  }
  std::int64_t batch, channels, positions = 1;
};

// The number of elements before `axis`, and from it on.
std::pair<std::int64_t, std::int64_t> split_at(const Shape& shape, std::int64_t axis) {
  const std::int64_t outer = std::accumulate(shape.begin(), shape.begin() + axis, std::int64_t{1}, std::multiplies<>());
  const std::int64_t inner = std::accumulate(shape.begin() + axis, shape.end(), std::int64_t{1}, std::multiplies<>());
  return {outer, inner};
}

// values[i] · scale[i] + bias[i], with scale and bias broadcast to `shape`; null: 1 and 0.
void scale_and_shift(std::vector<double>& values, const Shape& shape, const Tensor* scale, const Tensor* bias) {
  auto apply = [&](const Tensor* operand, auto combine) {
    if (operand == nullptr || values.empty()) return;
    const std::vector<double> factors = read<double>(*operand);
    const std::vector<std::int64_t> strides = broadcast_strides(operand->shape(), shape);
    std::vector<std::int64_t> index(shape.size(), 0);
    for (double& value : values) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * strides[i];
      value = combine(value, factors[static_cast<std::size_t>(offset)]);
      advance(index, shape);
    }
  };
  apply(scale, [](double value, double factor) { return value * factor; });
  apply(bias, [](double value, double term) { return value + term; });
}

void normalise_channels(KernelContext& context, std::vector<double>& x, const Channels& view,
                        const std::vector<double>& means, const std::vector<double>& variances) {
  const std::vector<double> scale = read<double>(context.input(1)), shift = read<double>(context.input(2));
  const double epsilon = context.real("epsilon");
  for (std::int64_t n = 0; n < view.batch; ++n) {
    for (std::int64_t c = 0; c < view.channels; ++c) {
      const auto k = static_cast<std::size_t>(c);
      for (std::int64_t p = 0; p < view.positions; ++p) {
        double& value = x[view.at(n, c, p)];
        value = (value - means[k]) / std::sqrt(variances[k] + epsilon) * scale[k] + shift[k];
      }
    }
  }
}

}  // namespace

void batch_normalization(KernelContext& context) {
  std::vector<double> x = read<double>(context.input(0));
  const Channels view(context.input(0).shape());
  std::vector<double> means = read<double>(context.input(3)), variances = read<double>(context.input(4));
  if (context.integer("training_mode") == 0) {
    normalise_channels(context, x, view, means, variances);
    return write(x, context.output(0));
  }
  const double momentum = context.real("momentum");
  std::vector<double> batch_means(means.size()), batch_variances(means.size());
  for (std::int64_t c = 0; c < view.channels; ++c) {
    const Moments moments = moments_of(view.batch * view.positions, [&](std::int64_t i) {
      return x[view.at(i / view.positions, c, i % view.positions)];
    });
    const auto k = static_cast<std::size_t>(c);
    batch_means[k] = moments.mean;
    batch_variances[k] = moments.variance;
    means[k] = means[k] * momentum + moments.mean * (1 - momentum);
    variances[k] = variances[k] * momentum + moments.variance * (1 - momentum);
  }
  normalise_channels(context, x, view, batch_means, batch_variances);
  write(x, context.output(0));
  if (context.wants_output(1)) write(means, context.output(1));
  if (context.wants_output(2)) write(variances, context.output(2));
}

void layer_normalization(KernelContext& context) {
  std::vector<double> x = read<double>(context.input(0));
  const Shape& shape = context.input(0).shape();
  const auto [outer, inner] =
      split_at(shape, ops::normalise_axis(context.integer("axis"), static_cast<std::int64_t>(shape.size())));
  std::vector<double> means(static_cast<std::size_t>(outer)), inverse_deviations(static_cast<std::size_t>(outer));
  for (std::int64_t o = 0; o < outer; ++o) {
    double* row = x.data() + o * inner;
    const Moments moments = moments_of(inner, [&](std::int64_t i) { return row[i]; });
    const double inverse = 1 / std::sqrt(moments.variance + static_cast<double>(context.real("epsilon")));
    means[static_cast<std::size_t>(o)] = moments.mean;
    inverse_deviations[static_cast<std::size_t>(o)] = inverse;
    for (std::int64_t i = 0; i < inner; ++i) row[i] = (row[i] - moments.mean) * inverse;
  }
  scale_and_shift(x, shape, &context.input(1), context.has_input(2) ? &context.input(2) : nullptr);
  write(x, context.output(0));
  if (context.wants_output(1)) write(means, context.output(1));
  if (context.wants_output(2)) write(inverse_deviations, context.output(2));
}

void rms_normalization(KernelContext& context) {
  std::vector<double> x = read<double>(context.input(0));
  const Shape& shape = context.input(0).shape();
  const auto [outer, inner] =
      split_at(shape, ops::normalise_axis(context.integer("axis"), static_cast<std::int64_t>(shape.size())));
  for (std::int64_t o = 0; o < outer; ++o) {
    double* row = x.data() + o * inner;
    double squares = 0;
    for (std::int64_t i = 0; i < inner; ++i) squares += row[i] * row[i];
    const double inverse =
        1 / std::sqrt(squares / static_cast<double>(inner) + static_cast<double>(context.real("epsilon")));
    for (std::int64_t i = 0; i < inner; ++i) row[i] *= inverse;
  }
  scale_and_shift(x, shape, &context.input(1), nullptr);
  write(x, context.output(0));
}

namespace {

// Normalises each group of each sample over its channels and positions, then applies a scale and a shift per channel.
void normalise_groups(KernelContext& context, std::int64_t groups) {
  std::vector<double> x = read<double>(context.input(0));
  const Channels view(context.input(0).shape());
  const std::vector<double> scale = read<double>(context.input(1)), shift = read<double>(context.input(2));
  const std::int64_t group_size = groups > 0 ? view.channels / groups * view.positions : 0;
  for (std::int64_t g = 0; g < view.batch * groups; ++g) {
    double* values = x.data() + g * group_size;
    const Moments moments = moments_of(group_size, [&](std::int64_t i) { return values[i]; });
    const double inverse = 1 / std::sqrt(moments.variance + static_cast<double>(context.real("epsilon")));
    for (std::int64_t i = 0; i < group_size; ++i) {
      const auto channel = static_cast<std::size_t>((g % groups * group_size + i) / view.positions);
      values[i] = (values[i] - moments.mean) * inverse * scale[channel] + shift[channel];
    }
  }
  write(x, context.output(0));
}

}  // namespace

void group_normalization(KernelContext& context) {
  normalise_groups(context, context.integer("num_groups"));
}
void instance_normalization(KernelContext& context) {
  normalise_groups(context, context.input(0).shape()[1]);
}

void lp_normalization(KernelContext& context) {
  std::vector<double> x = read<double>(context.input(0));
  const Shape& shape = context.input(0).shape();
  const std::int64_t axis = ops::normalise_axis(context.integer("axis"), static_cast<std::int64_t>(shape.size()));
  const std::int64_t length = shape[static_cast<std::size_t>(axis)];
  const std::int64_t inner = split_at(shape, axis + 1).second, outer = split_at(shape, axis).first;
  const bool euclidean = context.integer("p") == 2;
  for (std::int64_t line = 0; line < outer * inner; ++line) {
    double* first = x.data() + line / inner * length * inner + line % inner;
    double norm = 0;
    for (std::int64_t i = 0; i < length; ++i)
      norm += euclidean ? first[i * inner] * first[i * inner] : std::fabs(first[i * inner]);
    if (euclidean) norm = std::sqrt(norm);
    for (std::int64_t i = 0; i < length; ++i) first[i * inner] = norm == 0 ? 0 : first[i * inner] / norm;
  }
  write(x, context.output(0));
}

void mean_variance_normalization(KernelContext& context) {
  std::vector<double> x = read<double>(context.input(0));
  const Shape& shape = context.input(0).shape();
  // Elements with equal indices along the kept axes share their statistics.
  std::vector<std::int64_t> kept_strides(shape.size(), 0);
  std::vector<bool> reduced(shape.size(), false);
  for (std::int64_t axis : context.integers("axes"))
    reduced[static_cast<std::size_t>(ops::normalise_axis(axis, static_cast<std::int64_t>(shape.size())))] = true;
  std::int64_t groups = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (reduced[i]) continue;
    kept_strides[i] = groups;
    groups *= shape[i];
  }
  std::vector<std::vector<std::size_t>> members(static_cast<std::size_t>(groups));
  std::vector<std::int64_t> index(shape.size(), 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::int64_t group = 0;
    for (std::size_t d = 0; d < index.size(); ++d) group += index[d] * kept_strides[d];
    members[static_cast<std::size_t>(group)].push_back(i);
    advance(index, shape);
  }
  for (const std::vector<std::size_t>& group : members) {
    const Moments moments = moments_of(static_cast<std::int64_t>(group.size()),
                                       [&](std::int64_t i) { return x[group[static_cast<std::size_t>(i)]]; });
    for (std::size_t i : group) x[i] = (x[i] - moments.mean) / (std::sqrt(moments.variance) + 1e-9);
  }
  write(x, context.output(0));
}

void lrn(KernelContext& context) {
  const std::vector<double> x = read<double>(context.input(0));
  const Channels view(context.input(0).shape());
  const std::int64_t size = context.integer("size"), before = (size - 1) / 2, after = size - 1 - before;
  std::vector<double> result(x.size());
  for (std::int64_t n = 0; n < view.batch; ++n) {
    for (std::int64_t c = 0; c < view.channels; ++c) {
      context.check_stop();
      for (std::int64_t p = 0; p < view.positions; ++p) {
        double squares = 0;
        for (std::int64_t k = std::max<std::int64_t>(0, c - before); k <= std::min(view.channels - 1, c + after); ++k)
          squares += x[view.at(n, k, p)] * x[view.at(n, k, p)];
        const double base = static_cast<double>(context.real("bias")) +
                            static_cast<double>(context.real("alpha")) / static_cast<double>(size) * squares;
        result[view.at(n, c, p)] = x[view.at(n, c, p)] / std::pow(base, static_cast<double>(context.real("beta")));
      }
    }
  }
  write(result, context.output(0));
}

}  // namespace tessera::backends::reference
