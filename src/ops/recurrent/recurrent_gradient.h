// Training of recurrent layers: LSTM and GRU that also return the activations of their gates, and the gradients of RNN,
// GRU and LSTM, which read those.
#pragma once

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef lstm_with_gates;
extern const OpDef gru_with_gates;
extern const OpDef rnn_gradient;
extern const OpDef gru_gradient;
extern const OpDef lstm_gradient;

// The number of values, of `hidden` elements each, that a step keeps in output `gates`: 5 for LSTMWithGates, 4 for
// GRUWithGates, else 0. The first ones are the gates in the order of W's rows, after their activations. They are
// followed, for an LSTM, by the cell state, and for a GRU by the product of R of the hidden gate (its bias included)
// with linear_before_reset, or by the operand of that product (r ⊙ H') without.
std::int64_t kept_gates(const OpDef& op);

// The gradient of RNN, GRU, LSTM and the two operators above: gives the forward node the outputs that its gradient
// reads and builds the gradient. Throws Error(unsupported) for activations other than the default (an RNN may have
// Relu), clip and input_forget.
void recurrent_gradient(GradientContext& context);

// The places of the operands that the gradient operators have after those of the layer, which keep their places. Absent
// gradients are zero.
struct RecurrentGradientInputs {
  std::size_t operands;   // of the layer: X, W, R, B, sequence_lens, initial_h and of an LSTM initial_c and P
  std::size_t y, dy, dh;  // Y and the gradients of Y and Y_h
  std::size_t gates, dc;  // GRU and LSTM: gates; LSTM: the gradient of Y_c; else behind the last input
};
RecurrentGradientInputs recurrent_gradient_inputs(const OpDef& op);

}  // namespace tessera::ops
