#include "plan/make_kernels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/no_memory.h"
#include "plan/choose_kernel.h"
#include "plan/tuning.h"

namespace tessera::plan {
namespace {

// Passes on to another store, and notes which packings a kernel asks for while it is made.
class NotingStore final : public backends::WeightStore {
 public:
  NotingStore(backends::WeightStore& store, std::vector<UsedPacking>& used, const PlanOptions& options)
      : store_(store), used_(used), options_(options) {}
  std::shared_ptr<const backends::PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing,
                                                              std::int64_t bytes,
                                                              const backends::PackFunction& pack) override {
    options_.check_stop();
    std::shared_ptr<const backends::PackedWeights> packed = store_.find_or_pack(weights, packing, bytes, pack);
    used_.push_back({weights.storage(), packed});
    return packed;
  }

 private:
  backends::WeightStore& store_;
  std::vector<UsedPacking>& used_;
  const PlanOptions& options_;
};

void make_kernel(Step& step, const ops::NodeView& view, const backends::Device& device, backends::WeightStore& weights,
                 const MeasuredKernels* measured, const PlanOptions& options) {
  KernelChoice choice = choose_kernel(device, view, measured);
  step.entry = choice.entry;
  step.rejected = std::move(choice.rejected);
  NotingStore noting(weights, step.packings, options);  // kernels do not keep the store that they are made with
  step.kernel = device.make_kernel(*choice.entry, view, noting);
  step.scratch_bytes = step.kernel->scratch_bytes();
  step.cost = step.kernel_cost = ops::cost_of(view);
}

// Makes the step's kernel. Returns the error, or nothing if it succeeded.
std::optional<Error> try_to_make(Step& step, const ops::NodeView& view, const backends::Device& device,
                                 backends::WeightStore& weights, const MeasuredKernels* measured,
                                 const PlanOptions& options) {
  try {
    base::with_memory_errors([&] { make_kernel(step, view, device, weights, measured, options); });
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

// The steps with the most bytes of constants first, so that the longest tasks do not begin last.
std::vector<std::size_t> by_work(const std::vector<StepOperands>& operands) {
  std::vector<std::int64_t> bytes;
  for (const StepOperands& each : operands) {
    bytes.push_back(0);
    for (const Tensor* constant : each.constants) bytes.back() += constant != nullptr ? constant->bytes() : 0;
  }
  std::vector<std::size_t> order(operands.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  return order;
}

void report(const Plan& plan, const std::vector<StepOperands>& operands, std::vector<std::optional<Error>>& errors,
            const backends::Device& device) {
  std::vector<std::string> unsupported;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!errors[i]) continue;
    const std::string where = ir::describe(plan.graph, plan.steps[operands[i].step].node);
    if (errors[i]->kind() != ErrorKind::unsupported) throw errors[i]->add_context(where);
    unsupported.push_back(fmt::format("{}: {}", where, errors[i]->message()));
  }
  if (unsupported.empty()) return;
  throw Error(ErrorKind::unsupported,
              fmt::format("device '{}' cannot run {} node{} of this model: {}", device.name(), unsupported.size(),
                          unsupported.size() == 1 ? "" : "s", fmt::join(unsupported, "; ")));
}

bool is_same_operand(const Plan& plan, std::int32_t index, const Plan& like, std::int32_t other) {
  if (index < 0 || other < 0) return index == other;
  const Slot &a = plan.slots[static_cast<std::size_t>(index)], &b = like.slots[static_cast<std::size_t>(other)];
  return (a.place == Place::constant) == (b.place == Place::constant) && a.type == b.type &&
         a.constant.storage() == b.constant.storage();
}

}  // namespace

const Step* find_same_step(const Plan& plan, const Step& step, const Plan& like) {
  if (plan.steps.size() >= like.steps.size()) return nullptr;
  const Step& made = like.steps[plan.steps.size()];
  const std::vector<ir::ValueId>& outputs = plan.graph.node(step.node).outputs;
  if (made.kernel == nullptr || made.node != step.node || made.op != step.op || made.space != step.space ||
      made.inputs.size() != step.inputs.size() || made.output_count != static_cast<std::int32_t>(outputs.size()))
    return nullptr;
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    if (!is_same_operand(plan, step.inputs[i], like, made.inputs[i])) return nullptr;
  }
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].valid() && !(plan.graph.value(outputs[k]).type == made.output_types[k])) return nullptr;
  }
  return &made;
}

void take_kernel(Step& step, const Step& made) {
  step.kernel = made.kernel;
  step.entry = made.entry;
  step.packings = made.packings;
  step.rejected = made.rejected;
  step.cost = step.kernel_cost = made.kernel_cost;
  step.scratch_bytes = made.kernel->scratch_bytes();
}

void make_kernels(Plan& plan, const std::vector<StepOperands>& operands, const backends::Device& device,
                  backends::WeightStore& weights, const PlanOptions& options) {
  std::vector<std::optional<Error>> errors(operands.size());
  const std::vector<std::size_t> order = by_work(operands);
  std::vector<MeasuredKernels> measured;
  // Kernels of other devices run behind a queue, where the time of a single one says little.
  if (options.tuner != nullptr && device.is_host())
    measured = options.tuner->choose(
        plan, operands, device, weights,
        {.host = {options.pool, options.max_threads}, .allocator = options.allocator, .stop = options.stop});
  options.check_stop();
  const auto make = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      options.check_stop();
      const std::size_t index = order[static_cast<std::size_t>(i)];
      const StepOperands& each = operands[index];
      Step& step = plan.steps[each.step];
      const bool on_device = step.space == backends::MemorySpace::device;
      errors[index] = try_to_make(
          step, ops::NodeView(plan.graph.node(step.node), *step.op, each.inputs, each.outputs, each.constants),
          on_device ? device : device.host_fallback(), on_device ? *options.device_weights : weights,
          measured.empty() ? nullptr : &measured[index], options);
    }
  };
  const auto count = static_cast<std::int64_t>(operands.size());
  if (options.pool != nullptr) options.pool->parallel_for(count, 1, options.max_threads, make);
  else make(0, count);
  options.check_stop();  // before reporting the error of a kernel that was stopped
  report(plan, operands, errors, device);
}

}  // namespace tessera::plan
