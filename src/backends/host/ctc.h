// The loss of connectionist temporal classification for one sample, on a host.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::backends::host {

// Scores of one sample as [time, classes]. `labels` holds no padding. Returns −log of their probability, and writes its
// derivative to `derivative` [time, classes] unless that is null; both are 0 where the labels need more steps than
// there are. See ops/training/ctc_loss.h. Throws Error(failed) for a label that is blank or no class.
double ctc_loss(const double* scores, std::int64_t time, std::int64_t classes, std::span<const std::int64_t> labels,
                std::int64_t blank, double* derivative);

}  // namespace tessera::backends::host
