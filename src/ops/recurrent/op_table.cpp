#include "ops/recurrent/op_table.h"

#include "ops/recurrent/dynamic_quantize_lstm.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/recurrent_gradient.h"

namespace tessera::ops {

std::span<const OpDef* const> recurrent_ops() {
  static constexpr const OpDef* table[] = {
      // dynamic_quantize_lstm
      &dynamic_quantize_lstm,
      // recurrent
      &rnn,
      &gru,
      &lstm,
      // recurrent_gradient
      &lstm_with_gates,
      &gru_with_gates,
      &rnn_gradient,
      &gru_gradient,
      &lstm_gradient,
  };
  return table;
}

}  // namespace tessera::ops
