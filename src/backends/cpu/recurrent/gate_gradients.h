// The gradients of the gates of LSTM, GRU and RNN for one batch row of a chunk of units in one step.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

// The operands of a row. Gates are `stride` apart, and so are their kept values (ops::kept_gates) and the results.
struct GateGradientRow {
  const float* kept;       // of this step; RNN: the hidden state after the step
  const float* before;     // LSTM: the cell state before the step; GRU: the hidden state before it
  const float* output;     // the gradient of Y at this step; null: zero
  const float* recurrent;  // the gradient from the next step through R, or of Y_h; null: zero
  float* carried;          // LSTM: the gradient of the cell state; GRU: the part of that of the hidden state that
                           // bypasses R; of the state after the step, then of the one before it
  float* input;            // the gradients of W's product: of the gates before their activations
  float* product;          // GRU: the gradients of R's product
  std::int64_t stride;
  std::int64_t count;  // units
  bool relu = false;   // RNN: instead of tanh
};

void apply_lstm_gate_gradients(const GateGradientRow& row);
void apply_gru_gate_gradients(const GateGradientRow& row);
void apply_rnn_gate_gradients(const GateGradientRow& row);

// Adds `rows` rows of `count` floats, `stride` apart, to `sums`.
void sum_gate_gradients(const float* from, std::int64_t stride, std::int64_t rows, std::int64_t count, float* sums);

}  // namespace tessera::backends::cpu
