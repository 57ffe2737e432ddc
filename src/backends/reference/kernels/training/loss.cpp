#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "backends/host/numeric.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

// Scores [batch, classes, positions]; labels [batch, positions].
struct Layout {
  explicit Layout(const Shape& shape) : batch(shape[0]), classes(shape[1]) {
    for (std::size_t i = 2; i < shape.size(); ++i) positions *= shape[i];
  }
  std::int64_t batch, classes, positions = 1;
};

void take_losses(KernelContext& context, const std::vector<double>& log_probabilities, const Layout& layout) {
  const std::vector<std::int64_t> labels = read<std::int64_t>(context.input(1));
  const std::vector<double> weights = context.has_input(2)
                                          ? read<double>(context.input(2))
                                          : std::vector<double>(static_cast<std::size_t>(layout.classes), 1.0);
  const bool ignores = context.has_attribute("ignore_index");
  std::vector<double> losses(labels.size(), 0);
  double sum = 0, total_weight = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (ignores && labels[i] == context.integer("ignore_index")) continue;
    require(labels[i] >= 0 && labels[i] < layout.classes, ErrorKind::failed, "label {} is outside [0, {})", labels[i],
            layout.classes);
    const std::int64_t n = static_cast<std::int64_t>(i) / layout.positions,
                       p = static_cast<std::int64_t>(i) % layout.positions;
    const double weight = weights[static_cast<std::size_t>(labels[i])];
    losses[i] =
        -weight * log_probabilities[static_cast<std::size_t>((n * layout.classes + labels[i]) * layout.positions + p)];
    sum += losses[i];
    total_weight += weight;
  }
  const std::string& reduction = context.text("reduction");
  if (reduction == "none") write(losses, context.output(0));
  else write(std::vector<double>{reduction == "sum" ? sum : sum / total_weight}, context.output(0));
}

}  // namespace

void negative_log_likelihood_loss(KernelContext& context) {
  take_losses(context, read<double>(context.input(0)), Layout(context.input(0).shape()));
}

void softmax_cross_entropy_loss(KernelContext& context) {
  std::vector<double> x = read<double>(context.input(0));
  const Layout layout(context.input(0).shape());
  for (std::int64_t line = 0; line < layout.batch * layout.positions; ++line) {
    double* first = x.data() + line / layout.positions * layout.classes * layout.positions + line % layout.positions;
    double largest = -INFINITY, sum = 0;
    for (std::int64_t c = 0; c < layout.classes; ++c) largest = std::max(largest, first[c * layout.positions]);
    for (std::int64_t c = 0; c < layout.classes; ++c) sum += std::exp(first[c * layout.positions] - largest);
    for (std::int64_t c = 0; c < layout.classes; ++c) first[c * layout.positions] -= largest + std::log(sum);
  }
  take_losses(context, x, layout);
  if (context.wants_output(1)) write(x, context.output(1));
}

}  // namespace tessera::backends::reference
