// The contract between a device and the rest of the engine: devices, kernels, kernel tables, and what a kernel receives
// when it runs.
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

struct DeviceActivity;
struct DeviceProperties;

// Allocates the tensors whose sizes a plan does not know, and charges them to the memory limit of the run.
class TensorAllocator {
 public:
  virtual ~TensorAllocator() = default;
  // A tensor with uninitialised storage (strings are empty). Throws Error(over_budget).
  virtual Tensor allocate(DType type, Shape shape) = 0;
  // Returns the tensor after charging the characters of its strings as well. Throws Error(over_budget).
  virtual Tensor with_characters(Tensor strings) = 0;
  // Charges memory that is not a tensor; it is released with the same number. charge() throws Error(over_budget).
  virtual void charge(std::int64_t bytes) = 0;
  virtual void release(std::int64_t bytes) = 0;
};

// The resources that all kernels of one run share.
struct ExecutionResources {
  HostResources host;                      // for kernels that run on the host
  std::uint64_t seed = 0;                  // for random operators without a seed of their own
  TensorAllocator* allocator = nullptr;    // of host memory; null: ordinary tensors
  const base::StopSignal* stop = nullptr;  // null: the run cannot be stopped
  Stream* stream = nullptr;                // the stream that kernels enqueue on; null on a host
  // The run's seed as data, in memory of the device: kernels of a device read it when they execute, not when they are
  // enqueued, so that a recording serves runs with other seeds. Null: `seed`. Kernels on a host use `seed` alone.
  const std::uint64_t* seed_cell = nullptr;

  Tensor allocate(DType type, Shape shape) const {
    return allocator != nullptr ? allocator->allocate(type, std::move(shape)) : Tensor(type, std::move(shape));
  }
  // Returns a copy of the tensor with storage of its own.
  Tensor copy(const Tensor& tensor) const;
  // Charges the characters of a tensor of strings, which a kernel writes after the tensor itself was charged. Returns
  // tensors of other types unchanged.
  Tensor with_characters(Tensor tensor) const {
    return allocator != nullptr && tensor.dtype() == DType::string ? allocator->with_characters(std::move(tensor))
                                                                   : tensor;
  }
  int threads() const { return host.threads(); }
  // Throws Error(cancelled or over_budget) if the run has to stop.
  void check_stop() const {
    if (stop != nullptr) stop->check();
  }
};

// The inputs, outputs, attributes and resources of one execution of a kernel. Inputs are read-only; outputs are
// distinct from inputs, except where the kernel's entry declares in-place inputs. Operands are dense and row-major.
//
// On a device that is not a host, tensors and scratch memory hold device addresses and all outputs have storage. The
// context, its values and its node are valid only until run() returns: the kernel copies whatever its work on the
// stream needs of them.
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

  // The number of formal inputs, including absent ones among them.
  std::size_t input_count() const { return inputs_.size(); }
  bool has_input(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr && inputs_[i]->has_value(); }
  const Value& input_value(std::size_t i) const { return *inputs_[i]; }
  const Tensor& input(std::size_t i) const { return inputs_[i]->tensor(); }

  std::size_t output_count() const { return outputs_.size(); }
  bool wants_output(std::size_t i) const { return i < node().outputs.size() && node().outputs[i].valid(); }
  // The storage, uninitialised, of an output whose shape was inferred before the run.
  Tensor& output(std::size_t i) { return outputs_[i].tensor(); }
  // Gives storage to an output whose shape depends on the data; the inferred element type unless another is given.
  Tensor& allocate_output(std::size_t i, Shape shape);
  Tensor& allocate_output(std::size_t i, DType dtype, Shape shape);
  // Sets an output that is a sequence, optional or map, or a tensor that is passed through without a copy.
  void set_output(std::size_t i, Value value) { outputs_[i] = std::move(value); }
  const ir::ValueType& output_type(std::size_t i) const { return output_types_[i]; }

  // Splits [0, count) into chunks of about `grain` elements (see base::Chunks) over the threads of this run. Throws as
  // check_stop() does if the run has to stop between two chunks.
  void parallel_for(std::int64_t count, std::int64_t grain, base::RangeFunction body) const;
  // Throws Error(cancelled or over_budget) if the run has to stop. Call it in long loops that are not a parallel_for.
  void check_stop() const { resources_->check_stop(); }
  const ExecutionResources& resources() const { return *resources_; }
  // The stream on which a kernel of a device enqueues its work; null on a host.
  Stream* stream() const { return resources_->stream; }

  // Memory of the kernel's scratch_bytes(), 64-byte aligned, contents undefined; null if the kernel needs none.
  std::byte* scratch() const { return scratch_; }
  void set_scratch(std::byte* scratch) { scratch_ = scratch; }

 private:
  std::span<const Value* const> inputs_;
  std::span<Value> outputs_;
  std::span<const ir::ValueType> output_types_;
  const ExecutionResources* resources_;
  std::byte* scratch_ = nullptr;
};

// Constant operands in the layout of a kernel, packed once per model and shared by all of its plans; 64-byte aligned,
// in the memory that the kernel reads: a kernel of a device with memory of its own is given a store whose packings lie
// there (device_weights.h). Packed weights may come from an untrusted file: a kernel may read numbers to compute with
// from them, but never an address, an index or a size.
struct PackedWeights {
  std::shared_ptr<const std::byte[]> data;
  std::int64_t bytes = 0;
};

// Writes the packed form of `weights` to `to`, which is 64-byte aligned host memory with undefined contents, on
// whatever device the kernel runs. `weights` is the tensor given to the store; the elements of a deferred tensor are
// valid only during this call.
using PackFunction = std::function<void(const Tensor& weights, std::byte* to)>;

// Keeps packed weights by (storage of the constant, packing). Implementations are thread-safe and belong to the
// runtime.
class WeightStore {
 public:
  virtual ~WeightStore() = default;
  // Returns the packed form of the constant, packing it if it is not kept yet. `packing` names kernel, layout and
  // version ("gemm_f32_avx512_v1:N32"): equal names with equal shapes mean equal bytes. `bytes` is the packed size.
  // `pack` is called at most once per key, and only during this call.
  virtual std::shared_ptr<const PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing,
                                                            std::int64_t bytes, const PackFunction& pack) = 0;
};

// A kernel created for one node with concrete operand types. Immutable; several threads may call run() at once. On a
// host run() computes; on another device it enqueues on the context's stream and returns.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Bytes of working memory that run() needs beside its operands.
  virtual std::int64_t scratch_bytes() const { return 0; }
  virtual void run(KernelContext& context) const = 0;
};
using KernelPointer = std::unique_ptr<Kernel>;

// One line of a device's kernel table. Exactly one of `function`, `create` and `create_on` is set. The forms that end
// in `_on` also see the properties of the device that is to run the kernel, for tables that serve devices of several
// sizes and generations; `reject` and `reject_on` may both be set, and so may `avoid` and `avoid_on`.
struct KernelEntry {
  std::string_view op;    // ir::Node::op
  std::string_view name;  // "softmax_avx512"; unique in its table for this op
  // Returns why this kernel cannot run the node, or "" if it can. Null: the kernel can run any node of the operator.
  std::string (*reject)(const ops::NodeView&) = nullptr;
  std::string (*reject_on)(const ops::NodeView&, const DeviceProperties&) = nullptr;
  // Returns why another choice for the node (a later kernel of the table, or the composite's decomposition) is expected
  // to be faster, or "". An avoided kernel is used only if measurements favour it or no other kernel takes the node.
  // Null: "".
  std::string (*avoid)(const ops::NodeView&) = nullptr;
  std::string (*avoid_on)(const ops::NodeView&, const DeviceProperties&) = nullptr;
  // The kernel, if it has no state.
  void (*function)(KernelContext&) = nullptr;
  // Creates the kernel, if it has state; `weights` outlives it.
  KernelPointer (*create)(const ops::NodeView&, WeightStore& weights) = nullptr;
  KernelPointer (*create_on)(const ops::NodeView&, WeightStore& weights, const DeviceProperties&) = nullptr;
  // Bit i: output 0 may be written over input i if nothing reads that input later and both have the same byte size.
  std::uint32_t in_place_inputs = 0;
  // Whether output `output` may be written over input `input` under the same conditions, for operators with several
  // outputs or any number of operands. Several pairs may be used at once as long as no two share an input or an output.
  // Null: only in_place_inputs counts.
  bool (*in_place_pair)(const ir::Node& node, std::size_t output, std::size_t input) = nullptr;
  // Whether the entry comes from another device's table, as a substitute for a kernel that this device lacks. Set by
  // KernelIndex.
  bool is_stand_in = false;
};

// Returns why the kernel cannot run the node on a device with these properties, or "" (reject, reject_on).
std::string reason_to_reject(const KernelEntry& entry, const ops::NodeView& view, const DeviceProperties& device);
// Returns why another choice is expected to be faster on a device with these properties, or "" (avoid, avoid_on).
std::string reason_to_avoid(const KernelEntry& entry, const ops::NodeView& view, const DeviceProperties& device);

// Whether the entry allows the kernel to write the output over the input, by in_place_inputs or in_place_pair.
bool may_write_over(const KernelEntry& entry, const ir::Node& node, std::size_t output, std::size_t input);

// A device: its name, kernels, memory and streams. Lives until the process ends.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // The hardware and the sizes of its parts (device_properties.h). Whoever decides by the hardware asks for these, and
  // never for the name.
  virtual const DeviceProperties& properties() const;
  // The kernels of one operator in order of preference; the planner takes the first that accepts the node.
  virtual std::span<const KernelEntry* const> kernels_for(std::string_view op) const = 0;
  // Whether kernels compute and touch memory. The null device only plans: it neither allocates nor computes.
  virtual bool computes() const { return true; }
  // Whether the device computes float16 and bfloat16 natively; if not, passes convert such arithmetic to float32.
  virtual bool supports_float16() const { return true; }
  // Whether a kernel gives its cores up to a run of a higher class while it computes, as pool threads do between two
  // chunks; if not, a run gives way only between two steps.
  virtual bool preempts() const { return false; }
  // Whether its kernels replace denormal results by zeros (ADR 0012).
  virtual bool flushes_denormals() const { return false; }
  // Creates the kernel of `entry`, one of kernels_for(), for a node that the entry does not reject; `weights` outlives
  // it. A device may override this to wrap kernels of another device.
  virtual KernelPointer make_kernel(const KernelEntry& entry, const ops::NodeView& view, WeightStore& weights) const;

  // Whether kernels run synchronously, on the calling thread and on host memory. The members below are for devices that
  // are not hosts: a host must not be asked for a stream, an event or device memory.
  virtual bool is_host() const { return true; }
  virtual std::unique_ptr<Stream> make_stream() const;
  virtual std::unique_ptr<Event> make_event() const;
  virtual DeviceMemory& memory() const;
  // Whether the device's streams can record work (Stream::begin_capture).
  virtual bool can_capture() const { return false; }
  // The host device that runs what this device cannot: strings, sizes that depend on data, missing operators. A host
  // returns itself.
  virtual const Device& host_fallback() const { return *this; }
  // The expected seconds of copying `bytes` bytes between host and device.
  virtual double copy_seconds(std::int64_t) const { return 0; }
  // Counts of the work done since the process began (device_activity.h); zeros for a device that does not count.
  virtual DeviceActivity activity() const;
};

// Groups the entries of tables by operator, keeping their order. Devices use it to answer kernels_for().
class KernelIndex {
 public:
  explicit KernelIndex(std::span<const KernelEntry> table);
  // Earlier tables are preferred. `stand_ins` is the table of another device, whose entries are copied with is_stand_in
  // set and come last.
  explicit KernelIndex(std::span<const std::span<const KernelEntry>> tables,
                       std::span<const KernelEntry> stand_ins = {});
  KernelIndex(const KernelIndex&) = delete;
  KernelIndex& operator=(const KernelIndex&) = delete;
  std::span<const KernelEntry* const> find(std::string_view op) const;

 private:
  void add(std::span<const KernelEntry> table);
  std::map<std::string_view, std::vector<const KernelEntry*>> by_op_;
  std::vector<KernelEntry> stand_ins_;  // never grows, so that pointers to entries stay valid
};

// Creates a kernel that calls the entry's function, or the kernel that the entry's `create` or `create_on` returns.
KernelPointer make_kernel(const KernelEntry& entry, const ops::NodeView& view, WeightStore& weights,
                          const DeviceProperties& device);

}  // namespace tessera::backends
