// Backpropagation through time of LSTM, GRU and RNN in float32. Visits the steps in reverse order; each multiplies the
// gate gradients of the following step by R and then computes those of its own gates. Chunks of units run in parallel,
// as in the forward pass. The gradients of X, W, R and B are products and sums over all steps at once, for which the
// gate gradients of all steps and directions are stored as [steps, directions · rows].
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/cpu/machine/operand_rules.h"
#include "backends/cpu/products/gemm_f32.h"
#include "backends/cpu/recurrent/gate_gradients.h"
#include "backends/cpu/recurrent/kernels.h"
#include "backends/cpu/recurrent/recurrent_layer.h"

namespace tessera::backends::cpu {
namespace {

enum Output : std::size_t { kX, kW, kR, kB, kInitialHidden, kInitialCell };

constexpr std::int64_t kLeastUnits = 64;

class RecurrentGradient final : public Kernel {
 public:
  explicit RecurrentGradient(const ops::NodeView& view)
      : layer_(view, sizeof(float)),
        plan_(ops::read_recurrent(view)),
        inputs_(ops::recurrent_gradient_inputs(view.op())),
        lstm_(layer_.gates == 4),
        gru_(layer_.gates == 3),
        relu_(plan_.activations[0].kind == ops::GateActivationKind::relu),
        kept_(lstm_  ? 5
              : gru_ ? 4
                     : 1),
        line_(layer_.directions * layer_.rows()),
        data_({layer_.steps(), layer_.features, line_}, false, false),
        weights_({line_, layer_.features, layer_.steps()}, false, false),
        recurrence_({layer_.rows(), layer_.hidden, layer_.steps()}, false, false),
        joined_(!gru_ && layer_.directions == 1),
        both_({layer_.rows(), layer_.features + layer_.hidden, layer_.steps()}, false, false),
        before_line_(layer_.directions * layer_.hidden + (joined_ ? layer_.features : 0)) {
    // Fewer, wider chunks: each chunk packs the gate gradients of a step again, and wide tiles of the product are the
    // fastest.
    layer_.units = std::max(layer_.units, std::min<std::int64_t>(layer_.hidden, kLeastUnits));
    for (std::int64_t chunk = 0; chunk < layer_.chunks(); ++chunk)
      back_.emplace_back(GemmShape{layer_.batch, layer_.units_of(chunk), layer_.rows()}, false, true);
    right_bytes_ = gemm_f32_right_bytes(layer_.rows(), layer_.units);
  }

  std::int64_t scratch_bytes() const override {
    const std::int64_t gates = base::checked_multiply(layer_.steps(), line_) * (gru_ ? 2 : 1);
    const std::int64_t before = base::checked_multiply(layer_.steps(), before_line_) + joined_elements();
    const std::int64_t states = 2 * base::checked_multiply(layer_.state_elements(), layer_.directions);
    return base::checked_add(base::checked_multiply(base::checked_add(base::checked_add(gates, before), states), 4),
                             base::checked_multiply(right_bytes_, layer_.directions * layer_.chunks()) + 64);
  }

  void run(KernelContext& context) const override {
    const Scratch scratch = this->scratch(context);
    pack(context, scratch);
    walk(context, scratch);
    if (context.wants_output(kInitialHidden) || context.wants_output(kInitialCell)) give_initial(context, scratch);
    multiply(context, scratch);
    if (context.wants_output(kB)) sum_biases(context, scratch);
  }

 private:
  std::int64_t joined_elements() const { return joined_ ? layer_.rows() * (layer_.features + layer_.hidden) : 0; }

  struct Scratch {
    std::byte* right;  // R of each direction and chunk as a right operand [rows, units]
    float* input;      // [steps, directions, rows]: gate gradients, of W's product
    float* product;    // of R's product; the same memory as `input` but for a GRU
    float* before;     // [steps, directions, hidden], before_line_ apart: the hidden state before each step
    float* joined;     // [rows, features + hidden]: the gradients of W and R side by side
    float* recurrent;  // [directions, chunk, batch, units]: gradients through R
    float* carried;    // [directions, batch, hidden]
  };

  Scratch scratch(const KernelContext& context) const {
    Scratch result{};
    result.right = context.scratch();
    float* next = reinterpret_cast<float*>(context.scratch() +
                                           base::round_up(right_bytes_ * layer_.directions * layer_.chunks(), 64));
    const auto take = [&next](std::int64_t count) { return std::exchange(next, next + count); };
    result.input = take(layer_.steps() * line_);
    result.product = gru_ ? take(layer_.steps() * line_) : result.input;
    result.before = take(layer_.steps() * before_line_) + (joined_ ? layer_.features : 0);
    result.joined = take(joined_elements());
    result.recurrent = take(layer_.state_elements() * layer_.directions);
    result.carried = take(layer_.state_elements() * layer_.directions);
    return result;
  }

  static const float* operand(const KernelContext& context, std::size_t i) {
    return context.has_input(i) ? context.input(i).data<float>() : nullptr;
  }
  std::int64_t time(std::int64_t direction, std::int64_t step) const {
    return plan_.reverse(static_cast<std::size_t>(direction)) ? layer_.length - 1 - step : step;
  }
  // The row of Y of one time, direction and sequence.
  std::int64_t y_row(std::int64_t t, std::int64_t d, std::int64_t b) const {
    return ((t * layer_.directions + d) * layer_.batch + b) * layer_.hidden;
  }

  // Packs R for the steps, collects the states before each step, and initialises the gradients of the last states.
  void pack(const KernelContext& context, const Scratch& scratch) const {
    const float* r = context.input(2).data<float>();
    const std::int64_t chunks = layer_.chunks(), hidden = layer_.hidden;
    context.parallel_for(layer_.directions * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float* from = r + i / chunks * layer_.rows() * hidden + i % chunks * layer_.units;
        gemm_f32_pack_right(GemmOperand::strided(from, hidden, 1), layer_.rows(), layer_.units_of(i % chunks),
                            reinterpret_cast<float*>(scratch.right + i * right_bytes_));
      }
    });
    const float *x = operand(context, 0), *y = operand(context, inputs_.y), *initial = operand(context, 5);
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (layer_.directions * hidden));
    context.parallel_for(layer_.steps(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t t = i / layer_.batch, b = i % layer_.batch;
        if (joined_)
          std::copy_n(x + i * layer_.features, layer_.features, scratch.before + i * before_line_ - layer_.features);
        for (std::int64_t d = 0; d < layer_.directions; ++d) {
          float* to = scratch.before + i * before_line_ + d * hidden;
          const bool reverse = plan_.reverse(static_cast<std::size_t>(d));
          const std::int64_t earlier = reverse ? t + 1 : t - 1;
          if (earlier >= 0 && earlier < layer_.length) std::copy_n(y + y_row(earlier, d, b), hidden, to);
          else if (initial != nullptr) std::copy_n(initial + (d * layer_.batch + b) * hidden, hidden, to);
          else std::fill_n(to, hidden, 0.0f);
        }
      }
    });
    const float* last_cell = lstm_ ? operand(context, inputs_.dc) : nullptr;
    const std::int64_t states = layer_.state_elements() * layer_.directions;
    if (last_cell != nullptr) std::copy_n(last_cell, states, scratch.carried);
    else std::fill_n(scratch.carried, states, 0.0f);
  }

  void walk(const KernelContext& context, const Scratch& scratch) const {
    const std::int64_t chunks = layer_.chunks(), all = layer_.directions * chunks;
    if (chunks == 1) {
      context.parallel_for(layer_.directions, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t d = begin; d < end; ++d) {
          for (std::int64_t step = layer_.length; step-- > 0;) run_chunk(context, scratch, d, step, 0);
        }
      });
      return;
    }
    for (std::int64_t step = layer_.length; step-- > 0;) {
      context.parallel_for(all, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) run_chunk(context, scratch, i / chunks, step, i % chunks);
      });
    }
  }

  float* recurrent_of(const Scratch& scratch, std::int64_t direction, std::int64_t chunk) const {
    return scratch.recurrent + direction * layer_.state_elements() + layer_.batch * chunk * layer_.units;
  }

  // Computes the gradient, through R, of the chunk's units of the previous hidden state, [batch, units].
  void send_back(const Scratch& scratch, std::int64_t direction, std::int64_t step, std::int64_t chunk) const {
    const GemmF32& gemm = back_[static_cast<std::size_t>(chunk)];
    const float* gates = scratch.product + time(direction, step) * layer_.batch * line_ + direction * layer_.rows();
    const std::byte* right = scratch.right + (direction * layer_.chunks() + chunk) * right_bytes_;
    const GemmF32::Split split = gemm.split(1);
    for (std::int64_t tile = 0; tile < split.tiles(); ++tile)
      gemm.run(split, tile, GemmOperand::strided(gates, line_, 1),
               GemmOperand::prepacked(reinterpret_cast<const float*>(right)), recurrent_of(scratch, direction, chunk),
               gemm.shape().n, {});
  }

  void run_chunk(const KernelContext& context, const Scratch& scratch, std::int64_t d, std::int64_t step,
                 std::int64_t chunk) const {
    const std::int64_t units = layer_.units_of(chunk), first = chunk * layer_.units, hidden = layer_.hidden,
                       t = time(d, step);
    const bool last = step == layer_.length - 1;
    if (!last) send_back(scratch, d, step + 1, chunk);
    const float *dy = operand(context, inputs_.dy), *dh = operand(context, inputs_.dh),
                *kept = layer_.gates == 1 ? operand(context, inputs_.y) : operand(context, inputs_.gates),
                *initial_cell = lstm_ ? operand(context, 6) : nullptr;
    const auto step_row = [&](std::int64_t at, std::int64_t b) {
      return ((d * layer_.length + at) * layer_.batch + b) * kept_ * hidden + first;
    };
    for (std::int64_t b = 0; b < layer_.batch; ++b) {
      const std::int64_t state = (d * layer_.batch + b) * hidden + first, row = t * layer_.batch + b;
      GateGradientRow gates{};
      gates.kept = kept + (layer_.gates == 1 ? y_row(t, d, b) + first : step_row(t, b));
      gates.before = scratch.before + row * before_line_ + d * hidden + first;
      if (lstm_ && step > 0) gates.before = kept + step_row(time(d, step - 1), b) + 4 * hidden;
      else if (lstm_) gates.before = initial_cell != nullptr ? initial_cell + state : zeros(units);
      if (dy != nullptr) gates.output = dy + y_row(t, d, b) + first;
      if (!last) gates.recurrent = recurrent_of(scratch, d, chunk) + b * units;
      else if (dh != nullptr) gates.recurrent = dh + state;
      gates.carried = scratch.carried + state;
      gates.input = scratch.input + row * line_ + d * layer_.rows() + first;
      gates.product = scratch.product + row * line_ + d * layer_.rows() + first;
      gates.stride = hidden;
      gates.count = units;
      gates.relu = relu_;
      if (lstm_) apply_lstm_gate_gradients(gates);
      else if (gru_) apply_gru_gate_gradients(gates);
      else apply_rnn_gate_gradients(gates);
    }
  }

  static const float* zeros(std::int64_t units) {
    thread_local std::vector<float> values;
    if (static_cast<std::int64_t>(values.size()) < units) values.assign(static_cast<std::size_t>(units), 0.0f);
    return values.data();
  }

  void give_initial(KernelContext& context, const Scratch& scratch) const {
    const std::int64_t chunks = layer_.chunks(), hidden = layer_.hidden;
    const std::int64_t states = layer_.state_elements() * layer_.directions;
    if (lstm_ && context.wants_output(kInitialCell))
      std::copy_n(scratch.carried, states, context.output(kInitialCell).mutable_data<float>());
    if (!context.wants_output(kInitialHidden)) return;
    float* to = context.output(kInitialHidden).mutable_data<float>();
    context.parallel_for(layer_.directions * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t d = i / chunks, chunk = i % chunks, units = layer_.units_of(chunk);
        send_back(scratch, d, 0, chunk);
        const float* sent = recurrent_of(scratch, d, chunk);
        for (std::int64_t b = 0; b < layer_.batch; ++b) {
          const std::int64_t state = (d * layer_.batch + b) * hidden + chunk * layer_.units;
          for (std::int64_t u = 0; u < units; ++u)
            to[state + u] = sent[b * units + u] + (gru_ ? scratch.carried[state + u] : 0.0f);
        }
      }
    });
  }

  void multiply(KernelContext& context, const Scratch& scratch) const {
    const GemmOperand gates = GemmOperand::strided(scratch.input, line_, 1),
                      turned = GemmOperand::strided(scratch.input, 1, line_);
    const std::int64_t features = layer_.features, hidden = layer_.hidden, rows = layer_.rows();
    if (context.wants_output(kX))
      gemm_f32(context, data_, gates, GemmOperand::strided(context.input(1).data<float>(), features, 1),
               context.output(kX).mutable_data<float>(), features);
    if (joined_ && context.wants_output(kW) && context.wants_output(kR)) return multiply_both(context, scratch);
    if (context.wants_output(kW))
      gemm_f32(context, weights_, turned, GemmOperand::strided(context.input(0).data<float>(), features, 1),
               context.output(kW).mutable_data<float>(), features);
    if (!context.wants_output(kR)) return;
    for (std::int64_t d = 0; d < layer_.directions; ++d)
      gemm_f32(context, recurrence_, GemmOperand::strided(scratch.product + d * rows, 1, line_),
               GemmOperand::strided(scratch.before + d * hidden, before_line_, 1),
               context.output(kR).mutable_data<float>() + d * rows * hidden, hidden);
  }

  // Computes the gradients of W and R in one pass over the gate gradients.
  void multiply_both(KernelContext& context, const Scratch& scratch) const {
    const std::int64_t features = layer_.features, hidden = layer_.hidden, width = features + hidden;
    gemm_f32(context, both_, GemmOperand::strided(scratch.input, 1, line_),
             GemmOperand::strided(scratch.before - features, before_line_, 1), scratch.joined, width);
    float *w = context.output(kW).mutable_data<float>(), *r = context.output(kR).mutable_data<float>();
    context.parallel_for(layer_.rows(), std::max<std::int64_t>(1, 16384 / width),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t row = begin; row < end; ++row) {
                             const float* from = scratch.joined + row * width;
                             std::copy_n(from, features, w + row * features);
                             std::copy_n(from + features, hidden, r + row * hidden);
                           }
                         });
  }

  // Sums both kinds of gate gradients over all steps: [directions, 2 · rows].
  void sum_biases(KernelContext& context, const Scratch& scratch) const {
    constexpr std::int64_t kColumns = 64;
    const std::int64_t rows = layer_.rows();
    float* to = context.output(kB).mutable_data<float>();
    context.parallel_for(base::ceil_divide(line_, kColumns), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t first = block * kColumns, count = std::min(kColumns, line_ - first);
        float sums[2][kColumns] = {};
        sum_gate_gradients(scratch.input + first, line_, layer_.steps(), count, sums[0]);
        if (gru_) sum_gate_gradients(scratch.product + first, line_, layer_.steps(), count, sums[1]);
        else std::copy_n(sums[0], count, sums[1]);
        for (std::int64_t k = 0; k < count; ++k) {
          const std::int64_t d = (first + k) / rows, row = (first + k) % rows;
          for (std::int64_t i = 0; i < 2; ++i) to[(2 * d + i) * rows + row] = sums[i][k];
        }
      }
    });
  }

  RecurrentLayer layer_;
  ops::RecurrentPlan plan_;
  ops::RecurrentGradientInputs inputs_;
  bool lstm_, gru_, relu_;
  std::int64_t kept_;  // values kept per step and unit
  std::int64_t line_;  // gates of all directions
  GemmF32 data_, weights_, recurrence_;
  bool joined_;  // the gradients of W and R are one product: X precedes the hidden states in `before`
  GemmF32 both_;
  std::int64_t before_line_;   // floats of a step and sequence in `before`
  std::vector<GemmF32> back_;  // one per chunk
  std::int64_t right_bytes_ = 0;
};

}  // namespace

KernelPointer make_recurrent_gradient_f32(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<RecurrentGradient>(view);
}

}  // namespace tessera::backends::cpu
