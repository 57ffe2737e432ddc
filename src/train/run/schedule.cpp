#include "train/run/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "base/error.h"

namespace tessera::train {

void check_schedule(const ScheduleOptions& options) {
  constexpr std::array<std::string_view, 6> kNames = {"constant",   "step",      "cosine",
                                                      "polynomial", "one_cycle", "plateau"};
  require(std::ranges::find(kNames, options.name) != kNames.end(), ErrorKind::invalid_argument,
          "unknown schedule '{}'; there are {}", options.name, fmt::join(kNames, ", "));
  require(
      options.name != "one_cycle" || (options.warmup_share > 0 && options.warmup_share < 1 &&
                                      options.initial_share > 0 && options.warmup_steps == 0),
      ErrorKind::invalid_argument,
      "one_cycle: warmup_share is {}, initial_share {} and warmup_steps {}, expected numbers in (0, 1) and no steps",
      options.warmup_share, options.initial_share, options.warmup_steps);
  require(options.warmup_steps >= 0, ErrorKind::invalid_argument, "warmup_steps is {}, expected at least 0",
          options.warmup_steps);
  require(options.final_share >= 0 && options.final_share <= 1, ErrorKind::invalid_argument,
          "final_share is {}, expected a number in [0, 1]", options.final_share);
  require(options.power > 0, ErrorKind::invalid_argument, "power is {}, expected a positive number", options.power);
  require(options.name != "step" || options.every > 0, ErrorKind::invalid_argument,
          "the schedule 'step' needs every, the number of steps after which the rate falls");
  require(options.factor > 0, ErrorKind::invalid_argument, "factor is {}, expected a positive number", options.factor);
}

namespace {

// As torch.optim.lr_scheduler.OneCycleLR with cosines: the rise ends at step warmup_share · steps − 1.
double one_cycle_share(const ScheduleOptions& options, std::int64_t step, std::int64_t steps) {
  const double top = options.warmup_share * static_cast<double>(steps) - 1, end = static_cast<double>(steps) - 1;
  const auto at = static_cast<double>(step);
  const auto between = [](double from, double to, double share) {
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * std::clamp(share, 0.0, 1.0)));
  };
  if (at <= top) return between(options.initial_share, 1, top > 0 ? at / top : 1);
  return between(1, options.final_share, end > top ? (at - top) / (end - top) : 1);
}

}  // namespace

double learning_rate_at(double learning_rate, const ScheduleOptions& options, std::int64_t step, std::int64_t steps) {
  if (step < options.warmup_steps)
    return learning_rate * static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  if (options.name == "one_cycle") return learning_rate * one_cycle_share(options, step, steps);
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
