#include "backends/reference/kernels/recurrent/kernel_table.h"

#include "backends/reference/kernels/recurrent/kernels.h"

namespace tessera::backends::reference {

std::span<const KernelEntry> recurrent_kernels() {
  static const KernelEntry table[] = {
      // recurrent
      {.op = "RNN", .name = "reference_rnn", .function = rnn},
      {.op = "GRU", .name = "reference_gru", .function = gru},
      {.op = "LSTM", .name = "reference_lstm", .function = lstm},
      {.op = "tessera::LSTMWithGates", .name = "reference_lstm_with_gates", .function = lstm},
      {.op = "tessera::GRUWithGates", .name = "reference_gru_with_gates", .function = gru},
      // recurrent_gradient
      {.op = "tessera::RNNGradient", .name = "reference_rnn_gradient", .function = recurrent_gradient},
      {.op = "tessera::GRUGradient", .name = "reference_gru_gradient", .function = recurrent_gradient},
      {.op = "tessera::LSTMGradient", .name = "reference_lstm_gradient", .function = recurrent_gradient},
  };
  return table;
}

}  // namespace tessera::backends::reference
