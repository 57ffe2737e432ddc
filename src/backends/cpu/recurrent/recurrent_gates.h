// The gates of LSTM, GRU and RNN for one batch row of a chunk of units in one step.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/recurrent/recurrent.h"

namespace tessera::backends::cpu {

// The functions of the gates of one direction, if they are not the defaults of the kind of layer.
struct GateFunctions {
  ops::GateActivation activations[3];  // f, g and h, as far as the layer has them
  float clip;                          // bounds the arguments of the functions
  bool input_forget;                   // LSTM: f = 1 - i
};

// The functions of each direction; empty if all are the defaults.
std::vector<GateFunctions> gate_functions(const ops::RecurrentPlan& plan, const ops::NodeView& view);

// The operands of a row. Gates are `count` apart.
struct GateRow {
  const float* input;           // W x + bias, gate after gate
  const float* recurrent;       // R h
  const float* recurrent_bias;  // GRU: of the hidden gate, per unit; null: none
  const float* previous;        // h of the step before
  float* cell;                  // LSTM: c, updated
  float* hidden;                // h of this step
  float* output;                // h of this step in Y; null: not wanted
  std::int64_t count;           // units
  float* kept = nullptr;        // values of the gates for ops::kept_gates; null: not kept
  std::int64_t kept_stride = 0;
  const float* peepholes = nullptr;  // LSTM: of i, o, f; null: none
  std::int64_t peephole_stride = 0;
  const GateFunctions* functions = nullptr;  // null: the defaults
  // For a GRU that applies the reset gate before the product: z and r ⊙ H'. The first part of a step computes both from
  // the products of two gates, and the second part reads z.
  float *update = nullptr, *reset = nullptr;
};

void apply_lstm_gates(const GateRow& row);
void apply_gru_gates(const GateRow& row);
void apply_gru_reset(const GateRow& row);
void apply_gru_candidate(const GateRow& row);
void apply_rnn_gates(const GateRow& row);

}  // namespace tessera::backends::cpu
