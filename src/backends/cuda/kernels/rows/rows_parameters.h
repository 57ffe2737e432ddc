// The arguments of the kernels of rows.h.
#pragma once

namespace tessera::cuda {

inline constexpr int kRowThreads = 256;

struct SoftmaxParameters {
  const void* x;
  void* y;  // may be x
  int columns;
  bool logarithm;  // y is the logarithm of the softmax
};

// y = (x - mean) / sqrt(variance + epsilon) × weight + bias; RMS normalisation leaves the mean out and takes the mean
// of squares as the variance. weight and bias have x's type, or are null.
struct NormalisationParameters {
  const void* x;
  void* y;  // may be x
  const void* weight;
  const void* bias;
  int columns;
  float epsilon;
};

}  // namespace tessera::cuda
