#include "backends/cpu/recurrent/kernel_table.h"

#include "backends/cpu/recurrent/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> recurrent_kernels() {
  static const KernelEntry table[] = {
      // recurrent
      {.op = "LSTM", .name = "cpu_lstm_f32", .reject = reject_recurrent_f32, .create = make_recurrent_f32},
      {.op = "GRU", .name = "cpu_gru_f32", .reject = reject_recurrent_f32, .create = make_recurrent_f32},
      {.op = "RNN", .name = "cpu_rnn_f32", .reject = reject_recurrent_f32, .create = make_recurrent_f32},
      {.op = "tessera::LSTMWithGates",
       .name = "cpu_lstm_with_gates_f32",
       .reject = reject_recurrent_f32,
       .create = make_recurrent_f32},
      {.op = "tessera::GRUWithGates",
       .name = "cpu_gru_with_gates_f32",
       .reject = reject_recurrent_f32,
       .create = make_recurrent_f32},
      {.op = "LSTM", .name = "cpu_bf16_lstm", .reject = reject_recurrent_bf16, .create = make_recurrent_bf16},
      {.op = "GRU", .name = "cpu_bf16_gru", .reject = reject_recurrent_bf16, .create = make_recurrent_bf16},
      {.op = "com.microsoft::DynamicQuantizeLSTM",
       .name = "cpu_dynamic_quantize_lstm",
       .reject = reject_recurrent_s8,
       .create = make_recurrent_s8},
      // recurrent_gradient_f32
      {.op = "tessera::LSTMGradient",
       .name = "cpu_lstm_gradient_f32",
       .reject = reject_recurrent_f32,
       .create = make_recurrent_gradient_f32},
      {.op = "tessera::GRUGradient",
       .name = "cpu_gru_gradient_f32",
       .reject = reject_recurrent_f32,
       .create = make_recurrent_gradient_f32},
      {.op = "tessera::RNNGradient",
       .name = "cpu_rnn_gradient_f32",
       .reject = reject_recurrent_f32,
       .create = make_recurrent_gradient_f32},
  };
  return table;
}

}  // namespace tessera::backends::cpu
