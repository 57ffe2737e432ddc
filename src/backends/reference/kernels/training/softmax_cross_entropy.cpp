#include "ops/training/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "backends/host/numeric.h"
#include "backends/reference/kernels/training/kernels.h"
#include "ops/training/optimiser_step.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Scores [outer, classes, inner]; labels [outer, inner].
struct Lines {
  Lines(const KernelContext& context, const Shape& shape)
      : ignored(context.integer("ignore_index")), smoothing(ops::decimal(context.real("label_smoothing"))) {
    const auto axis =
        static_cast<std::size_t>(ops::normalise_axis(context.integer("axis"), static_cast<std::int64_t>(shape.size())));
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
    classes = shape[axis];
  }
  // The index of score `c` of line i.
  std::size_t at(std::size_t i, std::int64_t c) const {
    const auto line = static_cast<std::int64_t>(i);
    return static_cast<std::size_t>((line / inner * classes + c) * inner + line % inner);
  }
  void check(std::int64_t label) const {
    require(label >= 0 && label < classes, ErrorKind::failed, "label {} is outside [0, {})", label, classes);
  }
  std::int64_t ignored, classes = 1, inner = 1;
  double smoothing;
};

}  // namespace

void softmax_cross_entropy(KernelContext& context) {
  const std::vector<double> x = read<double>(context.input(0));
  const std::vector<std::int64_t> labels = read<std::int64_t>(context.input(1));
  const Lines lines(context, context.input(0).shape());
  std::vector<double> losses(labels.size(), 0.0), sums(labels.size(), 0.0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    double largest = -INFINITY, sum = 0, total = 0;
    for (std::int64_t c = 0; c < lines.classes; ++c) largest = std::max(largest, x[lines.at(i, c)]);
    for (std::int64_t c = 0; c < lines.classes; ++c) {
      sum += std::exp(x[lines.at(i, c)] - largest);
      total += x[lines.at(i, c)] - largest;
    }
    sums[i] = largest + std::log(sum);
    if (labels[i] == lines.ignored) continue;
    lines.check(labels[i]);
    losses[i] = std::log(sum) - (1 - lines.smoothing) * (x[lines.at(i, labels[i])] - largest);
    if (lines.smoothing > 0) losses[i] -= lines.smoothing * total / static_cast<double>(lines.classes);
  }
  write(losses, context.output(0));
  write(sums, context.output(1));
}

void softmax_cross_entropy_gradient(KernelContext& context) {
  const std::vector<double> g = read<double>(context.input(0)), x = read<double>(context.input(1)),
                            sums = read<double>(context.input(3));
  const std::vector<std::int64_t> labels = read<std::int64_t>(context.input(2));
  const Lines lines(context, context.input(1).shape());
  std::vector<double> dx(x.size(), 0.0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == lines.ignored) continue;
    lines.check(labels[i]);
    for (std::int64_t c = 0; c < lines.classes; ++c) {
      const double target =
          lines.smoothing / static_cast<double>(lines.classes) + (c == labels[i] ? 1 - lines.smoothing : 0);
      dx[lines.at(i, c)] = g[i] * (std::exp(x[lines.at(i, c)] - sums[i]) - target);
    }
  }
  write(dx, context.output(0));
}

}  // namespace tessera::backends::reference
