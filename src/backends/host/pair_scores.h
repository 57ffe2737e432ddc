// Converts the scores of pairs of classes to results of classifiers; shared by the kernels of ai.onnx.ml.
#pragma once

#include <vector>

#include "backends/host/class_scores.h"

namespace tessera::backends::host {

// Class probabilities from the scores of all pairs of classes: P(i | i or j) = 1 / (1 + e^(score a + b)), coupled.
std::vector<double> probabilities_of_pairs(std::size_t classes, const std::vector<double>& scores,
                                           const std::vector<double>& a, const std::vector<double>& b);

// The results of a classifier of two classes that computes one score. The specification leaves them open; as in
// onnxruntime, the first class gets the rest of 1, and softmax leaves the pair unchanged.
std::vector<double> scores_of_pair(double score, ops::PostTransform transform);

}  // namespace tessera::backends::host
