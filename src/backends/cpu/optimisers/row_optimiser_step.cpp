// One step of an optimiser over a table of which only some rows have a gradient, in float32. If the rule leaves the
// other rows unchanged, the step reads and writes only rows with a gradient; otherwise it goes over the table once,
// with a zero gradient for the others.
#include "ops/training/row_optimiser_step.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/optimisers/kernels.h"
#include "backends/cpu/optimisers/optimiser_rule.h"
#include "backends/host/numeric.h"
#include "ops/training/optimiser_step.h"

namespace tessera::backends::cpu {
namespace {

namespace input = ops::row_step_input;

constexpr std::int64_t kChunkFloats = 16384;  // of the table
constexpr std::int64_t kZeros = 4096;
alignas(64) constexpr float kNoGradient[kZeros] = {};

class RowOptimiserStep final : public Kernel {
 public:
  explicit RowOptimiserStep(const ops::NodeView& view)
      : rule_(view),
        rests_(view.integer("lazy") != 0 || ops::rows_rest(view)),
        decay_(ops::decimal(view.real("weight_decay"))) {}

  void run(KernelContext& context) const override {
    const auto scalar = [&](std::size_t i) { return host::read<double>(context.input(i)).at(0); };
    const Tensor& parameter = context.input(input::parameter);
    Table table{parameter.shape()[0], 0};
    if (parameter.elements() == 0) return;
    table.size = parameter.elements() / table.rows;
    const bool applies = scalar(input::apply) != 0;
    if (!applies || rests_) keep(context);
    if (!applies) return;
    const std::int64_t* places = context.input(input::places).data<std::int64_t>();
    table.places = {
        places, static_cast<std::size_t>(
                    std::lower_bound(places, places + context.input(input::places).elements(), table.rows) - places)};
    const StepNumbers numbers =
        rule_.numbers(decay_, scalar(input::rate), scalar(input::count), scalar(input::gradient_scale));
    if (rests_) update_rows(context, table, numbers);
    else update_all(context, table, numbers);
  }

 private:
  struct Table {
    std::int64_t rows, size;                    // floats per row
    std::span<const std::int64_t> places = {};  // indices of rows with a gradient
  };

  const Tensor& from(KernelContext& context, std::size_t result) const {
    return context.input(result == 0 ? input::parameter : input::first_state + result - 1);
  }

  // Copies the operands to the results, unless they are in place.
  void keep(KernelContext& context) const {
    for (std::size_t i = 0; i <= rule_.states(); ++i) {
      const float* old = from(context, i).data<float>();
      float* now = context.output(i).mutable_data<float>();
      if (old == now) continue;
      context.parallel_for(context.output(i).elements(), kChunkFloats, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(now + begin, old + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
      });
    }
  }

  // The operands for `count` floats of the table, from `at` on.
  OptimiserOperands operands(KernelContext& context, std::int64_t at, const float* gradient, std::int64_t count) const {
    OptimiserOperands operands{from(context, 0).data<float>() + at,          gradient,           {nullptr, nullptr},
                               context.output(0).mutable_data<float>() + at, {nullptr, nullptr}, count};
    for (std::size_t state = 0; state < rule_.states(); ++state) {
      operands.state[state] = from(context, 1 + state).data<float>() + at;
      operands.new_state[state] = context.output(1 + state).mutable_data<float>() + at;
    }
    return operands;
  }

  void update_rows(KernelContext& context, const Table& table, const StepNumbers& numbers) const {
    const OptimiserFunctions::Update update = rule_.update();
    const float* sums = context.input(input::sums).data<float>();
    context.parallel_for(static_cast<std::int64_t>(table.places.size()),
                         std::max<std::int64_t>(1, kChunkFloats / 4 / table.size),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t k = begin; k < end; ++k)
                             update(numbers, operands(context, table.places[static_cast<std::size_t>(k)] * table.size,
                                                      sums + k * table.size, table.size));
                         });
  }

  void update_all(KernelContext& context, const Table& table, const StepNumbers& numbers) const {
    const std::int64_t rows_together = std::max<std::int64_t>(1, kChunkFloats / table.size);
    const std::int64_t chunks = (table.rows + rows_together - 1) / rows_together;
    context.parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      update_block(context, table, numbers, begin * rows_together, std::min(table.rows, end * rows_together));
    });
  }

  // Updates the rows [row, end).
  void update_block(KernelContext& context, const Table& table, const StepNumbers& numbers, std::int64_t row,
                    std::int64_t end) const {
    const OptimiserFunctions::Update update = rule_.update();
    const float* sums = context.input(input::sums).data<float>();
    for (auto next = std::ranges::lower_bound(table.places, row); row < end; ++next) {
      const bool found = next != table.places.end() && *next < end;
      const std::int64_t last = (found ? *next : end) * table.size;
      for (std::int64_t at = row * table.size; at < last; at += kZeros)
        update(numbers, operands(context, at, kNoGradient, std::min(kZeros, last - at)));
      if (!found) return;
      update(numbers, operands(context, last, sums + (next - table.places.begin()) * table.size, table.size));
      row = *next + 1;
    }
  }

  OptimiserRule rule_;
  bool rests_;
  double decay_;
};

}  // namespace

std::string reject_row_optimiser_step(const ops::NodeView& view) {
  for (std::size_t i = 0; i <= ops::optimiser_states(view); ++i) {
    if (!view.wants_output(i)) return "gives all results";
    if (view.output(i).dtype != DType::f32) return "takes parameters in f32";
  }
  return "";
}

KernelPointer make_row_optimiser_step(const ops::NodeView& view, WeightStore&) {
  return std::make_unique<RowOptimiserStep>(view);
}

}  // namespace tessera::backends::cpu
