#include "ops/recurrent/recurrent.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cuda/constants.h"
#include "backends/cuda/kernels/recurrent/recurrent_parameters.h"
#include "backends/cuda/launch_types.h"
#include "backends/cuda/recurrent/recurrent.h"

namespace tessera::backends::cuda {
namespace {

using tessera::cuda::kRecurrentThreads;
using tessera::cuda::RecurrentParameters;
using tessera::cuda::StateParameters;

constexpr std::size_t kBias = 3, kLengths = 4, kInitialHidden = 5, kInitialCell = 6, kPeepholes = 7;

bool is_lstm(const ops::OpDef& op) {
  return &op == &ops::lstm;
}

std::string step_kernel(const ops::NodeView& view) {
  return fmt::format("{}_step_{}", is_lstm(view.op()) ? "lstm" : "gru", suffix_of(view.input(0).dtype));
}

// Whether the activations are sigmoid for gates, and tanh.
bool has_plain_activations(const ops::NodeView& view, const ops::RecurrentPlan& plan) {
  const std::size_t each = plan.activations.size() / plan.directions;
  for (std::size_t i = 0; i < plan.activations.size(); ++i) {
    const auto wanted = i % each == 0 ? ops::GateActivationKind::sigmoid : ops::GateActivationKind::tanh;
    if (plan.activations[i].kind != wanted) return false;
  }
  return is_lstm(view.op()) || view.integer("linear_before_reset") != 0;
}

std::string reject(const ops::NodeView& view, const DeviceProperties& device) {
  if (suffix_of(view.input(0).dtype).empty()) return "the kernel computes f32, f16 and bf16 alone";
  const ops::RecurrentPlan plan = ops::read_recurrent(view);
  if (plan.batch_first) return "the kernel takes sequences step by step (layout 0)";
  if (plan.clip != std::numeric_limits<float>::infinity()) return "the kernel does not clip";
  if (!has_plain_activations(view, plan))
    return "the kernel computes sigmoid and tanh, and resets the hidden state after its product";
  if (is_lstm(view.op()) && (view.has_input(kPeepholes) || view.integer("input_forget") != 0))
    return "the kernel has no peepholes, and a forget gate of its own";
  if (view.has_input(kLengths)) return "the kernel takes sequences of one length";
  if (view.has_input(kBias) && view.constant(kBias) == nullptr) return "the kernel needs a constant bias";
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (std::ranges::any_of(view.input(0).shape, [](std::int64_t size) { return size > kMost; }))
    return "the kernel counts in 32 bits";
  return reason_without_image(step_kernel(view), device);
}

class RecurrentKernel final : public Kernel {
 public:
  RecurrentKernel(const ops::NodeView& view, WeightStore& weights)
      : plan_(ops::read_recurrent(view)),
        step_kernel_(step_kernel(view)),
        state_kernel_(fmt::format("initial_state_{}", suffix_of(view.input(0).dtype))),
        is_lstm_(is_lstm(view.op())),
        gates_(ops::gates_of(view.op())),
        length_(view.input(0).shape[0]),
        batch_(view.input(0).shape[1]),
        inputs_(view.input(0).shape[2]),
        hidden_(view.input(2).shape[2]),
        element_bytes_(bits_of(view.input(0).dtype) / 8) {
    if (view.constant(1) != nullptr) w_ = pack_as_is(weights, *view.constant(1));
    if (view.constant(2) != nullptr) r_ = pack_as_is(weights, *view.constant(2));
    if (view.has_input(kBias)) bias_ = pack_as_floats(weights, *view.constant(kBias));
  }
  // Two hidden states and a cell state.
  std::int64_t scratch_bytes() const override {
    return 3 * batch_ * hidden_ * static_cast<std::int64_t>(sizeof(float));
  }
  void run(KernelContext& context) const override {
    if (batch_ * hidden_ == 0) return;
    for (std::size_t direction = 0; direction < plan_.directions; ++direction) run_direction(context, direction);
  }

 private:
  // The operand's part of the direction; null where there is no operand.
  const void* part(const void* operand, std::size_t direction, std::int64_t elements) const {
    if (operand == nullptr) return nullptr;
    return static_cast<const std::byte*>(operand) + static_cast<std::int64_t>(direction) * elements * element_bytes_;
  }
  const void* input_part(const KernelContext& context, std::size_t i, std::size_t direction,
                         std::int64_t elements) const {
    return context.has_input(i) ? part(context.input(i).raw(), direction, elements) : nullptr;
  }
  void* output_part(KernelContext& context, std::size_t i, std::size_t direction) const {
    if (i >= context.output_count() || !context.wants_output(i)) return nullptr;
    return const_cast<void*>(part(context.output(i).raw(), direction, batch_ * hidden_));
  }

  void run_direction(KernelContext& context, std::size_t direction) const {
    const std::int64_t state_elements = batch_ * hidden_;
    auto* const hidden = reinterpret_cast<float*>(context.scratch());
    float* const cell = hidden + 2 * state_elements;
    fill(context, input_part(context, kInitialHidden, direction, state_elements), hidden);
    if (is_lstm_) fill(context, input_part(context, kInitialCell, direction, state_elements), cell);
    RecurrentParameters p{};
    p.w = part(w_ != nullptr ? w_->data.get() : context.input(1).raw(), direction, gates_ * hidden_ * inputs_);
    p.r = part(r_ != nullptr ? r_->data.get() : context.input(2).raw(), direction, gates_ * hidden_ * hidden_);
    if (bias_ != nullptr)
      p.bias = reinterpret_cast<const float*>(bias_->data.get()) +
               static_cast<std::int64_t>(direction) * 2 * gates_ * hidden_;
    p.cell = cell;
    p.y_stride = hidden_;
    p.batch = static_cast<int>(batch_);
    p.inputs = static_cast<int>(inputs_);
    p.hidden = static_cast<int>(hidden_);
    for (std::int64_t step = 0; step < length_; ++step) {
      const std::int64_t time = plan_.reverse(direction) ? length_ - 1 - step : step;
      p.x = static_cast<const std::byte*>(context.input(0).raw()) + time * batch_ * inputs_ * element_bytes_;
      p.before = hidden + step % 2 * state_elements;
      p.after = hidden + (step + 1) % 2 * state_elements;
      void* const y = output_part(context, 0, direction);
      p.y = y == nullptr ? nullptr
                         : static_cast<std::byte*>(y) +
                               time * static_cast<std::int64_t>(plan_.directions) * state_elements * element_bytes_;
      const bool is_last = step + 1 == length_;
      p.last_hidden = is_last ? output_part(context, 1, direction) : nullptr;
      p.last_cell = is_last && is_lstm_ ? output_part(context, 2, direction) : nullptr;
      stream_of(context).launch_with(step_kernel_, grid_of(state_elements, kRecurrentThreads / 32), p);
    }
  }

  void fill(KernelContext& context, const void* initial, float* state) const {
    const StateParameters p{initial, state, batch_ * hidden_};
    stream_of(context).launch_with(state_kernel_, grid_of(p.count, kRecurrentThreads), p);
  }

  static LaunchShape grid_of(std::int64_t count, std::int64_t each) {
    // Blocks beyond this many take their units in turns.
    constexpr std::int64_t kMostBlocks = 8192;
    LaunchShape shape;
    shape.grid.x = static_cast<unsigned>(std::min<std::int64_t>(kMostBlocks, blocks_of(count, each)));
    shape.block.x = kRecurrentThreads;
    return shape;
  }

  const ops::RecurrentPlan plan_;
  const std::string step_kernel_, state_kernel_;
  const bool is_lstm_;
  const std::int64_t gates_, length_, batch_, inputs_, hidden_, element_bytes_;
  std::shared_ptr<const PackedWeights> w_, r_, bias_;
};

KernelPointer create(const ops::NodeView& view, WeightStore& weights, const DeviceProperties&) {
  return std::make_unique<RecurrentKernel>(view, weights);
}

}  // namespace

std::span<const KernelEntry> recurrent_kernel_table() {
  static constexpr KernelEntry table[] = {
      {.op = "LSTM", .name = "cuda_lstm_steps", .reject_on = reject, .create_on = create},
      {.op = "GRU", .name = "cuda_gru_steps", .reject_on = reject, .create_on = create},
  };
  return table;
}

}  // namespace tessera::backends::cuda
