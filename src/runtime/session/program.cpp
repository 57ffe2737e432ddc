#include "runtime/session/program.h"

#include <algorithm>
#include <set>

#include "backends/device_weights.h"
#include "base/error.h"
#include "ops/core/infer.h"
#include "ops/values/random_streams.h"
#include "runtime/run/evaluate.h"
#include "runtime/run/executor.h"
#include "runtime/session/plan_templates.h"
#include "runtime/variables/variable_run.h"

namespace tessera::runtime {
namespace {

// Shapes and types of the inputs, flattened. A value that is not a tensor counts by its kind: its parts are looked at
// when they are used.
PlanCache::Key key_of(const std::vector<Value>& inputs) {
  std::vector<std::int64_t> key;
  key.reserve(inputs.size() * 5);
  for (const Value& input : inputs) {
    key.push_back(static_cast<std::int64_t>(input.kind()));
    if (!input.is_tensor()) continue;
    const Tensor& tensor = input.tensor();
    key.push_back(static_cast<std::int64_t>(tensor.dtype()));
    key.push_back(tensor.rank());
    key.insert(key.end(), tensor.shape().begin(), tensor.shape().end());
  }
  return key;
}

// The graph with the types that all values have when the inputs have those of the actual ones.
ir::Graph specialise(const ir::Graph& graph, const std::vector<Value>& inputs) {
  ir::Graph copy = graph;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_tensor()) copy.value(copy.inputs()[i]).type = type_of(inputs[i]);
  }
  // No pass needs to be there for a plan to know its sizes.
  ops::infer_graph(copy);
  return copy;
}

void for_each_constant(const ir::Graph& graph, auto&& body) {
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    if (const Tensor* constant = graph.constant(ir::ValueId{static_cast<std::int32_t>(i)})) body(*constant);
  }
}

std::vector<ir::ValueType> types_of(const std::vector<Value>& inputs) {
  std::vector<ir::ValueType> types;
  for (const Value& input : inputs) types.push_back(type_of(input));
  return types;
}

// Plans are made from others where nothing but passes, and the order of kernels, decides about them.
bool may_use_templates(const ProgramEnvironment& environment, bool ready) {
  return !ready && environment.device->is_host() && environment.tuner == nullptr &&
         environment.pipeline.without.empty() &&
         (environment.package == nullptr || environment.package->stream == nullptr || !environment.package->has_graph);
}

}  // namespace

void UnpackedConstants::compute(const Tensor& constant) {
  std::lock_guard lock(mutex_);
  if (computed_.contains(constant.storage())) return;
  MemoryCharge charge(account_, Purpose::weights, constant.bytes());
  constant.raw();
  computed_.emplace(constant.storage(), std::pair(std::move(charge), constant));
}

std::int64_t bytes_of_constants(const ir::Graph& graph, const ir::Graph* source, bool with_deferred) {
  std::set<const void*> known;
  if (source != nullptr) for_each_constant(*source, [&](const Tensor& constant) { known.insert(constant.storage()); });
  std::int64_t bytes = 0;
  for_each_constant(graph, [&](const Tensor& constant) {
    bytes += (constant.is_deferred() && !with_deferred) || known.contains(constant.storage()) ? 0 : constant.bytes();
  });
  return bytes;
}

PreparedPlan::PreparedPlan() = default;
PreparedPlan::~PreparedPlan() = default;

Program::Program(ir::Graph graph, const ProgramEnvironment& environment, bool ready)
    : graph_(std::move(graph)),
      environment_(environment),
      ready_(ready),
      pass_memory_(std::make_unique<passes::PassMemory>(graph_)),
      templates_(may_use_templates(environment, ready) ? std::make_unique<PlanTemplates>(graph_, environment.max_plans)
                                                       : nullptr),
      draws_random_numbers_(ops::draws_random_numbers(graph_)) {
  if (graph_.variables().empty()) return;
  for (const ir::Variable& variable : graph_.variables()) {
    if (environment_.package != nullptr && environment_.package->stream != nullptr && !variable.initial.is_deferred())
      environment_.package->stream->need(variable.initial.raw(), variable.initial.bytes());
  }
  variable_places_ = environment_.variables->state()->declare(graph_.variables());
  updates_variables_ =
      std::ranges::any_of(graph_.variables(), [](const ir::Variable& variable) { return variable.update.valid(); });
}

Program::~Program() = default;

std::shared_ptr<PreparedPlan> Program::make(const std::vector<Value>& inputs, const base::StopSignal* stop) const {
  passes::PassContext context = environment_.pass_context;
  context.stop = stop;
  std::optional<PlanTemplates::Draft> draft;
  if (templates_ != nullptr) draft = templates_->draft(types_of(inputs), context);
  passes::SizeNotes notes;
  if (!draft) {
    context.memory = pass_memory_.get();
    context.size_notes = &notes;
  }
  ir::Graph specialised = ready_  ? graph_
                          : draft ? std::move(draft->graph)
                                  : passes::run_pipeline(specialise(graph_, inputs), context, environment_.pipeline);
  auto prepared = std::make_shared<PreparedPlan>();
  plan::PlanOptions options{.max_value_bytes = environment_.account->limit(),
                            .pool = &base::ThreadPool::process(),
                            .max_threads = environment_.threads};
  if (environment_.tuner != nullptr) options.tuner = &environment_.tuner->tuner();
  options.device_weights = environment_.device_weights.get();
  options.allocator = environment_.results.get();
  options.stop = stop;
  if (draft) {
    options.like = draft->like->plan.get();
    ++plans_from_templates_;
  }
  prepared->plan = plan::make_plan(std::move(specialised), *environment_.device, *environment_.weights, options);
  if (environment_.tuner != nullptr) environment_.tuner->save();
  const bool streams = environment_.package != nullptr && environment_.package->stream != nullptr &&
                       environment_.device->is_host() && environment_.device->computes();
  if (streams)
    prepared->arrival =
        std::make_unique<WeightArrival>(*prepared->plan, graph_, *environment_.package, environment_.threads);
  prepared->device_constants = device_constants(*prepared->plan, environment_);
  std::int64_t folded_bytes = 0;
  for_each_constant(prepared->plan->graph, [&](const Tensor& constant) {
    folded_bytes += constant.is_deferred() || pass_memory_->is_of_model(constant) ? 0 : constant.bytes();
  });
  folded_bytes += compute_unpacked(*prepared->plan);
  const std::int64_t plan_bytes = folded_bytes + plan::structure_bytes(*prepared->plan);
  prepared->charge = MemoryCharge(environment_.account, Purpose::plans, plan_bytes);
  for (std::size_t i = 0; i < prepared->plan->steps.size(); ++i) {
    const plan::Step& step = prepared->plan->steps[i];
    if (step.kind == plan::StepKind::late) {
      std::vector<bool> constant;
      for (const std::int32_t input : step.inputs)
        constant.push_back(input >= 0 && prepared->plan->slots[static_cast<std::size_t>(input)].constant.has_value());
      prepared->late_kernels.emplace(i, std::make_unique<LateKernels>(std::move(constant), *environment_.weights));
    }
    if (step.kind != plan::StepKind::control) continue;
    for (const auto& [name, subgraph] : ir::subgraphs_of(prepared->plan->graph.node(step.node))) {
      prepared->subprograms[i].emplace(name, std::make_unique<Program>(*subgraph, environment_));
    }
  }
  // Templates are plans, too, and leave room for others.
  const bool is_small =
      plan_bytes <= environment_.max_plan_bytes / static_cast<std::int64_t>(2 * PlanTemplates::kMostTemplates);
  if (templates_ != nullptr && !draft && is_small)
    templates_->learn(types_of(inputs), prepared, notes, environment_.pass_context);
  return prepared;
}

// Deferred constants that no kernel packed are read as they are: they are computed now, so that they count. Returns the
// bytes of those that the plan alone has.
std::int64_t Program::compute_unpacked(const plan::Plan& plan) const {
  if (!environment_.device->computes()) return 0;
  const ir::Graph& planned = plan.graph;
  bool deferred = false;
  for_each_constant(planned, [&](const Tensor& constant) { deferred = deferred || constant.is_deferred(); });
  if (!deferred) return 0;
  std::set<const void*> packed, shared;
  for (const plan::Step& step : plan.steps) {
    for (const plan::UsedPacking& packing : step.packings) packed.insert(packing.storage);
  }
  for (const SharedWeightStore::Held& held : environment_.weights->packings()) packed.insert(held.weights.storage());
  for_each_constant(graph_, [&](const Tensor& constant) { shared.insert(constant.storage()); });
  std::int64_t bytes = 0;
  for_each_constant(planned, [&](const Tensor& constant) {
    if (!constant.is_deferred() || packed.contains(constant.storage())) return;
    if (shared.contains(constant.storage())) return environment_.unpacked->compute(constant);
    bytes += constant.bytes();
    constant.raw();
  });
  return bytes;
}

std::shared_ptr<PreparedPlan> Program::plan_for(const std::vector<Value>& inputs, RunControl* control) {
  const PlanCache::Key key = key_of(inputs);
  if (std::shared_ptr<PreparedPlan> found = plans_.find(key)) return found;
  const auto too_many = [&](std::size_t count) {
    return count > environment_.max_plans || environment_.account->used(Purpose::plans) > environment_.max_plan_bytes;
  };
  std::optional<WithoutCore> without_core;
  if (control != nullptr) without_core.emplace(*control);
  Clock& clock = control != nullptr ? *control->clock : Clock::steady();
  const base::StopSignal* stop = control != nullptr ? control->resources.stop : nullptr;
  return plans_.find_or_make(key, clock, [&] { return make(inputs, stop); }, too_many, stop);
}

std::vector<Value> Program::run(const std::vector<Value>& inputs, RunControl& control) {
  const std::shared_ptr<PreparedPlan> prepared = plan_for(inputs, &control);
  std::unique_ptr<RunState> state;
  {
    std::lock_guard lock(prepared->mutex);
    if (!prepared->idle_states.empty()) {
      state = std::move(prepared->idle_states.back());
      prepared->idle_states.pop_back();
    }
  }
  if (state == nullptr) state = make_run_state(*prepared->plan);
  std::optional<VariableRun> variables;
  if (!variable_places_.empty())
    variables.emplace(*environment_.variables->state(), variable_places_, updates_variables_, control);
  std::vector<Value> outputs =
      execute(*prepared, *state, inputs, variables ? &*variables : nullptr, environment_, control);
  // After a failure the state is dropped: its slots are in no known condition.
  std::lock_guard lock(prepared->mutex);
  prepared->idle_states.push_back(std::move(state));
  return outputs;
}

void Program::trim() {
  for (const std::shared_ptr<PreparedPlan>& prepared : plans_.all()) {
    std::lock_guard lock(prepared->mutex);
    prepared->idle_states.clear();
    for (auto& [step, programs] : prepared->subprograms) {
      for (auto& [name, program] : programs) program->trim();
    }
  }
}

}  // namespace tessera::runtime
