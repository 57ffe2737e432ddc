// Running a model.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/clock.h"
#include "tessera/export.h"
#include "tessera/gate.h"
#include "tessera/model.h"
#include "tessera/named_values.h"
#include "tessera/tensor.h"
#include "tessera/variable_store.h"

namespace tessera {

namespace runtime {
class SessionAccess;
}

struct SessionOptions {
  std::string device = "cpu";  // see device_names()
  int threads = 0;             // most threads a run uses; 0: all cores this process may use
  // A session keeps plans for different input shapes and drops the least recently used one first. max_cached_plans
  // bounds their number for each graph (the body of a loop is a graph of its own); max_plan_bytes bounds the bytes of
  // all plans, including constants that were folded for their shapes. The latest plan always stays.
  int max_cached_plans = 16;
  std::int64_t max_plan_bytes = std::int64_t{256} << 20;
  // The element type in which convolutions, products, LSTM and GRU with constant f32 weights multiply, and the
  // attention between them. With bf16 they round data and weights to bfloat16 (LSTM and GRU also biases and the states
  // that enter or leave them, attention also the softmax) and sum in f32; this is about twice as fast on CPUs with
  // AVX-512 BF16 and slower on others. Nothing else lowers the precision. With undefined, a package runs in the
  // precision that it was made with, and any other model in f32. A package made with bf16 runs in bf16 only.
  DType precision = DType::undefined;
  // The most bytes that weights, packed weights, variables, plans, arenas and results may use together. 0 means nine
  // tenths of the memory that this process may use, so that no model brings the machine down.
  std::int64_t memory_limit_bytes = 0;
  // The most bytes that the session may use in the memory of a device that has its own. 0 means all of that memory.
  std::int64_t device_memory_limit_bytes = 0;
  // The most bytes that the results of one Loop may hold beyond its initial values, in scan outputs and in carried
  // tensors and sequences that grow. A model file can ask for 2^40 iterations in a few bytes.
  std::int64_t max_growing_bytes = std::int64_t{1} << 30;
  std::vector<std::string> without_passes;  // names of graph passes to leave out
  // If true, the first run with inputs of new shapes times the kernels that accept each step and takes the fastest one,
  // instead of the one that is expected to be the fastest. The times are kept in a file and not measured again; a file
  // of another CPU or version of Tessera counts as empty. Results may differ as those of different kernels do.
  bool tune = false;
  std::string tuning_file;  // "": one for this CPU in the user's cache folder, if that can be used
  std::function<void(std::string_view op, double done)>
      tuning_progress;  // told what is timed next, and which part (0 to 1) of a plan is done
  // The bounds of constant folding each time that a graph is prepared: the bytes of the folded constants, and the work
  // (operations and elements) of computing them. Both bounds grow with the model's own constants. Values beyond them
  // are computed in the run.
  std::int64_t max_folded_bytes = std::int64_t{64} << 20;
  double max_folded_operations = 1e8;
  // The store that holds the model's variables; sessions with the same store share their state. The session adds its
  // variables with their initial values. A variable that the store already has must have the same element type and
  // shape, and keeps its value. Null means a store that this session alone uses.
  std::shared_ptr<VariableStore> variables;
  // Makes the sequence of the session's runs repeatable: what random operators draw in the first run, in the second and
  // so on depends on the seed alone. Without a seed each run draws numbers that no other run draws, but for operators
  // whose `seed` attribute does the same for them. Runs with RunOptions::seed are not counted.
  std::optional<std::uint64_t> seed;
};

// One step of a run as it was measured.
struct StepTiming {
  std::string name;  // of the node
  std::string op;
  std::string kernel;
  std::string shapes;         // "f32[1, 3, 224, 224] f32[64, 3, 7, 7] -> f32[1, 64, 112, 112]"
  std::int64_t start_ns = 0;  // since the run began
  std::int64_t duration_ns = 0;
  double operations = 0;  // predicted
  double bytes = 0;
  int depth = 0;  // 0: the model's own graph; more inside If, Loop and Scan
};

// Lets another thread stop a run: the run throws Error(cancelled) before its next step, or within a long one.
class Cancellation {
 public:
  void cancel() { flag_.store(true, std::memory_order_relaxed); }
  const std::atomic<bool>& flag() const { return flag_; }

 private:
  std::atomic<bool> flag_{false};
};

struct RunOptions {
  // Decides what random operators draw in this run: two runs with the same seed draw the same. Without one the run
  // draws as SessionOptions::seed says.
  std::optional<std::uint64_t> seed;
  std::int64_t time_limit_ns = 0;              // the run throws Error(over_budget) soon after that long; 0: no limit
  const Cancellation* cancellation = nullptr;  // must outlive the run
  // If true, the second run of a plan on a device records each sequence of steps between steps on the host, and it and
  // later runs replay the recordings as a whole, with their own inputs and seeds, which saves the launch of each step.
  // The results are the same. The option has no effect on the CPU, on devices that cannot record, and on runs with
  // timings.
  bool capture = false;
  std::vector<StepTiming>* timings = nullptr;  // filled if given, with the first million steps at most
  StepGate* gate = nullptr;                    // asked between steps; must outlive the run
  Priority priority = Priority::standard;      // which runs go first where cores are short
  Clock* clock = nullptr;                      // what limits, timings and turns count in; null: the steady clock
};

// Memory of a device that is not host memory, in use by one session at this moment.
struct DeviceMemoryUse {
  std::int64_t weights_bytes = 0;         // constants that kernels read as they are
  std::int64_t packed_weights_bytes = 0;  // those that kernels read in their own layout
  std::int64_t variables_bytes = 0;
  std::int64_t arena_bytes = 0;  // of the runs in progress
  std::int64_t limit_bytes = 0;  // of all these together

  std::int64_t total_bytes() const { return weights_bytes + packed_weights_bytes + variables_bytes + arena_bytes; }
};

// Memory in use by one session at this moment: host memory, and that of its device.
struct MemoryUse {
  std::int64_t weights_bytes = 0;         // constants of the model (mapped from the file where possible)
  std::int64_t packed_weights_bytes = 0;  // copies in the kernels' own layout
  std::int64_t variables_bytes = 0;       // counted if the session has a store of its own, even if others use it too
  std::int64_t plans_bytes = 0;           // cached plans, and constants folded for them
  std::int64_t arena_bytes = 0;           // of the runs in progress
  std::int64_t results_bytes = 0;         // outputs that somebody keeps, and values whose size depends on data
  std::int64_t staging_bytes = 0;         // pinned memory of copies to and from the device that are under way
  DeviceMemoryUse device;                 // zeros where the device computes in host memory

  // Host memory alone.
  std::int64_t total_bytes() const {
    return weights_bytes + packed_weights_bytes + variables_bytes + plans_bytes + arena_bytes + results_bytes +
           staging_bytes;
  }
};

// An output that a run is asked for, by name, and memory of the caller's that it is to be written to, if any.
struct OutputRequest {
  OutputRequest(std::string name, Tensor into = {}) : name(std::move(name)), into(std::move(into)) {}
  OutputRequest(const char* name, Tensor into = {}) : name(name), into(std::move(into)) {}

  std::string name;
  Tensor into;
};

// A model on a device. Thread-safe: concurrent runs share plans and packed weights and borrow an arena each. All
// sessions of a process share one thread pool, so many sessions never use more cores than there are.
class TESSERA_API Session {
 public:
  // Throws Error: invalid_argument (unknown device, damaged tuning file), unsupported, over_budget.
  explicit Session(const Model& model, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // Every input of the model by name; returns every output by name. Throws Error: invalid_argument (missing or unknown
  // input; wrong type, rank or dimension), failed, cancelled, over_budget, unsupported.
  //
  // A run that throws leaves all variables as they were, with two exceptions. Nothing stops a run once it writes
  // updates over their variables, but a step behind may fail on them: the error names the variables that are damaged,
  // and runs are refused with Error(failed) until those are set or a snapshot is restored. Where outputs that depend on
  // the updates cannot be delivered in the end, all variables have their next values.
  NamedValues run(const NamedValues& inputs, const RunOptions& options = {});

  // Returns the requested outputs, in the order of the request, and computes only what they need (a model that updates
  // variables computes everything). Leaving outputs out may change how the rest is fused, so results may differ by
  // rounding from those of a run of all outputs. An output that is bound to memory is written there and returned as a
  // view of it; nothing is allocated for it where a step can write to that memory itself, otherwise the output is
  // copied there at the end. The memory must have exactly the output's element type and shape and must not overlap that
  // of another output; it may overlap inputs. Throws Error as above, and invalid_argument for an unknown or repeated
  // output and for memory that does not fit; after an error its contents are undefined.
  std::vector<Value> run(const NamedValues& inputs, const std::vector<OutputRequest>& outputs,
                         const RunOptions& options = {});

  // The state that persists between runs, of this model and of others that share it. Never null.
  std::shared_ptr<VariableStore> variables() const;
  // One variable of it: variables()->get and set.
  Tensor variable(std::string_view name);
  void set_variable(std::string_view name, const Tensor& value);

  // Whether a run draws random numbers, so that equal inputs may give different outputs.
  bool draws_random_numbers() const;
  // The runs that begin from now on draw as those of a new session with this SessionOptions::seed.
  void set_seed(std::uint64_t seed);

  // The element type in which layers multiply (SessionOptions::precision): f32 or bf16.
  DType precision() const;

  MemoryUse memory() const;
  // Memory between runs (arenas, room for results) is shared by all sessions of the process, limited by what was lately
  // in use at once, and goes back to the system when nothing ran for 10 to 20 seconds. This gives it back now.
  void trim();
  // The plan for inputs of these shapes, as text; see `tessera info --plan`.
  std::string describe_plan(const NamedValues& inputs, bool reasons = false);
  // Arena bytes, and the most bytes live at once, of the plan for inputs of these shapes.
  struct PlanMemory {
    std::int64_t arena_bytes = 0, largest_live_bytes = 0;
    std::int64_t device_arena_bytes = 0;  // in the memory of a device that has its own
  };
  PlanMemory plan_memory(const NamedValues& inputs);

 private:
  friend class runtime::SessionAccess;  // for callers inside Tessera
  struct TESSERA_LOCAL State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
