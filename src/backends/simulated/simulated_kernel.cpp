#include "backends/simulated/simulated_kernel.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "backends/simulated/kernel_time.h"
#include "backends/simulated/simulated_stream.h"
#include "backends/transient_memory.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/numbers/float_state.h"

namespace tessera::backends::simulated {
namespace {

// Gives packed weights, which lie in the device's memory, at addresses that the device's threads can read.
class QueueAddresses final : public WeightStore {
 public:
  QueueAddresses(SimulatedMachine& machine, WeightStore& device) : machine_(machine), device_(device) {}
  std::shared_ptr<const PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing, std::int64_t bytes,
                                                    const PackFunction& pack) override {
    const std::shared_ptr<const PackedWeights> packed = device_.find_or_pack(weights, packing, bytes, pack);
    require(packed->bytes == 0 || machine_.memory().contains(packed->data.get()), ErrorKind::failed,
            "weights packed as '{}' for a kernel of device '{}' do not lie in its memory", packing, machine_.name());
    const std::byte* const data = machine_.queue_address(packed->data.get());
    return std::make_shared<const PackedWeights>(
        PackedWeights{std::shared_ptr<const std::byte[]>(packed, data), packed->bytes});
  }

 private:
  SimulatedMachine& machine_;
  WeightStore& device_;
};

// The part of a wrapped kernel that its launches need; it lives as long as any launch is in a queue.
struct Wrapped {
  SimulatedMachine& machine;
  bool flushes_denormals;
  ir::Node node;
  const ops::OpDef& op;
  KernelPointer kernel;
};

Value value_on_queue(SimulatedMachine& machine, const Tensor& tensor) {
  // Deferred tensors are computed on the host and never passed to a device.
  void* const address = const_cast<void*>(machine.queue_address(tensor.raw()));
  return Tensor(tensor.dtype(), tensor.shape(), address, nullptr);
}

// The memory that a launch uses. Throws Error(failed) where an operand's address is no multiple of its element size:
// "Global memory instructions support reading or writing words of size equal to 1, 2, 4, 8, or 16 bytes. [...] the data
// is naturally aligned (i.e., its address is a multiple of that size)."
std::vector<MemoryAccess> accesses_of(KernelContext& context, std::int64_t scratch_bytes) {
  std::vector<MemoryAccess> accesses;
  const auto add = [&](const Tensor& tensor, std::string_view role, std::size_t index, bool writes) {
    if (tensor.raw() == nullptr || tensor.bytes() == 0) return;
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.raw());
    require(address % static_cast<std::uintptr_t>(std::max(1, bits_of(tensor.dtype()) / 8)) == 0, ErrorKind::failed,
            "{} {} of '{}' does not begin at a multiple of the size of its elements, {}", role, index,
            context.op().name, name_of(tensor.dtype()));
    accesses.push_back({tensor.raw(), tensor.bytes(), writes});
  };
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (context.has_input(i)) add(context.input(i), "input", i, false);
  }
  for (std::size_t i = 0; i < context.output_count(); ++i) {
    if (context.wants_output(i)) add(context.output(i), "output", i, true);
  }
  if (scratch_bytes > 0) {
    require(reinterpret_cast<std::uintptr_t>(context.scratch()) % 64 == 0, ErrorKind::failed,
            "the scratch memory of '{}' is not aligned to 64 bytes", context.op().name);
    accesses.push_back({context.scratch(), scratch_bytes, true});
  }
  if (const std::uint64_t* const cell = context.resources().seed_cell)
    accesses.push_back({cell, static_cast<std::int64_t>(sizeof(*cell)), false});
  return accesses;
}

// One launch: the operands at the addresses that the stream's thread uses.
class Launch {
 public:
  Launch(std::shared_ptr<const Wrapped> wrapped, KernelContext& context)
      : wrapped_(std::move(wrapped)),
        scratch_(wrapped_->machine.queue_address(context.scratch())),
        seed_(context.resources().seed),
        seed_cell_(wrapped_->machine.queue_address(context.resources().seed_cell)) {
    for (std::size_t i = 0; i < context.input_count(); ++i)
      inputs_.push_back(context.has_input(i) ? std::optional(value_on_queue(wrapped_->machine, context.input(i)))
                                             : std::nullopt);
    for (std::size_t i = 0; i < context.output_count(); ++i) {
      types_.push_back(context.output_type(i));
      outputs_.push_back(context.wants_output(i) ? value_on_queue(wrapped_->machine, context.output(i)) : Value());
    }
  }

  void run() const {
    const base::FlushedDenormals flushed(wrapped_->flushes_denormals);
    std::vector<const Value*> inputs;
    for (const std::optional<Value>& input : inputs_) inputs.push_back(input ? &*input : nullptr);
    std::vector<Value> outputs = outputs_;
    ExecutionResources resources;
    resources.seed = seed_cell_ != nullptr ? *seed_cell_ : seed_;
    KernelContext context(wrapped_->node, wrapped_->op, inputs, outputs, types_, resources);
    context.set_scratch(scratch_);
    try {
      run_kernel(*wrapped_->kernel, context);
      for (std::size_t i = 0; i < outputs.size(); ++i) keep_in_place(i, outputs[i]);
    } catch (Error& error) {
      throw error.add_context(ir::describe(wrapped_->node));
    } catch (const std::bad_alloc&) {
      throw Error(ErrorKind::over_budget, "the system has no more memory").add_context(ir::describe(wrapped_->node));
    }
  }

 private:
  // A host kernel may return a tensor of its own, or an input, as its output; the device needs the bytes at the planned
  // address.
  void keep_in_place(std::size_t i, const Value& made) const {
    const Value& planned = outputs_[i];
    if (!planned.is_tensor()) return;
    const bool agrees = made.is_tensor() && made.tensor().dtype() == planned.tensor().dtype() &&
                        made.tensor().shape() == planned.tensor().shape();
    require(agrees, ErrorKind::failed, "output {} is not of the type and shape that were planned: {}{}", i,
            name_of(planned.tensor().dtype()), to_string(planned.tensor().shape()));
    if (made.tensor().raw() == planned.tensor().raw() || made.tensor().bytes() == 0) return;
    std::memmove(const_cast<void*>(planned.tensor().raw()), made.tensor().raw(),
                 static_cast<std::size_t>(made.tensor().bytes()));
  }

  const std::shared_ptr<const Wrapped> wrapped_;
  std::byte* const scratch_;
  const std::uint64_t seed_;
  const std::uint64_t* const seed_cell_;
  std::vector<std::optional<Value>> inputs_;  // no value: an absent operand
  std::vector<Value> outputs_;
  std::vector<ir::ValueType> types_;
};

class SimulatedKernel final : public Kernel {
 public:
  SimulatedKernel(std::shared_ptr<const Wrapped> wrapped, std::int64_t compute_ns)
      : wrapped_(std::move(wrapped)), compute_ns_(compute_ns) {}
  std::int64_t scratch_bytes() const override {
    return wrapped_->kernel != nullptr ? wrapped_->kernel->scratch_bytes() : 0;
  }
  void run(KernelContext& context) const override {
    require(context.stream() != nullptr, ErrorKind::unsupported,
            "device '{}' computes on streams alone, and this call has none", wrapped_->machine.name());
    SimulatedStream& stream = stream_of(wrapped_->machine, *context.stream());
    const std::string_view name = wrapped_->op.name;
    if (wrapped_->kernel == nullptr) {
      stream.launch(name, compute_ns_, accesses_of(context, 0), [] {});
      return;
    }
    const auto launch = std::make_shared<const Launch>(wrapped_, context);
    stream.launch(name, compute_ns_, accesses_of(context, scratch_bytes()), [launch] { launch->run(); });
  }

 private:
  const std::shared_ptr<const Wrapped> wrapped_;
  const std::int64_t compute_ns_;
};

}  // namespace

KernelPointer make_simulated_kernel(SimulatedMachine& machine, const Device& computes_by, const KernelEntry& entry,
                                    const ops::NodeView& view, WeightStore& weights) {
  KernelPointer kernel;
  if (machine.options().compute != Compute::none) {
    QueueAddresses addresses(machine, weights);
    kernel = computes_by.make_kernel(entry, view, addresses);
  }
  return std::make_unique<SimulatedKernel>(
      std::make_shared<const Wrapped>(
          Wrapped{machine, computes_by.flushes_denormals(), view.node(), view.op(), std::move(kernel)}),
      kernel_time_ns(view, machine.options().profile));
}

}  // namespace tessera::backends::simulated
