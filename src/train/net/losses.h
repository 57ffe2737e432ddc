// Losses as graphs. Each is one number: the mean over its terms, in float32 (or float64 for float64 predictions),
// whatever the element type of the prediction is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ops/core/builder.h"
#include "tessera/train.h"

namespace tessera::train {

// The kind of a loss's targets: numbers of classes, or one number per element of the prediction, which is a probability
// or any number.
enum class TargetKind : std::uint8_t { labels, probabilities, numbers };
// Throws Error(invalid_argument) that lists the losses for an unknown name.
TargetKind target_kind(const std::string& loss);

// The operands of a loss. `mixed_target` and `mix` are those of mixup: the loss is mix · L(target) + (1 − mix) ·
// L(mixed_target), for each sample.
struct LossInputs {
  ir::ValueId prediction, target;
  std::optional<ir::ValueId> mixed_target, mix;
};

// A loss, and the divisor of its mean: the number of terms, or the sum of their weights. Both are scalars of one float
// type.
struct LossValues {
  ir::ValueId loss, count;
};

// Adds the loss to the builder's graph, whose types must have been inferred. Classes lie along axis 1, as in PyTorch,
// or along the last axis if only that fits the labels' shape; options.class_axis decides if both fit.
//   cross_entropy  logits [N, classes, d...] or [N, d..., classes], labels i64 [N, d...]: −log softmax(logits)[label],
//                  with a mean weighted by class_weights
//   bce            logits and targets in [0, 1] of one shape: binary cross-entropy of the logits' sigmoid, with
//                  positive targets weighted by pos_weight
//   mse, l1        (p − t)², |p − t|
//   smooth_l1      (p − t)² / (2 beta) below beta, |p − t| − beta / 2 above
//   huber          (p − t)² / 2 below delta, delta (|p − t| − delta / 2) above
//   focal          bce times alpha_t (1 − p_t)^gamma
//   distillation   logits and the teacher's logits [N, classes]: temperature² · KL(teacher ‖ prediction) of the softmax
//                  of logits / temperature (Hinton et al., arXiv:1503.02531), mean over N
//   dice           logits [N, classes, d...] and labels i64 [N, d...]: 1 − (2 Σ p t + s) / (Σ p + Σ t + s) of the
//                  softmax, with sums over d and the mean over N and classes (Milletari et al., arXiv:1606.04797); for
//                  one class, of the sigmoid, with labels 0 and 1
//   ctc            logits [N, time, classes] and labels i64 [N, length], padded by ignore_index: −log of the
//                  probability of the labels over all alignments (ops/training/ctc_loss.h), mean over N
// Throws Error(invalid_argument) for an unknown name (and lists the names), for shapes that do not fit, and for options
// out of range.
LossValues build_loss(ops::GraphBuilder& builder, const LossInputs& inputs, const LossOptions& options);

}  // namespace tessera::train
