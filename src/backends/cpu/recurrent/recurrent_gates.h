// The gates of LSTM, GRU and RNN for one batch row of a chunk of units in one step.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/recurrent/recurrent.h"

namespace tessera::backends::cpu {

// The functions of the gates of one direction, where they are not the default of the kind of layer.
struct GateFunctions {
  ops::GateActivation activations[3];  // f, g and h, as far as the layer has them
  float clip;                          // bounds what they are applied to
  bool input_forget;                   // LSTM: f = 1 - i
};

// Those of each direction; empty where all are the default.
std::vector<GateFunctions> gate_functions(const ops::RecurrentPlan& plan, const ops::NodeView& view);

// Gates lie `count` apart.
struct GateRow {
  const float* input;           // W x + bias, gate after gate
  const float* recurrent;       // R h
  const float* recurrent_bias;  // GRU: of the hidden gate, in step with the units; null: none
  const float* previous;        // h of the step before
  float* cell;                  // LSTM: c, updated
  float* hidden;                // h of this step
  float* output;                // the same in Y; null: not wanted
  std::int64_t count;           // units
  float* kept = nullptr;        // where the gates are kept as ops::kept_gates says; null: nowhere
  std::int64_t kept_stride = 0;
  const float* peepholes = nullptr;  // LSTM: of i, o, f; null: none
  std::int64_t peephole_stride = 0;
  const GateFunctions* functions = nullptr;  // null: the default
  // In a GRU whose reset gate is applied before the product, these are z and r ⊙ H'. The first part of a step computes
  // both from the products of two gates, and the second part reads z.
  float *update = nullptr, *reset = nullptr;
};

void apply_lstm_gates(const GateRow& row);
void apply_gru_gates(const GateRow& row);
void apply_gru_reset(const GateRow& row);
void apply_gru_candidate(const GateRow& row);
void apply_rnn_gates(const GateRow& row);

}  // namespace tessera::backends::cpu
