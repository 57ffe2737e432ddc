// The learning rate of each step.
#pragma once

#include <cstdint>

#include "tessera/train.h"

namespace tessera::train {

// The rate of step `step`, from 0, of `steps` in all. The decay begins when the warm-up is over:
//   cosine      f + (1 − f) (1 + cos(π t)) / 2 with t the share of the steps behind the warm-up that are done
//               (Loshchilov, Hutter, arXiv:1608.03983)
//   polynomial  f + (1 − f) (1 − t)^power
//   step        factor^(steps done behind the warm-up / every), rounded down
//   one_cycle   from initial_share up to 1 in warmup_share of the steps and down to final_share, both along a cosine
//               (Smith, Topin, arXiv:1708.07120); momentum stays as it is
//   plateau     1; evaluations change it (PlateauState)
// A pure function of its arguments: a run that goes on from a checkpoint has the rates of one that was not stopped.
double learning_rate_at(double learning_rate, const ScheduleOptions& options, std::int64_t step, std::int64_t steps);

// How a schedule "plateau" stands, as torch.optim.lr_scheduler.ReduceLROnPlateau has it with threshold 0.
struct PlateauState {
  std::int64_t without_gain = 0;  // evaluations in a row
  double share = 1;               // of the learning rate
  void add(bool is_best, const ScheduleOptions& options) {
    without_gain = is_best ? 0 : without_gain + 1;
    if (without_gain <= options.patience) return;
    share *= options.factor;
    without_gain = 0;
  }
};

// Throws Error(invalid_argument) for an unknown name (that lists the names) and options out of range.
void check_schedule(const ScheduleOptions& options);

}  // namespace tessera::train
