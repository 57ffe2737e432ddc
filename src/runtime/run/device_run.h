// The part of a run that is on a device that is no host: its streams, the memory that its steps use there, and how the
// host waits for them.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "plan/plan.h"
#include "runtime/memory/memory.h"
#include "runtime/run/run_control.h"
#include "runtime/run/staged_copies.h"

namespace tessera::runtime {

struct ProgramEnvironment;

// Objects that runs of one plan reuse, one run at a time. Belongs to a run state.
struct DeviceRunState {
  // A segment of the plan that was recorded, and the addresses of its operands that another run may have elsewhere.
  struct Recorded {
    std::unique_ptr<backends::Recording> recording;
    std::vector<const void*> addresses;
  };

  std::vector<std::unique_ptr<backends::Event>> events;  // by step, of copies that steps on the host wait for
  std::shared_ptr<std::byte> arena;                      // borrowed for each run
  std::byte* bound_arena = nullptr;                      // where the values in the arena lie
  bool has_run = false;                                  // to the end
  std::vector<Recorded> recorded;                        // by segment of the plan
  std::vector<std::size_t> awaited_groups;               // by stream: of the plan's constants, that it waits for
  // Pinned memory for the plan's copies, borrowed for each run. If null, there is none to spare: copies take what they
  // need for as long as they need it, and nothing is recorded.
  std::shared_ptr<std::byte> staging;
  const std::byte* former_staging = nullptr;  // of the run before
  Tensor cells;                               // device memory: the run's seed, and whether updates are being written
  // For a plan of several streams: by step, that steps of other streams wait for; by stream, where work that has to
  // come after the stream waits; and where the other streams begin to follow stream 0.
  std::vector<std::unique_ptr<backends::Event>> step_events, ends;
  std::unique_ptr<backends::Event> fork;
  std::vector<std::unique_ptr<backends::Stream>> streams;  // last: their destructors wait for work that uses the others
};

// Makes the objects that runs reuse, without arenas and staging memory. Throws Error(over_budget).
std::unique_ptr<DeviceRunState> make_device_state(const plan::Plan& plan, const ProgramEnvironment& environment);

// The plan's constants on the device. They are copied in the order of their first use while the first steps compute:
// those that a step is the first to read are a group, and the step waits for it. A group costs an event, which is
// nothing beside the calls that copy.
struct DeviceConstants {
  std::vector<std::shared_ptr<void>> addresses;  // by slot: null where the slot is none, or has no bytes
  std::vector<std::vector<std::shared_ptr<const backends::Event>>> arrived;  // by group: what to wait for
  std::vector<std::size_t> groups;                                           // by step: how many groups it needs
};

// Begins to copy what no other plan of the session has copied. Throws Error(over_budget).
DeviceConstants device_constants(const plan::Plan& plan, const ProgramEnvironment& environment);

// One run's use of a DeviceRunState. Its destructor waits for the streams, so that memory can go back whatever
// happened.
class DeviceRun {
 public:
  DeviceRun(const ProgramEnvironment& environment, const plan::Plan& plan, DeviceRunState& state, RunControl& control);
  ~DeviceRun();
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  // The resources that kernels of the device are given.
  const backends::ExecutionResources& resources() const { return resources_; }
  bool is_on_device(const void* address) const { return device_.memory().contains(address); }
  // Enqueues a copy between any two of the spaces, as the addresses say: on the stream of the step that has the turn
  // or, without a step, on stream 0. A copy to the host is there when wait_for() of a step that awaits `step` has
  // returned, or synchronise().
  void copy(void* to, const void* from, std::int64_t bytes, std::size_t step = SIZE_MAX);
  // Around the work of a step: its stream has the turn, and waits for what comes before the step on other streams and,
  // if it is a kernel, for the constants that it needs; others may wait for the step.
  void begin_step(std::size_t index, const DeviceConstants& constants);
  void end_step(std::size_t index);
  // Keeps a value that enqueued work reads until the run ends.
  void keep(Value value) { kept_.push_back(std::move(value)); }
  // The staging memory of a copy step; null: there is none.
  std::byte* staging(const plan::Step& copy) const {
    return state_.staging != nullptr ? state_.staging.get() + copy.staging_offset : nullptr;
  }
  // The copy step `index` of the plan fills its staging memory; its bytes are moved to `to` when they have arrived and
  // a step waits for them, or the run ends.
  void expect(std::size_t index, const plan::Step& copy, Tensor to) { arrivals_.push_back({index, &copy, to}); }

  // Marks the end of an awaited copy; lets the calling thread wait for the last copy that conflicts with the step.
  void mark(const plan::Step& step, std::size_t index);
  void wait_for(const plan::Step& step);

  // Around the work of a step on the device whose timing stands at this index of the run's timings once it is known.
  void begin_timing();
  void end_timing(std::size_t timing);

  // Whether segments of the plan are replayed.
  bool replays() const;
  // Enqueues what `enqueue` enqueues for the segment on its streams, from the recording that an earlier run made or
  // this one makes or updates. `addresses`: those that the operations use and that differ between runs.
  void replay(std::size_t segment, const DeviceConstants& constants, std::vector<const void*> addresses,
              const std::function<void()>& enqueue);

  // Enqueues a mark, after everything else: work behind it writes over variables.
  void mark_writing();
  // Whether the device got as far as the mark before its work failed. Waits for the streams.
  bool has_begun_writing() noexcept;

  // Waits for everything that is enqueued, without a core, and moves what has arrived. Throws what failed on the
  // stream.
  void synchronise();
  // Synchronises at the end of the steps, and fills in their timings.
  void finish();

 private:
  struct Timed {
    std::unique_ptr<backends::Event> begin, end;
    std::size_t timing = 0;
  };
  struct Arrival {
    std::size_t index;
    const plan::Step* copy;
    Tensor to;
  };
  backends::Stream& stream() { return *state_.streams[turn_]; }
  void take_turn(std::size_t stream);
  // Lets the stream of the turn wait for the constants of the step and of those before it.
  void wait_for_constants(const DeviceConstants& constants, std::size_t step);
  void fork();  // streams that take a turn from here on first wait for this point of stream 0
  void join();  // stream 0 waits for all others
  // Waits for all streams, so that none of them reports a failure later. Returns the first failure, or null.
  std::exception_ptr wait_for_streams();
  std::unique_ptr<backends::Event> record();
  void move_arrivals(std::size_t last);  // of the copy steps up to this one
  std::byte* cell(std::int64_t offset) { return static_cast<std::byte*>(state_.cells.mutable_raw()) + offset; }

  const backends::Device& device_;
  const plan::Plan& plan_;
  DeviceRunState& state_;
  RunControl& control_;
  backends::ExecutionResources resources_;
  std::vector<Value> kept_;
  StagedCopies copies_;
  std::vector<Arrival> arrivals_;
  std::unique_ptr<backends::Event> origin_;  // when timings are wanted
  std::int64_t origin_ns_ = 0;               // on the run's clock
  std::vector<Timed> timed_;
  bool waits_ = true;          // whether anything may be enqueued
  std::size_t turn_ = 0;       // the stream that has the turn
  std::size_t settled_ = 0;    // steps before this one come before anything that is enqueued after the latest fork
  std::vector<bool> follows_;  // by stream: whether it waits for the latest fork
  std::vector<bool> is_open_;  // by stream: whether anything was enqueued since the latest join
};

}  // namespace tessera::runtime
