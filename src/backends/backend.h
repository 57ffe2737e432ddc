// The whole contract between a device and the rest: what a device is, what a kernel is, what a kernel is given.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/host_resources.h"
#include "backends/stream.h"
#include "base/threads/stop_signal.h"
#include "ops/core/op.h"

namespace tessera::backends {

// Where tensors come from whose size a plan does not know.
class TensorAllocator {
 public:
  virtual ~TensorAllocator() = default;
  // Uninitialised storage (strings are empty). Throws Error(over_budget).
  virtual Tensor allocate(DType type, Shape shape) = 0;
  // The same tensor of strings, its characters charged as well. Throws Error(over_budget).
  virtual Tensor with_characters(Tensor strings) = 0;
  // Memory that is no tensor: charged, and released by the same number. charge throws Error(over_budget).
  virtual void charge(std::int64_t bytes) = 0;
  virtual void release(std::int64_t bytes) = 0;
};

// What a run gives to all of its kernels.
struct ExecutionResources {
  HostResources host;                      // of kernels that run on the host
  std::uint64_t seed = 0;                  // of random operators without a seed of their own
  TensorAllocator* allocator = nullptr;    // of host memory; null: ordinary tensors
  const base::StopSignal* stop = nullptr;  // null: nothing stops the run
  Stream* stream = nullptr;                // where kernels of a device are enqueued; null on a host

  Tensor allocate(DType type, Shape shape) const {
    return allocator != nullptr ? allocator->allocate(type, std::move(shape)) : Tensor(type, std::move(shape));
  }
  // A copy with storage of its own.
  Tensor copy(const Tensor& tensor) const;
  // Charges the characters of strings, which kernels write after their tensor was charged; other tensors are returned
  // as they are.
  Tensor with_characters(Tensor tensor) const {
    return allocator != nullptr && tensor.dtype() == DType::string ? allocator->with_characters(std::move(tensor))
                                                                   : tensor;
  }
  int threads() const { return host.threads(); }
  // Throws Error(cancelled or over_budget) when the run is to end.
  void check_stop() const {
    if (stop != nullptr) stop->check();
  }
};

// What a kernel sees of one execution. Inputs are read-only; outputs are distinct from inputs, except where the
// kernel's entry declares in-place inputs. Operands are dense, row-major. For a kernel of a device that is no host the
// tensors and the scratch memory hold device addresses, all outputs have storage, and the context, its values and its
// node are there only until run() returns: the kernel copies what its work on the stream needs of them.
class KernelContext : public ops::AttributeReader {
 public:
  KernelContext(const ir::Node& node, const ops::OpDef& op, std::span<const Value* const> inputs,
                std::span<Value> outputs, std::span<const ir::ValueType> output_types,
                const ExecutionResources& resources)
      : AttributeReader(node, op),
        inputs_(inputs),
        outputs_(outputs),
        output_types_(output_types),
        resources_(&resources) {}

  // Formal inputs only.
  std::size_t input_count() const { return inputs_.size(); }
  bool has_input(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr && inputs_[i]->has_value(); }
  const Value& input_value(std::size_t i) const { return *inputs_[i]; }
  const Tensor& input(std::size_t i) const { return inputs_[i]->tensor(); }

  std::size_t output_count() const { return outputs_.size(); }
  bool wants_output(std::size_t i) const { return i < node().outputs.size() && node().outputs[i].valid(); }
  // Storage of an output whose shape inference knew; uninitialised.
  Tensor& output(std::size_t i) { return outputs_[i].tensor(); }
  // For outputs whose shape depends on the data: gives them storage, of the inferred element type unless one is given.
  Tensor& allocate_output(std::size_t i, Shape shape);
  Tensor& allocate_output(std::size_t i, DType dtype, Shape shape);
  // For sequences, optionals, maps, and tensors passed through without a copy.
  void set_output(std::size_t i, Value value) { outputs_[i] = std::move(value); }
  const ir::ValueType& output_type(std::size_t i) const { return output_types_[i]; }

  // Splits [0, count) into chunks of about `grain` (see base::Chunks) over the threads of this run. Between chunks
  // the run may be stopped, as by check_stop.
  void parallel_for(std::int64_t count, std::int64_t grain, base::RangeFunction body) const;
  // Throws Error(cancelled or over_budget) when the run is to end. To be called in loops that may take long and are no
  // parallel_for.
  void check_stop() const { resources_->check_stop(); }
  const ExecutionResources& resources() const { return *resources_; }
  // Where a kernel of a device enqueues its work; null on a host.
  Stream* stream() const { return resources_->stream; }

  // scratch_bytes() of the kernel, 64-byte aligned, contents undefined; null when it asked for none.
  std::byte* scratch() const { return scratch_; }
  void set_scratch(std::byte* scratch) { scratch_ = scratch; }

 private:
  std::span<const Value* const> inputs_;
  std::span<Value> outputs_;
  std::span<const ir::ValueType> output_types_;
  const ExecutionResources* resources_;
  std::byte* scratch_ = nullptr;
};

// Constant operands in a kernel's own layout, made once a model and shared by all of its plans; 64-byte aligned, in
// host memory. A device that computes with them elsewhere keeps a copy of each (device_copies.h). They may come from a
// file that anyone could have written: a kernel takes numbers to compute with from them, never an address, an index or
// a size.
struct PackedWeights {
  std::shared_ptr<const std::byte[]> data;
  std::int64_t bytes = 0;
};

// Fills the bytes of a packing, which are 64-byte aligned and whose contents are undefined. `weights` are those given
// to the store; those of a deferred tensor are there for as long as this call.
using PackFunction = std::function<void(const Tensor& weights, std::byte* to)>;

// Keeps packed weights by (storage of the constant, packing). Thread-safe implementations live above.
class WeightStore {
 public:
  virtual ~WeightStore() = default;
  // `packing` names kernel, layout and version ("gemm_f32_avx512_v1:N32"), so that equal names of equal shapes mean
  // equal bytes. `bytes` is how many there are. `pack` is called at most once a key, here or not at all.
  virtual std::shared_ptr<const PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing,
                                                            std::int64_t bytes, const PackFunction& pack) = 0;
};

// A kernel made for one node with concrete operand types. Immutable once made; run() may be called from several
// threads. On a host run() computes; on another device it enqueues on the context's stream and returns.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Working memory that run() needs beside its operands.
  virtual std::int64_t scratch_bytes() const { return 0; }
  virtual void run(KernelContext& context) const = 0;
};
using KernelPointer = std::unique_ptr<Kernel>;

// One line of a device's kernel table. Exactly one of `function` and `create` is set.
struct KernelEntry {
  std::string_view op;    // ir::Node::op
  std::string_view name;  // "softmax_avx512"; unique in its table for this op
  // Why this kernel cannot run the node, or "" when it can. Null: it can run any.
  std::string (*reject)(const ops::NodeView&) = nullptr;
  // Why a later kernel that takes the same nodes, or what a composite decomposes into, is expected to be faster, or "".
  // It is passed over then, unless measuring found otherwise or no other kernel takes the node. Null: "".
  std::string (*avoid)(const ops::NodeView&) = nullptr;
  // A kernel without state.
  void (*function)(KernelContext&) = nullptr;
  // A kernel with state; `weights` outlives it.
  KernelPointer (*create)(const ops::NodeView&, WeightStore& weights) = nullptr;
  // Bit i: output 0 may be written over input i, if nothing reads that later and it has the same byte size.
  std::uint32_t in_place_inputs = 0;
  // Whether output `output` may be written over input `input` under the same conditions, for operators of several
  // outputs or any number of operands. All pairs may be used at once, as long as they share neither inputs nor outputs.
  // Null: only what in_place_inputs says.
  bool (*in_place_pair)(const ir::Node& node, std::size_t output, std::size_t input) = nullptr;
  // Whether the entry comes from another device's table and stands in for a kernel that this device lacks. Set by
  // KernelIndex.
  bool is_stand_in = false;
};

// Whether the kernel may write the output over the input, by in_place_inputs or in_place_pair.
bool may_write_over(const KernelEntry& entry, const ir::Node& node, std::size_t output, std::size_t input);

// A device lives until the process ends.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Kernels for one operator in order of preference; the planner takes the first that accepts.
  virtual std::span<const KernelEntry* const> kernels_for(std::string_view op) const = 0;
  // Whether kernels touch memory; the null device plans and walks, but neither allocates nor computes.
  virtual bool computes() const { return true; }
  // Whether arithmetic on float16 and bfloat16 is best done in those types; else passes convert it to float32.
  virtual bool supports_float16() const { return true; }
  // Whether a kernel gives its cores up to a run of a higher class while it computes, as pool threads do between two
  // chunks; else a run gives way between two steps only.
  virtual bool preempts() const { return false; }
  // Whether results of its kernels that would be denormal numbers are zeros (ADR 0012).
  virtual bool flushes_denormals() const { return false; }
  // A kernel for a node that the entry, one of kernels_for, does not reject; `weights` outlives it. A device may wrap
  // kernels of another one here.
  virtual KernelPointer make_kernel(const KernelEntry& entry, const ops::NodeView& view, WeightStore& weights) const;

  // Whether kernels run at once, on the calling thread and on host memory. What follows is of devices that are no host;
  // a host must not be asked for a stream, an event or its memory.
  virtual bool is_host() const { return true; }
  virtual std::unique_ptr<Stream> make_stream() const;
  virtual std::unique_ptr<Event> make_event() const;
  virtual DeviceMemory& memory() const;
  // Whether its streams can record work (Stream::begin_capture).
  virtual bool can_capture() const { return false; }
  // The host device whose kernels do what this one cannot: strings, sizes that depend on data, operators that it lacks.
  // A host is its own.
  virtual const Device& host_fallback() const { return *this; }
  // How long a copy between host and device is expected to take.
  virtual double copy_seconds(std::int64_t) const { return 0; }
};

// Groups a table by operator, keeping the order of each group. Used by devices to answer kernels_for.
class KernelIndex {
 public:
  explicit KernelIndex(std::span<const KernelEntry> table);
  // Earlier tables are preferred. `stand_ins` is another device's table, whose kernels come last; their entries are
  // copies with is_stand_in set.
  explicit KernelIndex(std::span<const std::span<const KernelEntry>> tables,
                       std::span<const KernelEntry> stand_ins = {});
  KernelIndex(const KernelIndex&) = delete;
  KernelIndex& operator=(const KernelIndex&) = delete;
  std::span<const KernelEntry* const> find(std::string_view op) const;

 private:
  void add(std::span<const KernelEntry> table);
  std::map<std::string_view, std::vector<const KernelEntry*>> by_op_;
  std::vector<KernelEntry> stand_ins_;  // their number is fixed, so that pointers to them stay valid
};

// Wraps an entry's function, or calls its create.
KernelPointer make_kernel(const KernelEntry& entry, const ops::NodeView& view, WeightStore& weights);

}  // namespace tessera::backends
