// The loss of connectionist temporal classification (CTC) for one sample, on a host.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::backends::host {

// `scores` is [time, classes]; `labels` holds no padding. Returns −log of the labels' probability, and writes its
// derivative to `derivative` [time, classes] unless that is null; both are 0 if the labels need more than `time` steps.
// See ops/training/ctc_loss.h. Throws Error(failed) for a label that is the blank or not a class.
double ctc_loss(const double* scores, std::int64_t time, std::int64_t classes, std::span<const std::int64_t> labels,
                std::int64_t blank, double* derivative);

}  // namespace tessera::backends::host
