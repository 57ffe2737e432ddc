// The area under the ROC curve (Hanley, McNeil 1982).
#pragma once

#include <cstdint>
#include <memory>

#include "train/evaluation/metrics.h"

namespace tessera::train {

// The probability that a positive sample scores above a negative one, ties counting half. Of logits of several classes
// it is the mean over the classes of that of each class's softmax against all others, as sklearn.metrics.roc_auc_score
// has it with multi_class="ovr"; classes that have no positive or no negative sample count for nothing. It keeps all
// scores until value() is asked for.
std::unique_ptr<Metric> make_area_under_curve(std::int64_t ignore_index);

}  // namespace tessera::train
