// A plan: a graph with known input shapes, lowered to an immutable list of steps with chosen kernels, packed weights
// and a memory plan. Running is walking that list (src/runtime/run/executor.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "ir/graph.h"
#include "ops/core/op.h"

namespace tessera::plan {

class Tuner;

// Where the value in a slot lives during a run.
enum class Place : std::uint8_t {
  none,      // an output that nobody wants
  input,     // the caller's tensor
  constant,  // the graph's
  variable,  // the session's state
  arena,     // planned memory at `offset`
  result,    // fresh memory that outlives the run: a graph output, or the next state of a variable
  dynamic,   // allocated by the step that makes it: its shape depends on data, or it is not a tensor
  alias,     // bytes of slot `source`
};

struct Slot {
  Place place = Place::none;
  backends::MemorySpace space = backends::MemorySpace::host;  // a constant that both spaces need has a slot in each
  ir::ValueId value;
  ir::ValueType type;
  std::int64_t offset = 0;       // in the arena of its space
  std::int32_t source = -1;      // of an alias; itself never an alias
  std::int64_t view_offset = 0;  // of an alias: bytes from the start of its source
  std::int32_t update_of = -1;   // of a result: the variable whose next value is computed in this slot
  Tensor constant;
};

enum class StepKind : std::uint8_t {
  kernel,   // operand types known: the kernel stands ready
  late,     // operand types depend on data: inference and kernel choice happen when it runs
  control,  // If, Loop, Scan, SequenceMap: runs its subgraphs
  copy,     // input 0 into output 0, which is in the other memory space
  alias,    // nothing to do: outputs are parts of input 0, or inputs of the output; views of a caller's tensor are made
            // when it runs
};

// Weights in a kernel's own layout that a step reads in place of a constant.
struct UsedPacking {
  const void* storage = nullptr;  // of the constant
  std::shared_ptr<const backends::PackedWeights> packed;
};

struct Step {
  StepKind kind = StepKind::kernel;
  // Where its kernel runs, and its outputs lie. Of a copy: where it copies to.
  backends::MemorySpace space = backends::MemorySpace::host;
  ir::NodeId node;  // of a copy: invalid
  const ops::OpDef* op = nullptr;
  const backends::KernelEntry* entry = nullptr;
  std::unique_ptr<backends::Kernel> kernel;
  std::vector<UsedPacking> packings;  // of the kernel
  std::vector<std::string> rejected;  // kernels passed over, with reasons
  std::vector<std::int32_t> inputs;   // slots; -1 for an absent input; captures included
  std::int32_t first_output = 0;      // outputs are consecutive slots
  std::int32_t output_count = 0;
  std::vector<ir::ValueType> output_types;
  ops::Cost cost;
  std::int64_t scratch_bytes = 0, scratch_offset = 0;  // in the arena
  std::vector<std::int32_t> dying;                     // dynamic slots whose last use this step is
  double expected_seconds = 0;                         // of a copy
  // Of a step on the host: the last copy before it that has to be complete when it begins, because it reads what that
  // wrote or writes to what that read; -1 for none.
  std::int32_t awaited = -1;
  bool is_awaited = false;  // of a copy
};

struct Plan {
  ir::Graph graph;  // specialised to the shapes of this plan
  std::vector<Slot> slots;
  std::vector<Step> steps;
  std::vector<std::int32_t> input_slots;     // one a graph input
  std::vector<std::int32_t> output_slots;    // one a graph output
  std::vector<std::int32_t> variable_slots;  // one a variable: its value at the start
  std::vector<std::int32_t> update_slots;    // one a variable: its next value, or -1
  // Variables whose next value may be written over the present one, which nothing reads then. The first step that does
  // so: it and those behind it are steps with kernels, or views, whose results have known sizes.
  std::vector<std::size_t> written_over;
  std::size_t first_writing_step = SIZE_MAX;
  std::int64_t arena_bytes = 0;  // on the host
  std::int64_t largest_live_bytes = 0;
  std::int64_t constant_bytes = 0;
  bool uses_device = false;  // whether the plan is for a device that is no host
  // Steps that can be recorded once and replayed as a whole: all between the copies of inputs and those of outputs, if
  // all are on the device; else none.
  std::size_t first_recordable = 0, end_recordable = 0;
  std::int64_t device_arena_bytes = 0, largest_live_device_bytes = 0, device_constant_bytes = 0;
};

struct PlanOptions {
  bool in_place = true;
  bool alias_views = true;
  // No value may have more bytes than this: kernels are made for their operands, and some of them in proportion. 0: any
  // size.
  std::int64_t max_value_bytes = 0;
  // Kernels are made, and their weights packed, on so many threads of it (0: all); the caller holds a core. Null: by
  // the calling thread.
  base::ThreadPool* pool = nullptr;
  int max_threads = 0;
  // Chooses kernels by measuring them, with memory of the allocator. Null: the device's order does.
  Tuner* tuner = nullptr;
  backends::TensorAllocator* allocator = nullptr;
  // Asked before each kernel that is made, before each packing and between the parts of planning. Null: nothing stops
  // it.
  const base::StopSignal* stop = nullptr;

  void check_stop() const {
    if (stop != nullptr) stop->check();
  }
};

// Lowers `graph`, whose input types should be concrete (values whose types are not become dynamic). For a device that
// is no host, each node that the device can run is placed there and every other one on its host fallback, with copies
// between them; inputs are copied first and outputs last. Inputs, outputs and variables are host memory. Throws
// Error(unsupported) listing every node that no kernel of the device accepts, Error(over_budget) for a value beyond
// max_value_bytes, and Error(cancelled or over_budget) when it is stopped.
std::shared_ptr<const Plan> make_plan(ir::Graph graph, const backends::Device& device, backends::WeightStore& weights,
                                      const PlanOptions& options = {});

// The node of the step, or what a copy copies, for messages.
std::string describe(const Plan& plan, const Step& step);

// Heap bytes of the plan and its graph, about; without tensors and packed weights.
std::int64_t structure_bytes(const Plan& plan);

// Steps with kernels, places and sizes, for people: one line a step, then memory. With `reasons`, rejected kernels too.
std::string print_plan(const Plan& plan, bool reasons);

}  // namespace tessera::plan
