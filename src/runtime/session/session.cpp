#include "tessera/session.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <new>

#include "backends/device_copies.h"
#include "base/error.h"
#include "base/no_memory.h"
#include "base/threads/thread_spans.h"
#include "runtime/memory/process_memory.h"
#include "runtime/memory/run_arenas.h"
#include "runtime/run/evaluate.h"
#include "runtime/run/run_seeds.h"
#include "runtime/session/environment.h"
#include "runtime/session/least_sizes.h"
#include "runtime/session/output_request.h"
#include "runtime/session/overridable.h"
#include "runtime/session/session_access.h"

namespace tessera {
namespace {

using namespace runtime;

std::string describe(const Value& value) {
  return ir::to_string(type_of(value));
}

struct Mismatch {
  const ir::ValueType* wanted;
  const Value* found;
};

// The first part of the value that is of another kind, element type or key type than declared. Shapes may be any.
std::optional<Mismatch> find_mismatch(const ir::ValueType& wanted, const Value& given) {
  using Kind = ir::ValueType::Kind;
  bool agrees = false;
  switch (wanted.kind) {
    case Kind::tensor:
      agrees = given.is_tensor() && (wanted.dtype == DType::undefined || given.tensor().dtype() == wanted.dtype);
      break;
    case Kind::optional:
      return given.has_value() ? find_mismatch(*wanted.element, given) : std::nullopt;
    case Kind::sequence:
      agrees = given.kind() == Value::Kind::sequence;
      break;
    case Kind::map:
      agrees = given.kind() == Value::Kind::map && given.keys().dtype() == wanted.dtype;
      break;
  }
  if (!agrees) return Mismatch{&wanted, &given};
  if (wanted.is_tensor()) return std::nullopt;
  for (const Value& element : given.elements()) {
    if (const std::optional<Mismatch> found = find_mismatch(*wanted.element, element)) return found;
  }
  return std::nullopt;
}

// Throws unless the value may flow into an input declared with this type. A run of a small net takes about as long as
// the words of these messages, which are therefore made for the message alone, here and in ordered().
void check_input(const std::string& name, const ir::ValueType& wanted, const Value& given) {
  if (!wanted.is_tensor()) {
    const std::optional<Mismatch> mismatch = find_mismatch(wanted, given);
    if (!mismatch) return;
    require(mismatch->found != &given, ErrorKind::invalid_argument, "input '{}' is {}, expected {}", name,
            describe(given), ir::to_string(wanted));
    fail(ErrorKind::invalid_argument, "input '{}' holds {}, expected {} (the input is declared {})", name,
         describe(*mismatch->found), ir::to_string(*mismatch->wanted), ir::to_string(wanted));
  }
  constexpr ErrorKind kWrong = ErrorKind::invalid_argument;
  if (!given.is_tensor()) fail(kWrong, "input '{}' is {}, expected {}", name, describe(given), ir::to_string(wanted));
  const Tensor& tensor = given.tensor();
  if (wanted.dtype != DType::undefined && tensor.dtype() != wanted.dtype)
    fail(kWrong, "input '{}' has element type {}, expected {} (the input is declared {})", name,
         name_of(tensor.dtype()), name_of(wanted.dtype), ir::to_string(wanted));
  if (!wanted.dims) return;
  if (tensor.shape().size() != wanted.dims->size())
    fail(kWrong, "input '{}' has rank {} (shape {}), expected rank {} (declared {})", name, tensor.rank(),
         to_string(tensor.shape()), wanted.dims->size(), ir::to_string(wanted));
  for (std::size_t i = 0; i < wanted.dims->size(); ++i) {
    if ((*wanted.dims)[i].may_equal(tensor.shape()[i])) continue;
    fail(kWrong, "input '{}' has shape {}: dimension {} is {}, expected {} (declared {})", name,
         to_string(tensor.shape()), i, tensor.shape()[i], ir::to_string((*wanted.dims)[i]), ir::to_string(wanted));
  }
}

Clock& clock_of(const RunOptions& options) {
  return options.clock != nullptr ? *options.clock : Clock::steady();
}

base::StopSignal stop_signal_for(const RunOptions& options) {
  return {options.cancellation != nullptr ? &options.cancellation->flag() : nullptr,
          std::chrono::nanoseconds(options.time_limit_ns), clock_of(options)};
}

std::string known_inputs(const Model& model) {
  std::string names;
  for (const ValueDescription& each : model.inputs()) names += (names.empty() ? "'" : ", '") + each.name + "'";
  for (const ValueDescription& each : overridable_inputs(model))
    names += (names.empty() ? "'" : ", '") + each.name + "' (which has a default)";
  return names.empty() ? "none" : names;
}

}  // namespace

struct Session::State {
  State(const Model& what, SessionOptions given) : model(what), options(std::move(given)) {
    seeds.restart(options.seed);
  }

  // A run that draws nothing has the same seed each time, so that a device may replay what it recorded.
  std::uint64_t seed_of(const Program& which, const RunOptions& run_options) {
    if (!which.draws_random_numbers()) return 0;
    return run_options.seed ? *run_options.seed : seeds.next();
  }

  // Options for a run by another session in this one's place, which draws as a run of this one.
  RunOptions options_for(const Session& other, RunOptions run_options) {
    if (!run_options.seed && other.draws_random_numbers()) run_options.seed = seeds.next();
    return run_options;
  }

  const Model model;
  std::vector<std::string> overridable;  // names of the inputs with a default
  SessionOptions options;
  RunSeeds seeds;
  std::shared_ptr<const ir::Graph> graph;
  ProgramEnvironment environment;
  std::unique_ptr<Program> program;
  // Programs that compute some of the outputs only, by their indices; the least recently made goes when there are too
  // many.
  static constexpr std::size_t kMostPartialPrograms = 8;
  std::mutex partial_mutex;
  std::list<std::pair<std::vector<std::size_t>, std::shared_ptr<Program>>> partial_programs;
  // Sessions of the model in which some of its overridable initialisers are inputs, by their names; most recent first.
  static constexpr std::size_t kMostVariants = 8;
  std::mutex variants_mutex;
  std::list<std::pair<std::vector<std::string>, std::shared_ptr<Session>>> variants;

  static std::unique_ptr<State> make(const Model& model, const SessionOptions& options) {
    auto state = std::make_unique<State>(model, options);
    for (const ValueDescription& each : overridable_inputs(model)) state->overridable.push_back(each.name);
    state->graph = std::shared_ptr<const ir::Graph>(&model.graph(), [keep = model](const ir::Graph*) {});
    state->environment = make_environment(model, options);
    state->program = make_program(model, options, state->environment);
    return state;
  }

  // The session that runs these inputs where they override initialisers; null where they do not. It keeps living while
  // a run holds it.
  std::shared_ptr<Session> variant_for(const NamedValues& inputs) {
    std::vector<std::string> names;
    if (overridable.empty()) return nullptr;
    for (const auto& [name, value] : inputs) {
      if (std::ranges::binary_search(overridable, name)) names.push_back(name);
    }
    if (names.empty()) return nullptr;
    const std::lock_guard lock(variants_mutex);
    const auto found = std::ranges::find(variants, names, [](const auto& each) { return each.first; });
    if (found != variants.end()) {
      variants.splice(variants.begin(), variants, found);
      return found->second;
    }
    SessionOptions how = options;
    how.variables = environment.variables;
    auto made = std::make_shared<Session>(with_inputs(model, names), how);
    variants.emplace_front(std::move(names), std::move(made));
    if (variants.size() > kMostVariants) variants.pop_back();
    return variants.front().second;
  }

  std::vector<std::shared_ptr<Session>> all_variants() {
    std::vector<std::shared_ptr<Session>> all;
    const std::lock_guard lock(variants_mutex);
    for (const auto& [names, session] : variants) all.push_back(session);
    return all;
  }

  std::vector<Value> ordered(const NamedValues& inputs) const {
    for (const auto& [name, value] : inputs) {
      const bool known = std::any_of(graph->inputs().begin(), graph->inputs().end(),
                                     [&](ir::ValueId id) { return graph->value(id).name == name; });
      if (!known)
        fail(ErrorKind::invalid_argument, "the model has no input '{}'; its inputs are {}", name, known_inputs(model));
    }
    std::vector<Value> values;
    values.reserve(graph->inputs().size());
    for (ir::ValueId id : graph->inputs()) {
      const ir::ValueInfo& info = graph->value(id);
      const auto found = inputs.find(info.name);
      const bool may_be_absent = info.type.kind == ir::ValueType::Kind::optional;
      if (found == inputs.end() && !may_be_absent)
        fail(ErrorKind::invalid_argument, "input '{}' is missing; the model's inputs are {}", info.name,
             known_inputs(model));
      values.push_back(found != inputs.end() ? found->second : Value());
      check_input(info.name, info.type, values.back());
    }
    return values;
  }

  // The program for the outputs of these indices, which ascend. Never null; keeps living while a run holds it.
  std::shared_ptr<Program> program_for(const std::vector<std::size_t>& outputs) {
    const std::shared_ptr<Program> whole(program.get(), [](Program*) {});
    // What a run updates does not depend on what it is asked for.
    const bool updates = std::ranges::any_of(graph->variables(), [](const auto& each) { return each.update.valid(); });
    if (outputs.size() == graph->outputs().size() || updates) return whole;
    const std::lock_guard lock(partial_mutex);
    for (const auto& [indices, partial] : partial_programs) {
      if (indices == outputs) return partial;
    }
    ir::Graph part = program->graph();
    std::vector<ir::ValueId> wanted;
    for (const std::size_t index : outputs) wanted.push_back(part.outputs()[index]);
    part.set_outputs(std::move(wanted));
    part.remove_dead_and_compact();
    partial_programs.emplace_front(outputs,
                                   std::make_shared<Program>(std::move(part), environment, program->is_ready()));
    if (partial_programs.size() > kMostPartialPrograms) partial_programs.pop_back();
    return partial_programs.front().second;
  }

  std::vector<Value> run(Program& which, const std::vector<Value>& inputs, std::span<const Tensor> bound,
                         const RunOptions& run_options, const base::StopSignal& stop) {
    base::ThreadPool& pool = base::ThreadPool::process();
    lease::Attachment* const attachment = lease::Attachment::of_process();
    lease::ProcessRun process_run(attachment);
    RunControl control;
    control.priority = process_run.class_of(run_options.priority);
    if (attachment != nullptr) control.process_run = &process_run;
    control.clock = &clock_of(run_options);
    control.lease.emplace(pool, control.priority, *control.clock, options.threads);
    control.resources = {.host = {&pool, options.threads},
                         .seed = seed_of(which, run_options),
                         .allocator = environment.results.get(),
                         .stop = &stop};
    control.gate = run_options.gate;
    std::optional<RunArenas> arenas;
    std::optional<ProcessMemory> process_memory;
    if (environment.device->is_host()) {
      RunMemory* memory = run_options.gate != nullptr ? run_options.gate->memory() : nullptr;
      if (memory == nullptr && attachment != nullptr && attachment->lends())
        memory = &process_memory.emplace(*attachment);
      if (memory != nullptr) control.arenas = &arenas.emplace(*memory);
    }
    control.timings = run_options.timings;
    control.capture = run_options.capture;
    control.max_growing_bytes = options.max_growing_bytes;
    control.bound = bound;
    control.start_ns = control.clock->now_ns();
    if (base::ThreadSpans* spans = base::recorded_loops()) spans->origin_ns = control.start_ns;
    std::vector<Value> outputs =
        with_small_inputs_named(which.graph(), inputs, [&] { return which.run(inputs, control); });
    process_run.succeeded();
    return outputs;
  }

  // A window that is larger than its input breaks an operator's rules, but the fault is that of the run's inputs.
  static std::vector<Value> with_small_inputs_named(const ir::Graph& graph, const std::vector<Value>& inputs,
                                                    const std::function<std::vector<Value>()>& run) {
    try {
      return run();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_model) throw;
      const std::string small = describe_small_inputs(graph, inputs);
      if (small.empty()) throw;
      fail(ErrorKind::invalid_argument, "the inputs are too small for the model: {} ({})", small, error.what());
    }
  }

  std::shared_ptr<PreparedPlan> plan_for(const NamedValues& inputs) const { return program->plan_for(ordered(inputs)); }
};

Session::Session(const Model& model, const SessionOptions& options) {
  base::with_memory_errors([&] { state_ = State::make(model, options); });
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

NamedValues Session::run(const NamedValues& inputs, const RunOptions& options) {
  if (const std::shared_ptr<Session> variant = state_->variant_for(inputs))
    return variant->run(inputs, state_->options_for(*variant, options));
  return base::with_memory_errors([&] {
    const base::StopSignal stop = stop_signal_for(options);
    std::vector<Value> outputs = state_->run(*state_->program, state_->ordered(inputs), {}, options, stop);
    NamedValues named;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      named.insert_or_assign(state_->graph->value(state_->graph->outputs()[i]).name, std::move(outputs[i]));
    return named;
  });
}

std::vector<Value> Session::run(const NamedValues& inputs, const std::vector<OutputRequest>& outputs,
                                const RunOptions& options) {
  if (const std::shared_ptr<Session> variant = state_->variant_for(inputs))
    return variant->run(inputs, outputs, state_->options_for(*variant, options));
  return base::with_memory_errors([&] {
    const base::StopSignal stop = stop_signal_for(options);
    const std::vector<Value> ordered = state_->ordered(inputs);
    const std::vector<std::size_t> requested = find_outputs(*state_->graph, outputs);
    std::vector<std::size_t> ascending = requested;
    std::sort(ascending.begin(), ascending.end());
    const std::shared_ptr<Program> program = state_->program_for(ascending);
    // Where each request stands among what the program computes.
    const bool computes_all = program.get() == state_->program.get();
    std::vector<std::size_t> position;
    for (const std::size_t index : requested) {
      position.push_back(computes_all
                             ? index
                             : static_cast<std::size_t>(std::lower_bound(ascending.begin(), ascending.end(), index) -
                                                        ascending.begin()));
    }
    std::vector<Tensor> bound(program->graph().outputs().size());
    for (std::size_t i = 0; i < outputs.size(); ++i) bound[position[i]] = outputs[i].into;
    std::vector<Value> computed = state_->run(*program, ordered, bound, options, stop);
    std::vector<Value> results;
    for (const std::size_t at : position) results.push_back(std::move(computed[at]));
    return results;
  });
}

Tensor Session::variable(std::string_view name) {
  return state_->environment.variables->get(name);
}
void Session::set_variable(std::string_view name, const Tensor& value) {
  state_->environment.variables->set(name, value);
}

std::shared_ptr<VariableStore> Session::variables() const {
  return state_->environment.variables;
}

bool Session::draws_random_numbers() const {
  return state_->program->draws_random_numbers();
}
void Session::set_seed(std::uint64_t seed) {
  state_->seeds.restart(seed);
}

DType Session::precision() const {
  return state_->environment.pass_context.precision;
}

MemoryUse Session::memory() const {
  const MemoryAccount& account = *state_->environment.account;
  MemoryUse use{account.used(Purpose::weights), account.used(Purpose::packed_weights), account.used(Purpose::variables),
                account.used(Purpose::plans),   account.used(Purpose::arena),          account.used(Purpose::results),
                account.used(Purpose::staging)};
  if (const MemoryAccount* device = state_->environment.device_account.get())
    use.device = {device->used(Purpose::weights), device->used(Purpose::packed_weights),
                  device->used(Purpose::variables), device->used(Purpose::arena), device->limit()};
  for (const std::shared_ptr<Session>& variant : state_->all_variants()) {
    const MemoryUse more = variant->memory();
    use.weights_bytes += more.weights_bytes;
    use.packed_weights_bytes += more.packed_weights_bytes;
    use.plans_bytes += more.plans_bytes;
    use.arena_bytes += more.arena_bytes;
    use.results_bytes += more.results_bytes;
    use.staging_bytes += more.staging_bytes;
    use.device.weights_bytes += more.device.weights_bytes;
    use.device.packed_weights_bytes += more.device.packed_weights_bytes;
    use.device.arena_bytes += more.device.arena_bytes;
  }
  return use;
}

void Session::trim() {
  for (const std::shared_ptr<Session>& variant : state_->all_variants()) variant->trim();
  state_->program->trim();
  {
    const std::lock_guard lock(state_->partial_mutex);
    for (const auto& [indices, partial] : state_->partial_programs) partial->trim();
  }
  if (state_->environment.device_copies != nullptr) state_->environment.device_copies->release_staging();
  trim_process_memory();
}

std::string Session::describe_plan(const NamedValues& inputs, bool reasons) {
  return plan::print_plan(*SessionAccess::plan(*this, inputs), reasons);
}

Session::PlanMemory Session::plan_memory(const NamedValues& inputs) {
  const std::shared_ptr<const plan::Plan> found = SessionAccess::plan(*this, inputs);
  return {found->arena_bytes, found->largest_live_bytes, found->device_arena_bytes};
}

std::int64_t runtime::SessionAccess::plans_from_templates(const Session& session) {
  return session.state_->program->plans_from_templates();
}

std::shared_ptr<const plan::Plan> runtime::SessionAccess::plan(Session& session, const NamedValues& inputs) {
  if (const std::shared_ptr<Session> variant = session.state_->variant_for(inputs)) return plan(*variant, inputs);
  return session.state_->plan_for(inputs)->plan;
}

}  // namespace tessera
