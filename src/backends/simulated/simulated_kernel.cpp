#include "backends/simulated/simulated_kernel.h"

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

// Copies packed weights to the device's memory, at addresses that the device's threads can read.
class UploadingStore final : public WeightStore {
 public:
  UploadingStore(SimulatedMachine& machine, DeviceCopies& copies, WeightStore& host)
      : machine_(machine), copies_(copies), host_(host) {}
  std::shared_ptr<const PackedWeights> find_or_pack(const Tensor& weights, std::string_view packing, std::int64_t bytes,
                                                    const PackFunction& pack) override {
    const std::shared_ptr<const PackedWeights> packed = host_.find_or_pack(weights, packing, bytes, pack);
    // A holder of the copy holds the packing too, so that the next plan finds both.
    const auto copy = std::make_shared<std::pair<std::shared_ptr<const PackedWeights>, std::shared_ptr<void>>>(
        packed, copies_.find_or_copy(*packed));
    const auto* data = static_cast<const std::byte*>(machine_.queue_address(copy->second.get()));
    return std::make_shared<const PackedWeights>(
        PackedWeights{std::shared_ptr<const std::byte[]>(copy, data), packed->bytes});
  }

 private:
  SimulatedMachine& machine_;
  DeviceCopies& copies_;
  WeightStore& host_;
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
      stream.launch(name, compute_ns_, [] {});
      return;
    }
    const auto launch = std::make_shared<const Launch>(wrapped_, context);
    stream.launch(name, compute_ns_, [launch] { launch->run(); });
  }

 private:
  const std::shared_ptr<const Wrapped> wrapped_;
  const std::int64_t compute_ns_;
};

}  // namespace

KernelPointer make_simulated_kernel(SimulatedMachine& machine, DeviceCopies& copies, const Device& computes_by,
                                    const KernelEntry& entry, const ops::NodeView& view, WeightStore& weights) {
  KernelPointer kernel;
  if (machine.options().compute != Compute::none) {
    UploadingStore uploading(machine, copies, weights);
    kernel = computes_by.make_kernel(entry, view, uploading);
  }
  return std::make_unique<SimulatedKernel>(
      std::make_shared<const Wrapped>(
          Wrapped{machine, computes_by.flushes_denormals(), view.node(), view.op(), std::move(kernel)}),
      kernel_time_ns(view, machine.options().profile));
}

}  // namespace tessera::backends::simulated
