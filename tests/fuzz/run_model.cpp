#include "run_model.h"

#include <chrono>
#include <condition_variable>
#include <optional>
#include <thread>

#include "ops/op_table.h"
#include "runtime/run/evaluate.h"
#include "runtime/session/random_inputs.h"
#include "target.h"
#include "tessera/error.h"
#include "tessera/session.h"

namespace tessera::fuzz {
namespace {

constexpr std::int64_t kMemoryLimit = std::int64_t{64} << 20;
constexpr std::int64_t kMostInputElements = 1 << 16;
constexpr std::chrono::milliseconds kTimeLimit{500};

// Cancels a run that takes longer than kTimeLimit; a run that does not stop then is a hang for the fuzzer to find.
class Watchdog {
 public:
  explicit Watchdog(Cancellation& cancellation)
      : thread_([this, &cancellation](std::stop_token stop) {
          std::unique_lock lock(mutex_);
          ended_.wait_for(lock, stop, kTimeLimit, [] { return false; });
          if (!stop.stop_requested()) cancellation.cancel();
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread thread_;
};

std::uint64_t hash(std::span<const std::byte> bytes) {  // FNV-1a
  std::uint64_t state = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) state = (state ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  return state;
}

bool inputs_are_small(const Model& model) {
  std::int64_t elements = 0;
  for (const ValueDescription& input : model.inputs()) {
    Shape shape;
    for (std::int64_t dim : input.dims) shape.push_back(dim < 0 ? 1 : dim);
    const std::int64_t count = element_count(shape);
    if (count > kMostInputElements - elements) return false;
    elements += count;
  }
  return true;
}

// Whether two devices must give equal shapes: no random numbers, and no floats that may round one way or the other.
bool is_exact(const ir::Graph& graph) {
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ir::ValueType& type = graph.value(ir::ValueId{static_cast<std::int32_t>(i)}).type;
    if (!type.is_tensor() || is_float(type.dtype) || is_complex(type.dtype) || type.dtype == DType::undefined)
      return false;
  }
  for (const ir::NodeId id : graph.order()) {
    if (!ops::op_of(graph.node(id)).deterministic) return false;
    for (const auto& [name, subgraph] : ir::subgraphs_of(graph.node(id))) {
      if (!is_exact(*subgraph)) return false;
    }
  }
  return true;
}

std::optional<NamedValues> run(const Model& model, const NamedValues& inputs, const std::string& device) {
  SessionOptions options;
  options.device = device;
  options.threads = 1;
  options.memory_limit_bytes = kMemoryLimit;
  Cancellation cancellation;
  try {
    Session session(model, options);
    const Watchdog watchdog(cancellation);
    return session.run(inputs, {.cancellation = &cancellation});
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The type of a value, with dimensions only if they must be equal.
std::string describe(const Value& value, bool with_shape) {
  if (with_shape || !value.is_tensor()) return ir::to_string(runtime::type_of(value));
  return std::string(name_of(value.tensor().dtype())) + " of rank " + std::to_string(value.tensor().rank());
}

void check_agreement(const Model& model, const NamedValues& cpu, const NamedValues& reference) {
  const bool exact = is_exact(model.graph());
  for (const auto& [name, value] : cpu) {
    const Value& other = reference.at(name);
    if (value.kind() == Value::Kind::tensor || value.kind() != other.kind()) {
      const std::string ours = describe(value, exact), theirs = describe(other, exact);
      if (ours != theirs)
        finding("output '" + name + "' is " + ours + " on the cpu and " + theirs + " on the reference");
    }
  }
}

}  // namespace

void run_on_devices(const Model& model, std::span<const std::byte> input) {
  const std::uint64_t key = hash(input);
  NamedValues inputs;
  try {
    if (!inputs_are_small(model)) return;
    inputs = runtime::random_inputs(model, key);
  } catch (const Error&) {
    return;
  }
  const std::optional<NamedValues> cpu = run(model, inputs, "cpu");
  if ((key & 1) == 0) return;
  const std::optional<NamedValues> reference = run(model, inputs, "reference");
  if (cpu && reference) check_agreement(model, *cpu, *reference);
}

}  // namespace tessera::fuzz
