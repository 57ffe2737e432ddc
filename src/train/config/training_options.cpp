#include <cmath>

#include "base/error.h"
#include "train/net/training_graph.h"

namespace tessera::train {

void check_options(const TrainingGraphOptions& options) {
  const auto check = [](bool condition, const char* name, double value, const char* expected) {
    require(condition, ErrorKind::invalid_argument, "{} is {}, expected {}", name, value, expected);
  };
  const OptimiserOptions& optimiser = options.optimiser;
  check(optimiser.momentum >= 0 && optimiser.momentum < 1, "momentum", optimiser.momentum, "a number in [0, 1)");
  check(optimiser.beta1 >= 0 && optimiser.beta1 < 1, "beta1", optimiser.beta1, "a number in [0, 1)");
  check(optimiser.beta2 >= 0 && optimiser.beta2 < 1, "beta2", optimiser.beta2, "a number in [0, 1)");
  check(optimiser.weight_decay >= 0, "weight_decay", optimiser.weight_decay, "at least 0");
  check(optimiser.clip_norm >= 0, "clip_norm", optimiser.clip_norm, "at least 0");
  check(options.accumulate > 0, "accumulate", static_cast<double>(options.accumulate), "at least 1");
  require(options.ranks.ranks <= options.accumulate, ErrorKind::invalid_argument,
          "{} ranks share the {} of a step (train.accumulate): set it to a multiple of {}, which may go with a smaller "
          "data.batch, or start fewer ranks",
          options.ranks.ranks, options.accumulate == 1 ? "one batch" : fmt::format("{} batches", options.accumulate),
          options.ranks.ranks);
  check(options.average_decay >= 0 && options.average_decay < 1, "the decay of the moving average",
        options.average_decay, "a number in [0, 1)");
  const auto is_power_of_two = [](double value) {
    int exponent = 0;
    return value > 0 && std::frexp(value, &exponent) == 0.5;
  };
  const LossScaleOptions& scale = options.loss_scale;
  if (!scale.on) return;
  require(
      is_power_of_two(scale.initial) && is_power_of_two(scale.least) && is_power_of_two(scale.most) &&
          scale.least <= scale.initial && scale.initial <= scale.most && scale.most <= 0x1p120,
      ErrorKind::invalid_argument,
      "a loss scale from {} within [{}, {}] cannot be kept: expected powers of two, the first one within the bounds",
      scale.initial, scale.least, scale.most);
}

}  // namespace tessera::train
