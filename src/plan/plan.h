// A plan is a graph with known input shapes, lowered to an immutable list of steps with chosen kernels, packed weights
// and a memory plan. A run executes the list in order (src/runtime/run/executor.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "ir/graph.h"
#include "ops/core/op.h"

namespace tessera::plan {

class Tuner;
struct Plan;

// The place of a slot's value during a run.
enum class Place : std::uint8_t {
  none,      // an output that is not used
  input,     // a tensor of the caller
  constant,  // a constant of the graph
  variable,  // state of the session, in the slot's memory space
  arena,     // planned memory at `offset`
  result,    // new memory that outlives the run: a graph output, or the next state of a variable
  dynamic,   // allocated by the step that makes it: its shape depends on data, or it is not a tensor
  alias,     // a view of slot `source`
};

struct Slot {
  Place place = Place::none;
  backends::MemorySpace space = backends::MemorySpace::host;  // a constant that both spaces need has a slot in each
  ir::ValueId value;
  ir::ValueType type;
  std::int64_t offset = 0;       // bytes from the start of the arena of `space`
  std::int32_t source = -1;      // alias: the slot whose bytes it shows, which is never an alias itself
  std::int64_t view_offset = 0;  // alias: bytes from the start of its source
  std::int32_t update_of = -1;   // result: the variable whose next value this is, or -1
  Tensor constant;
};

enum class StepKind : std::uint8_t {
  kernel,   // operand types are known, and the kernel is ready
  late,     // operand types depend on data: types are inferred and the kernel is chosen during the run
  control,  // If, Loop, Scan, SequenceMap: runs its subgraphs
  copy,     // copies input 0 to output 0, which is in the other memory space
  alias,    // does nothing: outputs are parts of input 0, or inputs are parts of the output. Views of a caller's
            // tensor are made during the run.
};

// Weights in a kernel's own layout, which a step reads in place of a constant.
struct UsedPacking {
  const void* storage = nullptr;  // of the constant
  std::shared_ptr<const backends::PackedWeights> packed;
};

struct Step {
  StepKind kind = StepKind::kernel;
  // The memory space of the outputs, where the kernel runs; for a copy, its destination.
  backends::MemorySpace space = backends::MemorySpace::host;
  ir::NodeId node;  // invalid for a copy
  const ops::OpDef* op = nullptr;
  const backends::KernelEntry* entry = nullptr;
  std::shared_ptr<const backends::Kernel> kernel;  // plans of one model share those whose operands are the same
  std::vector<UsedPacking> packings;               // those that the kernel reads
  std::vector<std::string> rejected;               // kernels that were passed over, with reasons
  std::vector<std::int32_t> inputs;                // slots, captures included; -1 for an absent input
  std::int32_t first_output = 0;                   // outputs are consecutive slots
  std::int32_t output_count = 0;
  std::vector<ir::ValueType> output_types;
  ops::Cost cost, kernel_cost;  // `kernel_cost`: where the kernel runs, also if the step has nothing to do
  std::int64_t scratch_bytes = 0, scratch_offset = 0;  // in the arena
  std::vector<std::int32_t> dying;                     // dynamic slots that this step is the last to use
  double expected_seconds = 0;                         // for a copy
  // For a step on the host or a copy to the device: the last earlier copy of each direction that has to be complete
  // when the step begins, because the step reads what the copy wrote or writes what it read.
  std::vector<std::int32_t> awaited_copies;
  bool is_awaited = false;  // for a copy: whether a step waits for it
  // For what is enqueued on a device: the stream, the earlier steps of other streams that come before, and whether this
  // one has to come before a step of another stream.
  std::int32_t stream = 0;
  std::vector<std::int32_t> stream_waits;
  bool is_stream_awaited = false;
  std::int64_t staging_offset = 0;          // for a copy: its place in the run's staging memory
  bool is_asynchronous = false;             // the kernel's work goes on after the step (backends/asynchronous.h)
  std::vector<std::int32_t> awaited_steps;  // asynchronous steps that have to be complete when this one begins
};

// Consecutive steps [first, end) that the host only enqueues: kernels and views on a device, and copies. They can be
// recorded once and replayed as a whole.
struct DeviceSegment {
  std::size_t first = 0, end = 0;
};

struct Plan {
  ir::Graph graph;  // specialised to the shapes of this plan
  std::vector<Slot> slots;
  std::vector<Step> steps;
  std::vector<std::int32_t> input_slots;     // one per graph input
  std::vector<std::int32_t> output_slots;    // one per graph output
  std::vector<std::int32_t> variable_slots;  // one per variable: its value at the start of a run
  std::vector<std::int32_t> update_slots;    // one per variable: its next value, or -1
  // The variables whose next value is written over the present one, once nothing reads that any more, and the first
  // step that does so. From that step on, all steps are kernels or views whose results have known sizes.
  std::vector<std::size_t> written_over;
  std::size_t first_writing_step = SIZE_MAX;
  std::int64_t arena_bytes = 0;  // on the host
  std::int64_t largest_live_bytes = 0;
  std::int64_t constant_bytes = 0;
  bool has_asynchronous = false;  // whether any step is asynchronous
  bool uses_device = false;       // whether the plan is for a device other than the host
  std::int32_t streams = 1;       // of the device, among which its steps are divided
  std::vector<DeviceSegment>
      segments;                    // of at least two steps each, in ascending order; steps on the host lie between them
  std::int64_t staging_bytes = 0;  // pinned memory through which all copies between host and device go
  bool draws_on_device = false;    // whether a kernel of the device draws random numbers
  // Whether all earlier work of the device must be complete when the first update is written over its variable: the
  // host writes such an update itself, or takes another one.
  bool settles_before_writing = false;
  std::int64_t device_arena_bytes = 0, largest_live_device_bytes = 0, device_constant_bytes = 0;
};

struct PlanOptions {
  bool in_place = true;
  bool alias_views = true;
  // The most bytes that any value may have; 0 for no limit. Kernels are made for the sizes of their operands, and some
  // take memory in proportion to them.
  std::int64_t max_value_bytes = 0;
  // Kernels are made, and their weights packed, on up to `max_threads` threads of the pool (0: no limit), while the
  // caller holds a core. If null, the calling thread makes them alone.
  base::ThreadPool* pool = nullptr;
  int max_threads = 0;
  // Chooses kernels by measuring them, with memory of the allocator. If null, kernels are taken in the device's order.
  Tuner* tuner = nullptr;
  backends::TensorAllocator* allocator = nullptr;
  // A plan for other sizes whose graph has the same nodes and values, by the same ids: its kernels serve all steps
  // whose operands are the same. If null, or with a tuner, all kernels are made.
  const Plan* like = nullptr;
  // Packs weights for the kernels of a device with memory of its own, in that memory (backends/device_weights.h). Must
  // be set for such a device; host kernels pack by the store that make_plan is given.
  backends::WeightStore* device_weights = nullptr;
  // Checked before each kernel is made, before each packing and between the parts of planning. May be null.
  const base::StopSignal* stop = nullptr;

  void check_stop() const {
    if (stop != nullptr) stop->check();
  }
};

// Lowers `graph` to a plan. The types of its inputs should be concrete; values whose types are not become dynamic. For
// a device other than the host, each node that the device can run is placed there and every other one on its host
// fallback, with copies between them; inputs are copied first and outputs last. Inputs and outputs are in host memory.
// A variable is in the memory of the device if a step there reads it or computes its update, else in host memory.
// Throws Error(unsupported) that lists every node for which the device has no kernel, Error(over_budget)
// for a value beyond max_value_bytes, and Error(cancelled or over_budget) if `stop` says so.
std::shared_ptr<const Plan> make_plan(ir::Graph graph, const backends::Device& device, backends::WeightStore& weights,
                                      const PlanOptions& options = {});

// The name of the step's node, or of what a copy step copies, for messages.
std::string describe(const Plan& plan, const Step& step);

// The approximate heap bytes of the plan and its graph, without tensors and packed weights.
std::int64_t structure_bytes(const Plan& plan);

// A text for people: one line per step with kernel, places and sizes, then memory. With `reasons`, rejected kernels
// too.
std::string print_plan(const Plan& plan, bool reasons);

}  // namespace tessera::plan
