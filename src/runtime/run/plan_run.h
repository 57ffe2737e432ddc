// One run of a plan: the values in its slots, its steps in order, its outputs. The parts stand in plan_run.cpp (the
// walk), plan_run_steps.cpp (what a step does), plan_run_device.cpp (what it does on a device), plan_run_variables.cpp
// (how updates become state), plan_run_outputs.cpp (what else outlives the run) and plan_run_pending.cpp (the work of
// asynchronous steps).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/asynchronous.h"
#include "base/error.h"
#include "runtime/run/executor.h"
#include "runtime/variables/variable_run.h"

namespace tessera::runtime {

// Of a result or dynamic output whose size is known before its kernel runs: it is given storage then.
bool has_size(const ir::ValueType& type);

// The part of its source that an alias shows.
Tensor part_of(const Tensor& source, const plan::Slot& slot);

class PlanRun {
 public:
  // `variables`: null for a plan without.
  PlanRun(PreparedPlan& prepared, RunState& state, const ProgramEnvironment& environment, RunControl& control,
          VariableRun* variables)
      : prepared_(prepared),
        plan_(*prepared.plan),
        state_(state),
        environment_(environment),
        control_(control),
        variables_(variables) {}

  std::vector<Value> execute(std::span<const Value> inputs);

 private:
  const plan::Slot& slot(std::int32_t index) const { return plan_.slots[static_cast<std::size_t>(index)]; }
  Value& value(std::int32_t index) { return state_.values[static_cast<std::size_t>(index)]; }

  // The walk.
  void run_steps();
  void forget_dying(const plan::Step& step);
  void finish_device();
  void pass_gate(std::size_t index);
  void run_step(std::size_t index);
  bool is_enqueued(const plan::Step& step) const;  // on a stream of the device
  void record(const plan::Step& step, std::int64_t start, std::int64_t end);

  // Steps.
  void run_kernel(std::size_t index);
  // Results without elements are there already; a loop over their other dimensions might take forever.
  bool gives_nothing(const plan::Step& step, std::span<const Value> outputs) const;
  // Strings of known shape own their storage; everything else of unknown size is the kernel's to allocate.
  Value allocate_text(const ir::ValueType& type);
  void make_view(const plan::Step& step);
  // The operands of a step as values of their own. A step that makes sequences or optionals may keep its operands
  // inside them, so those that lie in planned or foreign memory are copied.
  std::vector<Value> operands_of(const plan::Step& step);
  void run_late(std::size_t index);
  void run_control(std::size_t index);
  // What later kernels were made for must be what is there: a package can hold shapes that are not true.
  void check_outputs(const plan::Step& step);
  // On a device that does not compute, results have a shape but no bytes.
  void pretend(const plan::Step& step);
  // A copy in memory that is charged to the session.
  Value copy_of(const Tensor& tensor) { return control_.resources.copy(tensor); }

  // Asynchronous steps. The run waits for their work without a core, and a failure is reported as that of the step.
  struct Pending {
    std::size_t step = 0;
    std::size_t timing = SIZE_MAX;  // in the run's timings
    std::vector<Value> operands;    // those outside the arena, which other steps may forget meanwhile
    std::unique_ptr<backends::PendingWork> work;
  };
  void begin(std::size_t index, backends::KernelContext& context);
  void await_steps_of(const plan::Step& step);
  void await_all();
  void await(Pending pending);

  // For a plan with steps on a device.
  void bring_inputs_to_host();
  bool is_read_on_host(std::int32_t index) const;
  bool is_copied(std::int32_t index) const;  // by a copy step
  // Before a step is enqueued: storage for its results, and its views.
  void provide_storage(const plan::Step& step);
  // Before a copy step is enqueued: what it copies to the device is written to staging memory.
  void stage(const plan::Step& step);
  void enqueue_copy(const plan::Step& step);
  // When a copy step is enqueued, or the recording that it is part of.
  void follow_copy(std::size_t index);
  void run_copy(std::size_t index);
  void enqueue_kernel(std::size_t index);
  void replay_segment(std::size_t segment);
  // Addresses that the steps use and that differ between runs.
  std::vector<const void*> changing_addresses(const plan::DeviceSegment& segment) const;
  DeviceSpace device_space() const { return {environment_.device, environment_.device_account}; }

  // Variables.
  bool updates_variables() const;
  bool is_written_over(std::int32_t variable) const;
  // Whether a step that begin_writing() comes before computes the value.
  bool comes_last(std::int32_t index) const;
  bool is_on_device(std::size_t variable) const;
  // Whether updates that are complete before the first is written over its variable are taken before that. Without, all
  // are results of their own, and taking them cannot fail.
  bool takes_early() const { return device_ == nullptr || plan_.settles_before_writing; }
  // From here on nothing stops the run, which has all memory that it needs.
  void begin_writing();
  // Says in the error which variables are damaged.
  void add_damage(Error& error);
  // Memory for the next value of a variable.
  Value storage_for_update(std::size_t variable, const ir::ValueType& type);
  // Gives updates to variables_, which become the state when that is finished: all, or those that come last alone.
  void take_updates(bool only_last);
  void take_update(std::size_t variable);
  void take_updates_before_writing();

  // Outputs.
  const Tensor* bound_memory(std::size_t output) const;
  const std::string& output_name(std::size_t output) const;
  // Finds out which steps may write to the caller's memory, and refuses memory of another size where that is known
  // before anything is computed.
  void bind_outputs(std::span<const Value> inputs);
  // Storage for a result that is about to be computed.
  Value storage_for(std::int32_t index, const ir::ValueType& type);
  // Whether what makes the output can write to the caller's memory: a kernel on the host to no device's.
  bool is_written_directly(std::int32_t index, const Tensor& memory) const;
  void copy_bytes(void* to, const void* from, std::int64_t bytes);  // from the host
  // The output in the memory that it is bound to.
  Value deliver(std::size_t output, const Value& result, const Tensor& memory);
  // A tensor that outlives the run: taken as it is when this run made it and nobody else needs it, else copied. It is
  // moved out if no step needs it any more.
  Value keep(std::int32_t index, bool last_taker, bool may_move);
  bool is_taken_once(std::int32_t index) const;
  // Whether delivering the outputs may write over this one before it is read: it lies in an input whose memory outputs
  // are bound to.
  bool is_overwritten(const Value& result, std::size_t output) const;
  // `may_move`: no step needs their values any more.
  std::vector<Value> collect_outputs(bool may_move);
  void forget_run_values();

  PreparedPlan& prepared_;
  const plan::Plan& plan_;
  RunState& state_;
  const ProgramEnvironment& environment_;
  RunControl& control_;
  std::vector<std::pair<std::int32_t, const Tensor*>> bound_slots_;  // results that are written to the caller's memory
  const WeightArrival* arrival_ = nullptr;                           // null: all weights are there
  VariableRun* variables_;
  bool writing_ = false;                         // begin_writing() was called
  std::optional<std::vector<Value>> collected_;  // outputs that were there before
  std::vector<Tensor> next_values_;              // by variable: memory of those that begin_writing provided for
  std::vector<std::pair<std::int32_t, Value>> reserved_;  // results of the steps behind begin_writing
  // Null unless the plan uses a device. Last, because the destructors wait for work that uses the other members.
  std::unique_ptr<DeviceRun> device_;
  std::vector<Pending> pending_;  // in the order of their steps
};

}  // namespace tessera::runtime
