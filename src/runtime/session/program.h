// A graph ready to run for any input shapes: plans are made at first use of each combination and kept in a cache that
// is bounded by count and by bytes. A session runs one program; each subgraph of a control-flow node is a program of
// its own.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "passes/pass_memory.h"
#include "passes/pipeline.h"
#include "plan/plan.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/weight_arrival.h"
#include "runtime/memory/weight_store.h"
#include "runtime/run/device_run.h"
#include "runtime/run/late_kernels.h"
#include "runtime/run/run_control.h"
#include "runtime/session/plan_cache.h"
#include "runtime/session/tuning_file.h"
#include "runtime/variables/variable_store.h"
#include "tessera/session.h"

namespace tessera::backends {
class DeviceCopies;
class DeviceWeights;
}  // namespace tessera::backends

namespace tessera::runtime {

// Deferred constants of a model that kernels read as they are: computed and charged once, whichever plans and branches
// use them.
class UnpackedConstants {
 public:
  explicit UnpackedConstants(std::shared_ptr<MemoryAccount> account) : account_(std::move(account)) {}
  // Throws Error(over_budget) before it takes memory. Thread-safe.
  void compute(const Tensor& constant);

 private:
  std::shared_ptr<MemoryAccount> account_;
  std::mutex mutex_;
  std::map<const void*, std::pair<MemoryCharge, Tensor>> computed_;  // by storage
};

// The state that a session's programs share.
struct ProgramEnvironment {
  const backends::Device* device = nullptr;
  const backends::Device* host = nullptr;  // that runs what the device cannot: itself if it is a host
  // For a device with memory of its own; null for a host. The account counts the bytes in the device's memory.
  std::shared_ptr<MemoryAccount> device_account;
  std::shared_ptr<backends::DeviceCopies> device_copies;  // of constants
  backends::Staging staging;                              // of copies between host and device
  std::shared_ptr<MemoryAccount> account;
  std::shared_ptr<const io::PackageOrigin> package;  // that the model is from; null: from no package
  std::unique_ptr<SharedWeightStore> weights;
  std::shared_ptr<backends::DeviceWeights> device_weights;  // packed by `weights`; null for a host
  std::unique_ptr<UnpackedConstants> unpacked;
  std::unique_ptr<ResultAllocator> results;
  std::shared_ptr<VariableStore> variables;  // of all programs; other sessions may share it
  int threads = 0;                           // most threads that make plans; 0: all
  std::unique_ptr<StoredTuner> tuner;        // null: kernels are not measured
  passes::PassContext pass_context;
  passes::PipelineOptions pipeline;
  std::size_t max_plans = 16;       // per program
  std::int64_t max_plan_bytes = 0;  // of all programs; each keeps at least one plan
};

class PlanTemplates;
class Program;

// A plan with what is needed to run it: the programs of its subgraphs, and run states to use again.
struct PreparedPlan {
  std::shared_ptr<const plan::Plan> plan;
  // By step index, then by attribute name.
  std::map<std::size_t, std::map<std::string, std::unique_ptr<Program>, std::less<>>> subprograms;
  std::map<std::size_t, std::unique_ptr<LateKernels>> late_kernels;  // by step index
  std::mutex mutex;
  std::vector<std::unique_ptr<struct RunState>> idle_states;
  DeviceConstants device_constants;
  std::unique_ptr<const WeightArrival> arrival;  // null: all weights are there
  MemoryCharge charge;                           // the plan, and the constants that were folded for it

  PreparedPlan();
  ~PreparedPlan();
};

// Bytes in memory of the constants of `graph`, without those that it shares with `source` if one is given. Those of a
// deferred constant are there when something has read it; `with_deferred` counts them in any case.
std::int64_t bytes_of_constants(const ir::Graph& graph, const ir::Graph* source = nullptr, bool with_deferred = false);

class Program {
 public:
  // `graph` is closed and inferred; the environment outlives the program. `ready`: its shapes are numbers, and the
  // passes have no more to do. Adds its variables to the environment's store.
  Program(ir::Graph graph, const ProgramEnvironment& environment, bool ready = false);
  ~Program();

  const ir::Graph& graph() const { return graph_; }
  bool is_ready() const { return ready_; }
  // Whether a run's results depend on its seed.
  bool draws_random_numbers() const { return draws_random_numbers_; }
  // Takes one value per input and returns one per output. Inputs must agree with the graph's input types (the session
  // checks). Outputs never share storage with inputs, variables or the program. Thread-safe; runs that update variables
  // go one by one.
  std::vector<Value> run(const std::vector<Value>& inputs, RunControl& control);
  // The plan for these inputs, made now if need be. A run gives its core up while it makes a plan or waits for one; a
  // caller without a run holds no core.
  std::shared_ptr<PreparedPlan> plan_for(const std::vector<Value>& inputs, RunControl* control = nullptr);

  void trim();  // forgets idle run states
  const passes::PassMemory& pass_memory() const { return *pass_memory_; }
  // How many of its plans were made without passes.
  std::int64_t plans_from_templates() const { return plans_from_templates_; }

 private:
  std::shared_ptr<PreparedPlan> make(const std::vector<Value>& inputs, const base::StopSignal* stop) const;
  std::int64_t compute_unpacked(const plan::Plan& plan) const;

  ir::Graph graph_;
  const ProgramEnvironment& environment_;
  const bool ready_;
  const std::unique_ptr<passes::PassMemory> pass_memory_;  // of the passes for its plans
  const std::unique_ptr<PlanTemplates> templates_;         // null: each plan is made by passes
  mutable std::atomic<std::int64_t> plans_from_templates_ = 0;
  PlanCache plans_;
  std::vector<std::size_t> variable_places_;  // in the environment's store
  bool updates_variables_ = false;
  bool draws_random_numbers_;
};

}  // namespace tessera::runtime
