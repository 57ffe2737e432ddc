// Computes the learning rate of each step.
#pragma once

#include <cstdint>

#include "tessera/train.h"

namespace tessera::train {

// The learning rate of step `step`, counted from 0, of `steps` in total. After the warm-up it decays by a factor:
//   cosine      f + (1 − f) (1 + cos(π t)) / 2, where t is the fraction of the steps after the warm-up that are done
//               (Loshchilov, Hutter, arXiv:1608.03983)
//   polynomial  f + (1 − f) (1 − t)^power
//   step        factor^(steps done after the warm-up / every), with the exponent rounded down
//   one_cycle   from initial_share up to 1 in warmup_share of the steps and down to final_share, both along a cosine
//               (Smith, Topin, arXiv:1708.07120); momentum does not change
//   plateau     1; evaluations change it (PlateauState)
// The result depends on the arguments alone, so a training that resumes from a checkpoint has the rates of one that was
// not interrupted.
double learning_rate_at(double learning_rate, const ScheduleOptions& options, std::int64_t step, std::int64_t steps);

// The state of the schedule "plateau", as in torch.optim.lr_scheduler.ReduceLROnPlateau with threshold 0.
struct PlateauState {
  std::int64_t without_gain = 0;  // consecutive evaluations
  double share = 1;               // factor of the learning rate
  void add(bool is_best, const ScheduleOptions& options) {
    without_gain = is_best ? 0 : without_gain + 1;
    if (without_gain <= options.patience) return;
    share *= options.factor;
    without_gain = 0;
  }
};

// Throws Error(invalid_argument) for an unknown name (and lists the names) and for options out of range.
void check_schedule(const ScheduleOptions& options);

}  // namespace tessera::train
