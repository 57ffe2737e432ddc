#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tessera::train {

void check_schedule(const ScheduleOptions& options) {
  const bool known =
      options.name == "constant" || options.name == "step" || options.name == "cosine" || options.name == "polynomial";
  require(known, ErrorKind::invalid_argument, "unknown schedule '{}'; there are constant, step, cosine and polynomial",
          options.name);
  require(options.warmup_steps >= 0, ErrorKind::invalid_argument, "warmup_steps is {}, expected at least 0",
          options.warmup_steps);
  require(options.final_share >= 0 && options.final_share <= 1, ErrorKind::invalid_argument,
          "final_share is {}, expected a number in [0, 1]", options.final_share);
  require(options.power > 0, ErrorKind::invalid_argument, "power is {}, expected a positive number", options.power);
  require(options.name != "step" || options.every > 0, ErrorKind::invalid_argument,
          "the schedule 'step' needs every, the number of steps after which the rate falls");
  require(options.factor > 0, ErrorKind::invalid_argument, "factor is {}, expected a positive number", options.factor);
}

double learning_rate_at(double learning_rate, const ScheduleOptions& options, std::int64_t step, std::int64_t steps) {
  if (step < options.warmup_steps)
    return learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  const std::int64_t done = step - options.warmup_steps;
  if (options.name == "step")
    return learning_rate * std::pow(options.factor, static_cast<double>(done / options.every));
  const auto rest = static_cast<double>(std::max<std::int64_t>(steps - options.warmup_steps, 1));
  const double share = std::min(1.0, static_cast<double>(done) / rest);
  double left = 1;
  if (options.name == "cosine") left = (1 + std::cos(std::numbers::pi * share)) / 2;
  else if (options.name == "polynomial") left = std::pow(1 - share, options.power);
  return learning_rate * (options.final_share + (1 - options.final_share) * left);
}

}  // namespace tessera::train
