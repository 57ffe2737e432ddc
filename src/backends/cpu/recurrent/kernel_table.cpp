#include "backends/cpu/recurrent/kernel_table.h"

#include "backends/cpu/recurrent/kernels.h"

namespace tessera::backends::cpu {

std::span<const KernelEntry> recurrent_kernels() {
  static const KernelEntry table[] = {
      // recurrent
      {.op = "LSTM", .name = "cpu_lstm_f32", .reject = reject_recurrent, .create = make_recurrent},
      {.op = "GRU", .name = "cpu_gru_f32", .reject = reject_recurrent, .create = make_recurrent},
      {.op = "LSTM", .name = "cpu_bf16_lstm", .reject = reject_bf16_recurrent, .create = make_bf16_recurrent},
      {.op = "GRU", .name = "cpu_bf16_gru", .reject = reject_bf16_recurrent, .create = make_bf16_recurrent},
  };
  return table;
}

}  // namespace tessera::backends::cpu
