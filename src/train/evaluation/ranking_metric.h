// The area under the ROC curve (Hanley, McNeil 1982).
#pragma once

#include <cstdint>
#include <memory>

#include "train/evaluation/metrics.h"

namespace tessera::train {

// The probability that a positive sample scores above a negative one, with ties counting half. For logits of several
// classes it is the mean over the classes of the area for each class's softmax against all others, as
// sklearn.metrics.roc_auc_score computes it with multi_class="ovr"; classes without a positive or a negative sample are
// left out. Keeps all scores until value() is called.
std::unique_ptr<Metric> make_area_under_curve(std::int64_t ignore_index);

}  // namespace tessera::train
