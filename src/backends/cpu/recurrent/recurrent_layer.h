// LSTM, GRU and RNN for any element type of their products. The inputs of all steps are multiplied by W in one product;
// each step then multiplies the previous hidden state by R. Rows of W and R are reordered so that all gates of a chunk
// of units are contiguous: a step is one parallel loop over chunks, each of which multiplies and then applies its
// gates. A GRU whose reset gate is applied to the state before the product needs two such loops: the hidden gate's
// product needs the reset gates of all units. Sums, gates and states are float32.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/recurrent/recurrent_gates.h"
#include "backends/cpu/recurrent/recurrent_sizes.h"
#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/recurrent/recurrent.h"
#include "ops/recurrent/recurrent_gradient.h"

namespace tessera::backends::cpu {

// The packed weights of a run.
struct RecurrentWeights {
  const std::byte *w = nullptr, *r = nullptr;
};

// An LSTM, GRU or RNN. `Products` provides the products of one element type:
//   Element                           the element type of X, the weights, the operand of R, the results
//   kWeightBytes                      the bytes of one weight
//   Products(view, store, layer)
//   scratch_bytes()                   in addition to the states
//   weights(context, scratch)         W and R for project() and recur(), packed by this call unless they are constants
//   hidden_stride()                   distance between the hidden states of two sequences; elements behind
//                                     `hidden` are zero
//   data(context, scratch)            X for project()
//   project(context, w, x, d, bias, to)  to [steps, rows] = x · W of direction d + bias, in chunk order; `bias` may be
//                                     read up to a multiple of 16
//   recur(r, d, chunk, part, hidden, to)  to [batch, gates of the part · units] = hidden · R of the chunk
//   widen(from, to, count), round(from, to, count)
template <typename Products>
class Recurrent final : public Kernel {
 public:
  using Element = typename Products::Element;

  Recurrent(const ops::NodeView& view, WeightStore& store)
      : layer_(view, Products::kWeightBytes),
        plan_(ops::read_recurrent(view)),
        lstm_(layer_.gates == 4),
        kept_(ops::kept_gates(view.op())),
        functions_(gate_functions(plan_, view)),
        products_(view, store, layer_) {}

  std::int64_t scratch_bytes() const override { return base::checked_add(states_bytes(), products_.scratch_bytes()); }

  void run(KernelContext& context) const override {
    const std::int64_t directions = layer_.directions, chunks = layer_.chunks();
    Run run;
    run.y = context.wants_output(0) ? result(context, 0) : nullptr;
    const std::size_t gates = lstm_ ? 3 : 2;
    if (!kRounds && kept_ > 0 && context.wants_output(gates))
      run.kept = context.output(gates).template mutable_data<float>();
    read_lengths(context, run);
    run.weights = products_.weights(context, context.scratch() + states_bytes());
    const Element* x = products_.data(context, context.scratch() + states_bytes());
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      prepare(context, direction);
      const State state = this->state(context, direction);
      products_.project(context, run.weights.w, x, direction, state.bias, state.inputs);
    }
    if (chunks == 1) {
      context.parallel_for(directions, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t d = begin; d < end; ++d) {
          for (std::int64_t step = 0; step < layer_.length; ++step) {
            for (const RecurrentPart part : parts()) run_chunk(context, run, d, step, 0, part);
          }
        }
      });
    } else if (context.resources().threads() ==
               1) {  // the weights of one direction stay in the cache from step to step, but not those of all
      for (std::int64_t direction = 0; direction < directions; ++direction) run_steps(context, run, direction, 1);
    } else {
      run_steps(context, run, 0, directions);
    }
    for (std::int64_t direction = 0; direction < directions; ++direction) finish(context, direction);
  }

 private:
  static constexpr bool kRounds = !std::is_same_v<Element, float>;

  // The results of a run (null if not wanted) and its weights.
  struct Run {
    Element* y = nullptr;
    float* kept = nullptr;
    RecurrentWeights weights;
    const std::int32_t* lengths = nullptr;  // steps of each sequence; null: all of them
    std::int64_t longest = 0;               // of these

    std::int64_t length_of(std::int64_t b) const { return lengths == nullptr ? longest : lengths[b]; }
  };

  void read_lengths(const KernelContext& context, Run& run) const {
    run.longest = layer_.length;
    if (!context.has_input(4)) return;
    const std::span<const std::int32_t> lengths = context.input(4).values<std::int32_t>();
    for (const std::int32_t length : lengths) {
      require(length >= 0 && length <= layer_.length, ErrorKind::failed, "sequence length {} is outside [0, {}]",
              length, layer_.length);
    }
    run.lengths = lengths.data();
    run.longest = *std::max_element(lengths.begin(), lengths.end());
  }

  // The parts of R that a step multiplies by. Each is a loop over the chunks, which ends before the next one begins.
  std::span<const RecurrentPart> parts() const {
    static constexpr RecurrentPart kOne[] = {RecurrentPart::all};
    static constexpr RecurrentPart kTwo[] = {RecurrentPart::update_and_reset, RecurrentPart::candidate};
    return layer_.resets_first ? std::span<const RecurrentPart>(kTwo) : std::span<const RecurrentPart>(kOne);
  }

  // Runs all steps of `count` directions. Each thread processes its share of the chunks in alternating order: a step
  // begins with the weights that the core used last.
  void run_steps(const KernelContext& context, const Run& run, std::int64_t first, std::int64_t count) const {
    const std::int64_t chunks = layer_.chunks(), all = count * chunks,
                       shares = std::min<std::int64_t>(context.resources().threads(), all);
    for (std::int64_t step = 0; step < layer_.length; ++step) {
      for (const RecurrentPart part : parts()) {
        context.parallel_for(all, 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t share = ((i + 1) * shares - 1) / all;  // as the pool cuts the loop
            const std::int64_t chunk = step % 2 == 0 ? i : all * share / shares + all * (share + 1) / shares - 1 - i;
            run_chunk(context, run, first + chunk / chunks, step, chunk % chunks, part);
          }
        });
      }
    }
  }

  // The working memory of one direction.
  struct State {
    float* inputs;        // [length, batch, rows]: W x + bias, in chunk order
    float* hidden[2];     // [batch, hidden]; step s reads s % 2 and writes the other
    Element* operand[2];  // the hidden state in the element type of R's product: [batch, hidden_stride]
    float* cell;          // [batch, hidden]
    float* recurrent;     // R h of each chunk, [batch, gates * units]
    float* bias;          // [rows], in chunk order
    float* hidden_bias;   // [hidden]: GRU's recurrent bias of the hidden gate; null: none, or added to W x
    float* peepholes;     // [3 * hidden]; null: none
    float* reset;         // [batch, hidden]: r ⊙ H' of a GRU with resets_first
  };

  std::int64_t operand_floats() const {
    return kRounds ? base::ceil_divide(base::checked_multiply(layer_.batch, products_.hidden_stride()) *
                                           static_cast<std::int64_t>(sizeof(Element)),
                                       4)
                   : 0;
  }
  std::int64_t floats_of_direction() const {
    const std::int64_t states =
        base::checked_multiply(layer_.state_elements(), 4 + layer_.gates) + 2 * operand_floats();
    const std::int64_t biases = base::round_up(layer_.rows(), 16) + 4 * layer_.hidden;
    return base::round_up(base::checked_add(base::checked_multiply(layer_.steps(), layer_.rows()), states) + biases,
                          16);
  }
  std::int64_t states_bytes() const {
    return base::checked_multiply(base::checked_multiply(floats_of_direction(), layer_.directions), 4);
  }

  State state(const KernelContext& context, std::int64_t direction) const {
    State result{};
    float* next = reinterpret_cast<float*>(context.scratch()) + direction * floats_of_direction();
    const auto take = [&next](std::int64_t count) { return std::exchange(next, next + count); };
    result.inputs = take(layer_.steps() * layer_.rows());
    for (float*& hidden : result.hidden) hidden = take(layer_.state_elements());
    result.cell = take(layer_.state_elements());
    result.recurrent = take(layer_.state_elements() * layer_.gates);
    result.bias = take(base::round_up(layer_.rows(), 16));
    if (has_hidden_bias(context)) result.hidden_bias = take(layer_.hidden);
    if (lstm_ && context.has_input(7)) result.peepholes = take(3 * layer_.hidden);
    if (layer_.resets_first) result.reset = take(layer_.state_elements());
    for (std::size_t i = 0; i < 2; ++i)
      result.operand[i] =
          kRounds ? reinterpret_cast<Element*>(take(operand_floats())) : reinterpret_cast<Element*>(result.hidden[i]);
    return result;
  }

  bool has_hidden_bias(const KernelContext& context) const {
    return context.has_input(3) && layer_.gates == 3 && !layer_.resets_first;
  }

  static const Element* operand(const KernelContext& context, std::size_t input) {
    return static_cast<const Element*>(context.input(input).raw());
  }
  static Element* result(KernelContext& context, std::size_t output) {
    return static_cast<Element*>(context.output(output).mutable_raw());
  }

  // Initialises the states, and the biases that are added to W x: both, but for GRU's hidden gate only W's.
  void prepare(const KernelContext& context, std::int64_t direction) const {
    const State state = this->state(context, direction);
    const std::int64_t rows = layer_.rows();
    const auto initial = [&](std::size_t input, float* to) {
      if (!context.has_input(input)) return std::fill_n(to, layer_.state_elements(), 0.0f), void();
      for (std::int64_t b = 0; b < layer_.batch; ++b) {
        Products::widen(operand(context, input) + layer_.row_of_state(direction, b) * layer_.hidden,
                        to + b * layer_.hidden, layer_.hidden);
      }
    };
    initial(5, state.hidden[0]);
    if (lstm_) initial(6, state.cell);
    if (state.reset != nullptr) std::fill_n(state.reset, layer_.state_elements(), 0.0f);
    if (state.peepholes != nullptr)
      Products::widen(operand(context, 7) + direction * 3 * layer_.hidden, state.peepholes, 3 * layer_.hidden);
    if constexpr (kRounds) {
      for (Element* each : state.operand) std::fill_n(each, layer_.batch * products_.hidden_stride(), Element{0});
      for (std::int64_t b = 0; b < layer_.batch; ++b)
        Products::round(state.hidden[0] + b * layer_.hidden, state.operand[0] + b * products_.hidden_stride(),
                        layer_.hidden);
    }
    thread_local std::vector<float> biases;  // W's, to which R's are added, and R's
    biases.assign(static_cast<std::size_t>(2 * rows), 0.0f);
    if (context.has_input(3)) {
      float *sum = biases.data(), *recurrent = sum + rows;
      Products::widen(operand(context, 3) + direction * 2 * rows, sum, 2 * rows);
      const std::int64_t both = has_hidden_bias(context) ? 2 * layer_.hidden : rows;
      std::transform(sum, sum + both, recurrent, sum, std::plus<>());
      if (has_hidden_bias(context)) std::copy_n(recurrent + both, layer_.hidden, state.hidden_bias);
    }
    layer_.reorder(biases.data(), 1, state.bias, 1);
  }

  static void prefetch(const float* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 16) __builtin_prefetch(from + i);
  }

  // The operands of the gates of sequence b in a chunk's part of a step.
  GateRow row_of(const Run& run, const State& state, std::int64_t direction, std::int64_t step, std::int64_t chunk,
                 RecurrentPart part, std::int64_t b) const {
    const std::int64_t units = layer_.units_of(chunk), first = chunk * layer_.units, unit = b * layer_.hidden + first,
                       time = time_of(run, direction, step, b);
    float* products = state.recurrent + layer_.batch * layer_.gates * first;
    GateRow row{state.inputs + layer_.row_of_x(time, b) * layer_.rows() + layer_.gates * first,
                products + b * layer_.gates * units,
                state.hidden_bias == nullptr ? nullptr : state.hidden_bias + first,
                state.hidden[step % 2] + unit,
                state.cell + unit,
                state.hidden[1 - step % 2] + unit,
                nullptr,
                units};
    if (part != RecurrentPart::all) {
      row.update = products + b * 2 * units;
      row.reset = state.reset + unit;
      row.recurrent = part == RecurrentPart::candidate ? products + (layer_.batch * 2 + b) * units : row.update;
    }
    if (state.peepholes != nullptr) {
      row.peepholes = state.peepholes + first;
      row.peephole_stride = layer_.hidden;
    }
    if (run.kept != nullptr) {
      row.kept = run.kept + ((direction * layer_.length + time) * layer_.batch + b) * kept_ * layer_.hidden + first;
      row.kept_stride = layer_.hidden;
    }
    if (!functions_.empty()) row.functions = &functions_[static_cast<std::size_t>(direction)];
    if constexpr (!kRounds) row.output = line_of(run, direction, time, b, first);
    return row;
  }

  std::int64_t time_of(const Run& run, std::int64_t direction, std::int64_t step, std::int64_t b) const {
    return plan_.reverse(static_cast<std::size_t>(direction)) ? run.length_of(b) - 1 - step : step;
  }
  // Returns the address of the result of a sequence at a time from unit `first` on, or null if it is not wanted.
  Element* line_of(const Run& run, std::int64_t direction, std::int64_t time, std::int64_t b,
                   std::int64_t first) const {
    return run.y == nullptr ? nullptr : run.y + layer_.row_of_y(time, direction, b) * layer_.hidden + first;
  }

  void multiply(const Run& run, const State& state, std::int64_t direction, std::int64_t step, std::int64_t chunk,
                RecurrentPart part) const {
    const std::int64_t units = layer_.units_of(chunk), first = chunk * layer_.units;
    float* products = state.recurrent + layer_.batch * layer_.gates * first;
    if constexpr (!kRounds) {
      if (part == RecurrentPart::candidate) {
        products_.recur(run.weights.r, direction, chunk, part, state.reset, products + layer_.batch * 2 * units);
        return;
      }
    }
    // Weights evict the gates' operands from the caches between steps.
    if (run.lengths == nullptr)
      prefetch(row_of(run, state, direction, step, chunk, part, 0).input, layer_.gates * units);
    prefetch(state.cell + first, units);
    products_.recur(run.weights.r, direction, chunk, part, state.operand[step % 2], products);
  }

  void run_chunk(const KernelContext& context, const Run& run, std::int64_t direction, std::int64_t step,
                 std::int64_t chunk, RecurrentPart part) const {
    const State state = this->state(context, direction);
    const std::int64_t units = layer_.units_of(chunk), first = chunk * layer_.units;
    const std::size_t before = static_cast<std::size_t>(step % 2), now = 1 - before;
    if (step < run.longest) multiply(run, state, direction, step, chunk, part);
    for (std::int64_t b = 0; b < layer_.batch; ++b) {
      if (step >= run.length_of(b)) {
        if (part == RecurrentPart::update_and_reset) continue;
        // A sequence that has ended keeps its state; its results after the end are zero, in both directions.
        std::copy_n(state.hidden[before] + b * layer_.hidden + first, units,
                    state.hidden[now] + b * layer_.hidden + first);
        if constexpr (kRounds) {
          std::copy_n(state.operand[before] + b * products_.hidden_stride() + first, units,
                      state.operand[now] + b * products_.hidden_stride() + first);
        }
        if (Element* line = line_of(run, direction, step, b, first); line != nullptr)
          std::fill_n(line, units, Element{0});
        continue;
      }
      const GateRow gates = row_of(run, state, direction, step, chunk, part, b);
      if (part == RecurrentPart::update_and_reset) apply_gru_reset(gates);
      else if (part == RecurrentPart::candidate) apply_gru_candidate(gates);
      else if (lstm_) apply_lstm_gates(gates);
      else if (layer_.gates == 3) apply_gru_gates(gates);
      else apply_rnn_gates(gates);
      if constexpr (kRounds) {
        Element* rounded = state.operand[now] + b * products_.hidden_stride() + first;
        Products::round(gates.hidden, rounded, units);
        if (Element* line = line_of(run, direction, time_of(run, direction, step, b), b, first); line != nullptr)
          std::copy_n(rounded, units, line);
      }
    }
  }

  void finish(KernelContext& context, std::int64_t direction) const {
    const State state = this->state(context, direction);
    const auto give = [&](std::size_t output, const float* from) {
      if (!context.wants_output(output)) return;
      for (std::int64_t b = 0; b < layer_.batch; ++b) {
        Products::round(from + b * layer_.hidden,
                        result(context, output) + layer_.row_of_state(direction, b) * layer_.hidden, layer_.hidden);
      }
    };
    give(1, state.hidden[layer_.length % 2]);
    if (lstm_) give(2, state.cell);
  }

  RecurrentLayer layer_;
  ops::RecurrentPlan plan_;
  bool lstm_;
  std::int64_t kept_;                     // values kept per step and unit
  std::vector<GateFunctions> functions_;  // of each direction; empty: the defaults
  Products products_;
};

}  // namespace tessera::backends::cpu
