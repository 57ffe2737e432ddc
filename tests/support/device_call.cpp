#include "support/device_call.h"

#include <cstring>
#include <memory>
#include <optional>

#include "backends/device_weights.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "plan/choose_kernel.h"
#include "runtime/memory/weight_store.h"

namespace tessera::test {
struct DeviceCall::State {
  const backends::Device& device;
  std::vector<Value> given;  // on the host
  ir::Graph graph;
  ir::Node node;
  std::vector<ir::ValueType> types;
  std::vector<ops::TensorType> input_types, output_types;
  std::vector<const Tensor*> constants;
  std::optional<ops::NodeView> view;
  runtime::PackAtOnce packs;
  backends::DeviceWeights weights;
  std::unique_ptr<backends::Kernel> kernel;
  std::vector<Value> inputs, outputs;  // on the device
  std::byte* scratch = nullptr;
  std::int64_t misplaced_bytes = 0;

  explicit State(const backends::Device& on) : device(on), weights(on, packs) {}

  // A tensor in pinned host memory, so that copies from and to it are asynchronous.
  Tensor pinned(DType dtype, const Shape& shape, std::int64_t bytes) const {
    backends::DeviceMemory& memory = device.memory();
    std::shared_ptr<void> block(memory.allocate_host(bytes), [&memory](void* address) { memory.free_host(address); });
    void* const address = block.get();
    return Tensor(dtype, shape, address, std::move(block));
  }

  Value allocate(const ops::TensorType& type) const {
    auto* const block = static_cast<std::byte*>(device.memory().allocate(type.bytes() + misplaced_bytes));
    return Tensor(type.dtype, type.shape, block + misplaced_bytes, nullptr);
  }
};

DeviceCall::DeviceCall(const backends::Device& device, const OpCall& call, const std::vector<bool>& constants,
                       std::int64_t misplaced_bytes)
    : state_(std::make_unique<State>(device)) {
  State& state = *state_;
  state.misplaced_bytes = misplaced_bytes;
  for (const Value& input : call.inputs) {
    if (!input.has_value()) {
      state.given.emplace_back();
      continue;
    }
    const Tensor& tensor = input.tensor();
    Tensor copy = state.pinned(tensor.dtype(), tensor.shape(), tensor.bytes());
    if (tensor.bytes() > 0) std::memcpy(copy.mutable_raw(), tensor.raw(), static_cast<std::size_t>(tensor.bytes()));
    state.given.emplace_back(std::move(copy));
  }
  state.node = {call.op, "under_test", {}, {}, call.attributes, 0};
  std::vector<const Tensor*> known;
  for (std::size_t i = 0; i < state.given.size(); ++i) {
    const Tensor* tensor = state.given[i].has_value() ? &state.given[i].tensor() : nullptr;
    state.constants.push_back(i < constants.size() && constants[i] ? tensor : nullptr);
    state.input_types.push_back(tensor != nullptr ? ops::TensorType{tensor->dtype(), tensor->shape()}
                                                  : ops::TensorType{});
    state.node.inputs.push_back(tensor != nullptr
                                    ? state.graph.add_input("", ir::ValueType::tensor(tensor->dtype(), tensor->shape()))
                                    : ir::ValueId{});
    if (tensor != nullptr) known.push_back(tensor);
  }
  for (std::size_t i = 0; i < call.outputs; ++i) state.node.outputs.push_back(state.graph.add_value(""));
  state.types = ops::infer_node(state.graph, state.node, [&](ir::ValueId id) {
    const auto i = static_cast<std::size_t>(id.index);
    return i < known.size() ? known[i] : nullptr;
  });
  for (const ir::ValueType& type : state.types) state.output_types.push_back(concrete(type));
  state.view.emplace(state.node, ops::op_of(state.node), state.input_types, state.output_types, state.constants);
  state.kernel = device.make_kernel(*plan::choose_kernel(device, *state.view).entry, *state.view, state.weights);
  for (const ops::TensorType& type : state.input_types)
    state.inputs.push_back(type.dtype != DType::undefined ? state.allocate(type) : Value());
  for (const ops::TensorType& type : state.output_types) state.outputs.push_back(state.allocate(type));
  if (const std::int64_t bytes = state.kernel->scratch_bytes(); bytes > 0)
    state.scratch = static_cast<std::byte*>(device.memory().allocate(bytes));
}

DeviceCall::~DeviceCall() {
  backends::DeviceMemory& memory = state_->device.memory();
  for (const std::vector<Value>* values : {&state_->inputs, &state_->outputs}) {
    for (const Value& value : *values) {
      if (!value.has_value()) continue;
      const auto* const first = static_cast<const std::byte*>(value.tensor().raw()) - state_->misplaced_bytes;
      memory.free(const_cast<std::byte*>(first));
    }
  }
  if (state_->scratch != nullptr) memory.free(state_->scratch);
}

void DeviceCall::copy_inputs(backends::Stream& stream) const {
  for (std::size_t i = 0; i < state_->inputs.size(); ++i) {
    if (!state_->inputs[i].has_value()) continue;
    Tensor& to = state_->inputs[i].tensor();
    stream.copy_to_device(to.mutable_raw(), state_->given[i].tensor().raw(), to.bytes());
  }
}

void DeviceCall::run(backends::Stream* stream, backends::ExecutionResources resources) const {
  State& state = *state_;
  std::vector<const Value*> operands;
  for (const Value& input : state.inputs) operands.push_back(input.has_value() ? &input : nullptr);
  std::vector<Value> outputs = state.outputs;
  resources.stream = stream;
  backends::KernelContext context(state.node, state.view->op(), operands, outputs, state.types, resources);
  context.set_scratch(state.scratch);
  state.kernel->run(context);
}

std::vector<Tensor> DeviceCall::copy_outputs(backends::Stream& stream) const {
  std::vector<Tensor> results;
  for (const Value& output : state_->outputs) {
    const Tensor& from = output.tensor();
    Tensor result = state_->pinned(from.dtype(), from.shape(), from.bytes());
    stream.copy_to_host(result.mutable_raw(), output.tensor().raw(), result.bytes());
    results.push_back(std::move(result));
  }
  return results;
}

const ops::NodeView& DeviceCall::view() const {
  return *state_->view;
}

Tensor run_on_device(const backends::Device& device, const OpCall& call, const std::vector<bool>& constants) {
  const DeviceCall prepared(device, call, constants);
  const std::unique_ptr<backends::Stream> stream = device.make_stream();
  prepared.copy_inputs(*stream);
  prepared.enqueue(*stream);
  std::vector<Tensor> results = prepared.copy_outputs(*stream);
  stream->synchronise();
  return results.at(0);
}

Tensor run_captured(const backends::Device& device, const OpCall& call, const std::vector<bool>& constants) {
  const DeviceCall prepared(device, call, constants);
  const std::unique_ptr<backends::Stream> stream = device.make_stream();
  prepared.copy_inputs(*stream);
  stream->begin_capture();
  prepared.enqueue(*stream);
  const std::unique_ptr<backends::Recording> recording = stream->end_capture();
  for (int replay = 0; replay < 2; ++replay) recording->replay(*stream);
  std::vector<Tensor> results = prepared.copy_outputs(*stream);
  stream->synchronise();
  return results.at(0);
}

}  // namespace tessera::test
