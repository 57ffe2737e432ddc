// Losses as graphs. Each is one number, the mean over what it counts, in float32 (or float64 for float64 predictions)
// whatever the element type of the prediction is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ops/core/builder.h"
#include "tessera/train.h"

namespace tessera::train {

// What a loss compares a prediction with: numbers of classes, or a number for each of the prediction's, which is a
// probability or any number.
enum class TargetKind : std::uint8_t { labels, probabilities, numbers };
// Throws Error(invalid_argument) for an unknown name, listing the losses.
TargetKind target_kind(const std::string& loss);

// What a loss compares. `mixed_target` and `mix` are those of mixup: the loss is mix · L(target) + (1 − mix) ·
// L(mixed_target), sample by sample.
struct LossInputs {
  ir::ValueId prediction, target;
  std::optional<ir::ValueId> mixed_target, mix;
};

// A loss and what it is the mean of: the number of terms, or the sum of their weights; both scalars of one float type.
struct LossValues {
  ir::ValueId loss, count;
};

// In the graph of the builder, whose types must have been inferred. Classes lie along axis 1, as in PyTorch, or along
// the last one where the labels fit no other way; options.class_axis says which where they fit both ways.
//   cross_entropy  logits [N, classes, d...] or [N, d..., classes], labels i64 [N, d...]: −log softmax(logits)[label],
//                  whose mean class_weights weigh
//   bce            logits and targets in [0, 1] of one shape: binary cross-entropy of the logits' sigmoid, with
//                  positive targets counted pos_weight times
//   mse, l1        (p − t)², |p − t|
//   smooth_l1      (p − t)² / (2 beta) below beta, |p − t| − beta / 2 above
//   huber          (p − t)² / 2 below delta, delta (|p − t| − delta / 2) above
//   focal          as bce, times alpha_t (1 − p_t)^gamma
//   distillation   logits and the teacher's logits [N, classes]: temperature² · KL(teacher ‖ prediction) of the softmax
//                  of logits / temperature (Hinton et al., arXiv:1503.02531), mean over N
//   dice           logits [N, classes, d...] and labels i64 [N, d...]: 1 − (2 Σ p t + s) / (Σ p + Σ t + s) of the
//                  softmax, the sums over d, mean over N and classes (Milletari et al., arXiv:1606.04797); one class:
//                  sigmoid, with labels 0 and 1
//   ctc            logits [N, time, classes] and labels i64 [N, length], padded by ignore_index: −log of the
//                  probability of the labels over all alignments (ops/training/ctc_loss.h), mean over N
// Throws Error(invalid_argument) for an unknown name (that lists the names), for shapes that do not fit, and for
// options out of range.
LossValues build_loss(ops::GraphBuilder& builder, const LossInputs& inputs, const LossOptions& options);

}  // namespace tessera::train
