// The gates of LSTM and GRU for one batch row of a chunk of units in one step.
#pragma once

#include <cstdint>

namespace tessera::backends::cpu {

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
  bool relu = false;  // RNN: instead of tanh
};

void apply_lstm_gates(const GateRow& row);
void apply_gru_gates(const GateRow& row);
void apply_rnn_gates(const GateRow& row);

}  // namespace tessera::backends::cpu
