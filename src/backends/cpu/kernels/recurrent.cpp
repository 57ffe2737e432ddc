// LSTM and GRU in float32. The inputs of all steps go through W in one product; each step then multiplies the previous
// hidden state by R. Rows of W and R are reordered so that a chunk of units finds all of its gates side by side: a step
// is one parallel loop over chunks, each of which multiplies and then applies its gates.
#include "ops/recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backends/cpu/gemm_f32.h"
#include "backends/cpu/gemm_f32_isa.h"
#include "backends/cpu/kernels/kernels.h"
#include "base/checked.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/recurrent.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

#include "backends/cpu/math.h"

#ifndef TESSERA_BACKENDS_CPU_RECURRENT_ONCE
#define TESSERA_BACKENDS_CPU_RECURRENT_ONCE
namespace tessera::backends::cpu {
namespace {

// One batch row of a chunk of units in one step; gates lie `count` apart.
struct GateRow {
  const float* input;           // W x + bias, gate after gate
  const float* recurrent;       // R h
  const float* recurrent_bias;  // GRU: of the hidden gate, in step with the units; null: none
  const float* previous;        // h of the step before
  float* cell;                  // LSTM: c, updated
  float* hidden;                // h of this step
  float* output;                // the same in Y; null: not wanted
  std::int64_t count;           // units
};

}  // namespace
}  // namespace tessera::backends::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::backends::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using GateTag = hn::ScalableTag<float>;
using GateVector = hn::Vec<GateTag>;
constexpr std::int64_t kGateLanes = HWY_LANES(float);

// i, o, f, c: C = sigmoid(f) C' + sigmoid(i) tanh(c), H = sigmoid(o) tanh(C)
void lstm_gates(const GateRow& row) {
  const GateTag d;
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kGateLanes, row.count - u)));
    const auto gate = [&](std::int64_t g) HWY_ATTR {
      const std::int64_t at = g * row.count + u;
      return hn::Add(hn::MaskedLoad(mask, d, row.input + at), hn::MaskedLoad(mask, d, row.recurrent + at));
    };
    const GateVector i = math::sigmoid(d, gate(0)), o = math::sigmoid(d, gate(1)), f = math::sigmoid(d, gate(2));
    const GateVector candidate = math::tanh(d, gate(3));
    const GateVector cell = hn::MulAdd(f, hn::MaskedLoad(mask, d, row.cell + u), hn::Mul(i, candidate));
    const GateVector hidden = hn::Mul(o, math::tanh(d, cell));
    hn::BlendedStore(cell, mask, d, row.cell + u);
    hn::BlendedStore(hidden, mask, d, row.hidden + u);
    if (row.output != nullptr) hn::BlendedStore(hidden, mask, d, row.output + u);
  }
}

// z, r, h: H = (1 - sigmoid(z)) n + sigmoid(z) H' with n = tanh(h + sigmoid(r) (R h + bias))
void gru_gates(const GateRow& row) {
  const GateTag d;
  for (std::int64_t u = 0; u < row.count; u += kGateLanes) {
    const auto mask = hn::FirstN(d, static_cast<std::size_t>(std::min(kGateLanes, row.count - u)));
    const auto input = [&](std::int64_t g) HWY_ATTR { return hn::MaskedLoad(mask, d, row.input + g * row.count + u); };
    const auto recurrent = [&](std::int64_t g)
                               HWY_ATTR { return hn::MaskedLoad(mask, d, row.recurrent + g * row.count + u); };
    const GateVector z = math::sigmoid(d, hn::Add(input(0), recurrent(0)));
    const GateVector r = math::sigmoid(d, hn::Add(input(1), recurrent(1)));
    GateVector memory = recurrent(2);
    if (row.recurrent_bias != nullptr) memory = hn::Add(memory, hn::MaskedLoad(mask, d, row.recurrent_bias + u));
    const GateVector n = math::tanh(d, hn::MulAdd(r, memory, input(2)));
    const GateVector hidden = hn::MulAdd(z, hn::Sub(hn::MaskedLoad(mask, d, row.previous + u), n), n);
    hn::BlendedStore(hidden, mask, d, row.hidden + u);
    if (row.output != nullptr) hn::BlendedStore(hidden, mask, d, row.output + u);
  }
}

}  // namespace tessera::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::backends::cpu {

HWY_EXPORT(lstm_gates);
HWY_EXPORT(gru_gates);

namespace {

using base::checked_multiply;

// Sizes of a layer, and how its units are cut into chunks.
struct Layer {
  std::int64_t length, batch, features, hidden, gates, directions;
  std::int64_t units = 0;  // of a chunk but the last

  explicit Layer(const ops::NodeView& view)
      : length(view.input(0).shape[0]),
        batch(view.input(0).shape[1]),
        features(view.input(0).shape[2]),
        hidden(view.input(2).shape[2]),
        gates(ops::gates_of(view.op())),
        directions(view.input(2).shape[0]) {
    // A chunk is worth a thread from a quarter of a megabyte of weights or two million operations.
    const double weights = static_cast<double>(gates) * static_cast<double>(hidden) * static_cast<double>(hidden);
    const double chunks = std::max(weights * 4 / 0x1p18, weights * 2 * static_cast<double>(batch) / 2e6);
    units = static_cast<std::int64_t>(std::ceil(static_cast<double>(hidden) / std::clamp(chunks, 1.0, 16.0)));
    units = std::min(hidden, base::round_up(units, 16));
  }

  std::int64_t chunks() const { return base::ceil_divide(hidden, units); }
  std::int64_t units_of(std::int64_t chunk) const { return std::min(units, hidden - chunk * units); }
  std::int64_t rows() const { return gates * hidden; }

  // Rows of a [gates * hidden, columns] matrix in chunk order: within a chunk, gate after gate.
  void reorder(const float* from, std::int64_t columns, float* to) const {
    for (std::int64_t chunk = 0; chunk < chunks(); ++chunk) {
      for (std::int64_t gate = 0; gate < gates; ++gate) {
        const std::int64_t elements = units_of(chunk) * columns;
        std::memcpy(to, from + (gate * hidden + chunk * units) * columns, static_cast<std::size_t>(elements) * 4);
        to += elements;
      }
    }
  }
};

class Recurrent final : public Kernel {
 public:
  Recurrent(const ops::NodeView& view, WeightStore& store)
      : layer_(view),
        plan_(ops::read_recurrent(view)),
        lstm_(view.op().name == "LSTM"),
        projection_({checked_multiply(layer_.length, layer_.batch), layer_.rows(), layer_.features}, false, true),
        w_(pack(store, *view.constant(1), layer_.features, "recurrent_w", 1)),
        r_(pack(store, *view.constant(2), layer_.hidden, "recurrent_r", layer_.chunks())) {
    for (std::int64_t chunk = 0; chunk < layer_.chunks(); ++chunk) {
      steps_.emplace_back(GemmShape{layer_.batch, layer_.gates * layer_.units_of(chunk), layer_.hidden}, false, true);
    }
  }

  std::int64_t scratch_bytes() const override {
    return checked_multiply(checked_multiply(floats_of_direction(), layer_.directions), 4);
  }

  void run(KernelContext& context) const override {
    const std::int64_t directions = layer_.directions, chunks = layer_.chunks();
    float* y = context.wants_output(0) ? context.output(0).mutable_data<float>() : nullptr;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      prepare(context, direction);
      gemm_f32(context, projection_, GemmOperand::strided(context.input(0).data<float>(), layer_.features, 1),
               packed(*w_, direction * gemm_f32_right_bytes(layer_.features, layer_.rows())),
               state(context, direction).inputs, layer_.rows(),
               {.addend = state(context, direction).bias, .addend_column_stride = 1});
    }
    if (chunks == 1) {
      context.parallel_for(directions, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t d = begin; d < end; ++d) {
          for (std::int64_t step = 0; step < layer_.length; ++step) run_chunk(context, y, d, step, 0);
        }
      });
    } else if (context.resources().threads() == 1) {  // more of one direction's weights than of all stays in the cache from step to step
      for (std::int64_t direction = 0; direction < directions; ++direction) run_steps(context, y, direction, 1);
    } else {
      run_steps(context, y, 0, directions);
    }
    for (std::int64_t direction = 0; direction < directions; ++direction) finish(context, direction);
  }

 private:
  // All steps of `count` directions. Each thread's share of the chunks goes to and fro: a step begins with the weights that its core ended the last one with.
  void run_steps(const KernelContext& context, float* y, std::int64_t first, std::int64_t count) const {
    const std::int64_t chunks = layer_.chunks(), all = count * chunks, shares = std::min<std::int64_t>(context.resources().threads(), all);
    for (std::int64_t step = 0; step < layer_.length; ++step) {
      context.parallel_for(all, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t share = ((i + 1) * shares - 1) / all;  // as the pool cuts the loop
          const std::int64_t chunk = step % 2 == 0 ? i : all * share / shares + all * (share + 1) / shares - 1 - i;
          run_chunk(context, y, first + chunk / chunks, step, chunk % chunks);
        }
      });
    }
  }

  // Working memory of one direction.
  struct State {
    float* inputs;             // [length, batch, rows]: W x + bias, in chunk order
    float* hidden[2];          // [batch, hidden]; step s reads s % 2 and writes the other
    float* cell;               // [batch, hidden]
    float* recurrent;          // R h of each chunk, [batch, gates * units]
    float* bias;               // [rows], in chunk order
    const float* hidden_bias;  // [hidden]: GRU's recurrent bias of the hidden gate
  };

  std::int64_t state_floats() const { return checked_multiply(layer_.batch, layer_.hidden); }
  std::int64_t floats_of_direction() const {
    const std::int64_t steps = checked_multiply(checked_multiply(layer_.length, layer_.batch), layer_.rows());
    return base::round_up(base::checked_add(steps, checked_multiply(state_floats(), 3 + layer_.gates)) + layer_.rows(),
                          16);
  }

  State state(const KernelContext& context, std::int64_t direction) const {
    State result{};
    float* next = reinterpret_cast<float*>(context.scratch()) + direction * floats_of_direction();
    const auto take = [&next](std::int64_t count) { return std::exchange(next, next + count); };
    result.inputs = take(layer_.length * layer_.batch * layer_.rows());
    result.hidden[0] = take(state_floats());
    result.hidden[1] = take(state_floats());
    result.cell = take(state_floats());
    result.recurrent = take(state_floats() * layer_.gates);
    result.bias = take(layer_.rows());
    if (context.has_input(3) && !lstm_) {
      result.hidden_bias = context.input(3).data<float>() + (direction * 2 + 1) * layer_.rows() + 2 * layer_.hidden;
    }
    return result;
  }

  static GemmOperand packed(const PackedWeights& weights, std::int64_t offset) {
    return GemmOperand::prepacked(reinterpret_cast<const float*>(weights.data.get() + offset));
  }

  // [directions, rows, columns] as right operands [columns, rows in chunk order], whole or one a chunk.
  std::shared_ptr<const PackedWeights> pack(WeightStore& store, const Tensor& weights, std::int64_t columns,
                                            std::string_view name, std::int64_t parts) const {
    const std::string key = fmt::format("{}_v3:{}:{}:{}", name, gemm_f32_isa().name, layer_.hidden, layer_.units);
    const std::int64_t part_rows = parts == 1 ? layer_.rows() : layer_.gates * layer_.units;
    const std::int64_t bytes = gemm_f32_right_bytes(columns, part_rows);
    return store.find_or_pack(weights, key, checked_multiply(bytes, parts * layer_.directions), [&](const Tensor& contents, std::byte* to) {
      std::vector<float> reordered(static_cast<std::size_t>(checked_multiply(layer_.rows(), columns)));
      for (std::int64_t direction = 0; direction < layer_.directions; ++direction) {
        layer_.reorder(contents.data<float>() + direction * layer_.rows() * columns, columns, reordered.data());
        for (std::int64_t part = 0; part < parts; ++part) {
          const std::int64_t rows = std::min(part_rows, layer_.rows() - part * part_rows);
          gemm_f32_pack_right(GemmOperand::strided(reordered.data() + part * part_rows * columns, 1, columns), columns,
                              rows, reinterpret_cast<float*>(to + (direction * parts + part) * bytes));
        }
      }
    });
  }

  // Initial states, and the biases that are added to W x: both, but for GRU's hidden gate only W's.
  void prepare(const KernelContext& context, std::int64_t direction) const {
    const State state = this->state(context, direction);
    const auto initial = [&](std::size_t input, float* to) {
      const std::size_t bytes = static_cast<std::size_t>(state_floats()) * 4;
      if (context.has_input(input))
        std::memcpy(to, context.input(input).data<float>() + direction * state_floats(), bytes);
      else
        std::memset(to, 0, bytes);
    };
    initial(5, state.hidden[0]);
    if (lstm_) initial(6, state.cell);
    std::vector<float> sum(static_cast<std::size_t>(layer_.rows()), 0.0f);
    if (context.has_input(3)) {
      const float* bias = context.input(3).data<float>() + direction * 2 * layer_.rows();
      const std::int64_t both = lstm_ ? layer_.rows() : 2 * layer_.hidden;
      for (std::int64_t i = 0; i < layer_.rows(); ++i)
        sum[static_cast<std::size_t>(i)] = bias[i] + (i < both ? bias[layer_.rows() + i] : 0.0f);
    }
    layer_.reorder(sum.data(), 1, state.bias);
  }

  static void prefetch(const float* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) __builtin_prefetch(from + i);
  }

  void run_chunk(const KernelContext& context, float* y, std::int64_t direction, std::int64_t step,
                 std::int64_t chunk) const {
    const State state = this->state(context, direction);
    const std::int64_t units = layer_.units_of(chunk), first = chunk * layer_.units, rows = layer_.gates * units;
    const std::int64_t time = plan_.reverse(static_cast<std::size_t>(direction)) ? layer_.length - 1 - step : step;
    const GemmF32& gemm = steps_[static_cast<std::size_t>(chunk)];
    const GemmOperand right = packed(
        *r_, (direction * layer_.chunks() + chunk) * gemm_f32_right_bytes(layer_.hidden, layer_.gates * layer_.units));
    float* recurrent = state.recurrent + layer_.batch * layer_.gates * first;
    const float* previous = state.hidden[step % 2];
    const auto row = [&](std::int64_t b) {
      const std::int64_t unit = b * layer_.hidden + first;
      const std::int64_t line = (time * layer_.directions + direction) * state_floats() + unit;
      return GateRow{state.inputs + (time * layer_.batch + b) * layer_.rows() + layer_.gates * first,
                     recurrent + b * rows,
                     state.hidden_bias == nullptr ? nullptr : state.hidden_bias + first,
                     previous + unit,
                     state.cell + unit,
                     state.hidden[(step + 1) % 2] + unit,
                     y == nullptr ? nullptr : y + line,
                     units};
    };
    // The weights push what the gates read out of the caches, from step to step.
    prefetch(row(0).input, rows);
    prefetch(row(0).cell, units);
    const GemmF32::Split split = gemm.split(1);
    for (std::int64_t tile = 0; tile < split.tiles(); ++tile) {
      gemm.run(split, tile, GemmOperand::strided(previous, layer_.hidden, 1), right, recurrent, rows, {});
    }
    for (std::int64_t b = 0; b < layer_.batch; ++b) {
      if (lstm_)
        HWY_DYNAMIC_DISPATCH(lstm_gates)(row(b));
      else
        HWY_DYNAMIC_DISPATCH(gru_gates)(row(b));
    }
  }

  void finish(KernelContext& context, std::int64_t direction) const {
    const State state = this->state(context, direction);
    const auto give = [&](std::size_t output, const float* from) {
      if (!context.wants_output(output)) return;
      std::memcpy(context.output(output).mutable_data<float>() + direction * state_floats(), from,
                  static_cast<std::size_t>(state_floats()) * 4);
    };
    give(1, state.hidden[layer_.length % 2]);
    if (lstm_) give(2, state.cell);
  }

  Layer layer_;
  ops::RecurrentPlan plan_;
  bool lstm_;
  GemmF32 projection_;
  std::shared_ptr<const PackedWeights> w_, r_;
  std::vector<GemmF32> steps_;  // one a chunk
};

}  // namespace

std::string reject_recurrent(const ops::NodeView& view) {
  if (std::string reason = reject_unless_f32(view); !reason.empty()) return reason;
  const ops::RecurrentPlan plan = ops::read_recurrent(view);
  const bool lstm = view.op().name == "LSTM";
  if (plan.batch_first) return "layout 1";
  if (std::isfinite(plan.clip)) return "clip";
  for (std::size_t i = 0; i < plan.activations.size(); ++i) {
    const std::size_t of_direction = i % (lstm ? 3 : 2);
    if (plan.activations[i].kind != (of_direction == 0 ? ops::Activation::sigmoid : ops::Activation::tanh))
      return "activations other than the default";
  }
  if (lstm && view.integer("input_forget") != 0) return "input_forget";
  if (!lstm && view.integer("linear_before_reset") == 0) return "the reset gate applied before the product";
  if (view.has_input(4)) return "sequence_lens";
  if (view.has_input(7)) return "peepholes";
  if (view.constant(1) == nullptr || view.constant(2) == nullptr) return "weights that are not constant";
  for (const std::size_t i : {0, 1, 2}) {
    if (view.input(i).elements() == 0) return "empty operands";
  }
  return "";
}

KernelPointer make_recurrent(const ops::NodeView& view, WeightStore& weights) {
  return std::make_unique<Recurrent>(view, weights);
}

}  // namespace tessera::backends::cpu
#endif
