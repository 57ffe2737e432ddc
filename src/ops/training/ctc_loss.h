// Connectionist temporal classification: the loss of unaligned label sequences.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

// tessera::CtcLoss(scores [N, T, C], labels [N, S]) → losses [N], dScores [N, T, C]: with p = softmax(scores) along C,
//   losses = −log Σ over paths Π_t p[t, path_t],
// where the paths are those of T classes that become the labels when repetitions are merged and `blank` is dropped
// (Graves et al., "Connectionist temporal classification", ICML 2006). dScores is the derivative of a sample's loss.
// Labels of ignore_index are padding. A sample whose labels need more than T steps has the loss and derivative 0. Other
// labels outside of [0, C), and blank among the labels, are an error (failed) when it runs.
extern const OpDef ctc_loss;

}  // namespace tessera::ops
