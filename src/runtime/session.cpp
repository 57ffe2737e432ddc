#include "tessera/session.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "base/error.h"
#include "base/no_memory.h"
#include "base/thread_spans.h"
#include "runtime/environment.h"
#include "runtime/evaluate.h"

namespace tessera {
namespace {

using namespace runtime;

std::string describe(const Value& value) { return ir::to_string(type_of(value)); }

struct Mismatch {
  const ir::ValueType* wanted;
  const Value* found;
};

// The first part of the value that is of another kind, element type or key type than declared. Shapes may be any.
std::optional<Mismatch> find_mismatch(const ir::ValueType& wanted, const Value& given) {
  using Kind = ir::ValueType::Kind;
  bool agrees = false;
  switch (wanted.kind) {
    case Kind::tensor: agrees = given.is_tensor() && (wanted.dtype == DType::undefined || given.tensor().dtype() == wanted.dtype); break;
    case Kind::optional: return given.has_value() ? find_mismatch(*wanted.element, given) : std::nullopt;
    case Kind::sequence: agrees = given.kind() == Value::Kind::sequence; break;
    case Kind::map: agrees = given.kind() == Value::Kind::map && given.keys().dtype() == wanted.dtype; break;
  }
  if (!agrees) return Mismatch{&wanted, &given};
  if (wanted.is_tensor()) return std::nullopt;
  for (const Value& element : given.elements()) {
    if (const std::optional<Mismatch> found = find_mismatch(*wanted.element, element)) return found;
  }
  return std::nullopt;
}

// Throws unless the value may flow into an input declared with this type.
void check_input(const std::string& name, const ir::ValueType& wanted, const Value& given) {
  if (!wanted.is_tensor()) {
    const std::optional<Mismatch> mismatch = find_mismatch(wanted, given);
    if (!mismatch) return;
    require(mismatch->found != &given, ErrorKind::invalid_argument, "input '{}' is {}, expected {}", name, describe(given), ir::to_string(wanted));
    fail(ErrorKind::invalid_argument, "input '{}' holds {}, expected {} (the input is declared {})", name, describe(*mismatch->found), ir::to_string(*mismatch->wanted), ir::to_string(wanted));
  }
  require(given.is_tensor(), ErrorKind::invalid_argument, "input '{}' is {}, expected {}", name, describe(given), ir::to_string(wanted));
  const Tensor& tensor = given.tensor();
  require(wanted.dtype == DType::undefined || tensor.dtype() == wanted.dtype, ErrorKind::invalid_argument, "input '{}' has element type {}, expected {} (the input is declared {})", name,
          name_of(tensor.dtype()), name_of(wanted.dtype), ir::to_string(wanted));
  if (!wanted.dims) return;
  require(tensor.shape().size() == wanted.dims->size(), ErrorKind::invalid_argument, "input '{}' has rank {} (shape {}), expected rank {} (declared {})", name, tensor.rank(),
          to_string(tensor.shape()), wanted.dims->size(), ir::to_string(wanted));
  for (std::size_t i = 0; i < wanted.dims->size(); ++i) {
    require((*wanted.dims)[i].may_equal(tensor.shape()[i]), ErrorKind::invalid_argument, "input '{}' has shape {}: dimension {} is {}, expected {} (declared {})", name,
            to_string(tensor.shape()), i, tensor.shape()[i], ir::to_string((*wanted.dims)[i]), ir::to_string(wanted));
  }
}

std::string known_inputs(const ir::Graph& graph) {
  std::string names;
  for (ir::ValueId id : graph.inputs()) names += (names.empty() ? "'" : ", '") + graph.value(id).name + "'";
  return names.empty() ? "none" : names;
}

}  // namespace

struct Session::State {
  explicit State(SessionOptions given) : options(std::move(given)) {}

  SessionOptions options;
  std::shared_ptr<const ir::Graph> graph;
  ProgramEnvironment environment;
  std::unique_ptr<Program> program;

  std::vector<Value> ordered(const NamedValues& inputs) const {
    for (const auto& [name, value] : inputs) {
      const bool known = std::any_of(graph->inputs().begin(), graph->inputs().end(), [&](ir::ValueId id) { return graph->value(id).name == name; });
      require(known, ErrorKind::invalid_argument, "the model has no input '{}'; its inputs are {}", name, known_inputs(*graph));
    }
    std::vector<Value> values;
    for (ir::ValueId id : graph->inputs()) {
      const ir::ValueInfo& info = graph->value(id);
      const auto found = inputs.find(info.name);
      const bool may_be_absent = info.type.kind == ir::ValueType::Kind::optional;
      require(found != inputs.end() || may_be_absent, ErrorKind::invalid_argument, "input '{}' is missing; the model's inputs are {}", info.name, known_inputs(*graph));
      values.push_back(found != inputs.end() ? found->second : Value());
      check_input(info.name, info.type, values.back());
    }
    return values;
  }

  std::shared_ptr<PreparedPlan> plan_for(const NamedValues& inputs) const {
    const std::vector<Value> values = ordered(inputs);
    const base::ThreadPool::CoreLease lease(base::ThreadPool::process());
    return program->plan_for(values);
  }
};

Session::Session(const Model& model, const SessionOptions& options) try : state_(std::make_unique<State>(options)) {
  State& state = *state_;
  state.graph = std::shared_ptr<const ir::Graph>(&model.graph(), [keep = model](const ir::Graph*) {});
  state.environment = make_environment(model, options);
  state.program = make_program(model, options, state.environment);
} catch (const std::bad_alloc&) {
  base::fail_for_memory();
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

NamedValues Session::run(const NamedValues& inputs, const RunOptions& options) try {
  const base::StopSignal stop(options.cancellation != nullptr ? &options.cancellation->flag() : nullptr, std::chrono::nanoseconds(options.time_limit_ns));
  const std::vector<Value> ordered = state_->ordered(inputs);
  base::ThreadPool& pool = base::ThreadPool::process();
  std::optional<base::ThreadPool::CoreLease> lease;
  lease.emplace(pool);
  RunControl control;
  control.resources = {&pool, state_->options.threads, options.seed, state_->environment.results.get(), &stop};
  control.gate = options.gate;
  control.timings = options.timings;
  control.lease = &lease;
  control.start_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (base::ThreadSpans* spans = base::recorded_loops()) spans->origin_ns = control.start_ns;
  std::vector<Value> outputs = state_->program->run(ordered, control);
  NamedValues named;
  for (std::size_t i = 0; i < outputs.size(); ++i) named.insert_or_assign(state_->graph->value(state_->graph->outputs()[i]).name, std::move(outputs[i]));
  return named;
} catch (const std::bad_alloc&) {
  base::fail_for_memory();
}

Tensor Session::variable(std::string_view name) { return state_->program->variable(name); }
void Session::set_variable(std::string_view name, const Tensor& value) { state_->program->set_variable(name, value.clone()); }

DType Session::precision() const { return state_->environment.pass_context.precision; }

MemoryUse Session::memory() const {
  const MemoryAccount& account = *state_->environment.account;
  return {account.used(Purpose::weights), account.used(Purpose::packed_weights), account.used(Purpose::variables), account.used(Purpose::plans),
          account.used(Purpose::arena), account.used(Purpose::results)};
}

void Session::trim() {
  state_->program->trim();
  trim_process_memory();
}

std::string Session::describe_plan(const NamedValues& inputs, bool reasons) {
  return plan::print_plan(*plan(inputs), reasons);
}

Session::PlanMemory Session::plan_memory(const NamedValues& inputs) {
  const std::shared_ptr<const plan::Plan> found = plan(inputs);
  return {found->arena_bytes, found->largest_live_bytes};
}

std::shared_ptr<const plan::Plan> Session::plan(const NamedValues& inputs) { return state_->plan_for(inputs)->plan; }

}  // namespace tessera
