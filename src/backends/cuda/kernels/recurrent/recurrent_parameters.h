// The arguments of the kernels of recurrent.h.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kRecurrentThreads = 256;

// One step of one direction of an LSTM or a GRU, with sigmoid and tanh. Gates are rows of w and r in ONNX's order: LSTM
// input, output, forget, cell; GRU update, reset, hidden, whose reset gate scales the
// product with r (linear_before_reset). States are float, [batch, hidden].
struct RecurrentParameters {
  const void* x;        // [batch, inputs], of this step
  const void* w;        // [gates × hidden, inputs]
  const void* r;        // [gates × hidden, hidden]
  const float* bias;    // [2 × gates × hidden]: of w, then of r; or null
  const float* before;  // the hidden state of the step before
  float* after;         // the hidden state of this step; not `before`
  float* cell;          // LSTM: the cell state, which is updated
  void* y;              // [batch, hidden] with `y_stride` from row to row, or null
  void* last_hidden;    // [batch, hidden] after the last step, or null
  void* last_cell;
  std::int64_t y_stride;
  int batch, inputs, hidden;
};

// Fills float states from values of the suffix's type, or with zeros where there are none.
struct StateParameters {
  const void* initial;
  float* state;
  std::int64_t count;
};

}  // namespace tessera::cuda
