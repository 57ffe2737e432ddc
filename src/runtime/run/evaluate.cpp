#include "runtime/run/evaluate.h"

#include <algorithm>
#include <functional>

#include "backends/transient_memory.h"
#include "base/error.h"
#include "base/no_memory.h"
#include "ops/core/builder.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "plan/choose_kernel.h"
#include "runtime/memory/weight_store.h"
#include "runtime/run/late_kernels.h"

namespace tessera::runtime {
namespace {

ops::TensorType concrete(const ir::ValueType& type) {
  const std::optional<Shape> shape = type.is_tensor() ? type.shape() : std::nullopt;
  return shape ? ops::TensorType{type.dtype, *shape} : ops::TensorType{};
}

// Runs the nodes of the graph in order; `values`, one a value of the graph, holds those that are known.
void evaluate_nodes(const backends::Device& device, const ir::Graph& graph, std::vector<Value>& values,
                    const backends::ExecutionResources& resources) {
  const auto value_of = [&values](ir::ValueId id) -> Value& { return values[static_cast<std::size_t>(id.index)]; };
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    std::vector<Value> operands;
    for (const ir::ValueId input : node.inputs) operands.push_back(input.valid() ? value_of(input) : Value());
    std::vector<Value> made = evaluate_node(device, node, operands, resources);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (node.outputs[i].valid()) value_of(node.outputs[i]) = std::move(made[i]);
    }
  }
}

// A composite runs as the nodes it decomposes into, one by one.
std::vector<Value> evaluate_composite(const backends::Device& device, const ir::Node& node, const ops::OpDef& op,
                                      std::span<const Value> inputs, const backends::ExecutionResources& resources) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  ir::Node local = node;
  for (std::size_t i = 0; i < local.inputs.size(); ++i) {
    const bool present = local.inputs[i].valid() && i < inputs.size() && inputs[i].has_value();
    require(!present || inputs[i].is_tensor(), ErrorKind::unsupported, "{} of what is not a tensor needs an executor",
            node.op);
    local.inputs[i] = present ? graph.add_constant(inputs[i].tensor()) : ir::ValueId{};
  }
  ops::infer_node(graph, local, [&graph](ir::ValueId id) { return graph.constant(id); });
  try {
    const auto results = op.decompose(builder, ops::AttributeReader(local, op), local.inputs);
    require(results.has_value(), ErrorKind::unsupported, "{} cannot be decomposed", node.op);
    std::vector<Value> values(graph.value_count());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (const Tensor* constant = graph.constant(ir::ValueId{static_cast<std::int32_t>(i)})) values[i] = *constant;
    }
    evaluate_nodes(device, graph, values, resources);
    std::vector<Value> outputs(node.outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i].valid()) outputs[i] = values[static_cast<std::size_t>((*results)[i].index)];
    }
    return outputs;
  } catch (Error& error) {
    error.add_context(ir::describe(node));
    throw;
  }
}

// Returns the outputs that a kernel of the device computes for the node. Nobody asked for outputs from `asked` on.
std::vector<Value> run_kernel_for(const backends::Device& device, const ops::NodeView& view,
                                  std::span<const Value* const> operands, std::span<const ir::ValueType> types,
                                  std::size_t asked, const backends::ExecutionResources& resources,
                                  const std::function<std::shared_ptr<const backends::Kernel>()>& find_kernel) {
  std::vector<Value> outputs(view.node().outputs.size());
  // Where there is nothing to compute, a loop over the other dimensions might take forever.
  bool gives_nothing = true;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (view.wants_output(i) && view.output(i).dtype != DType::undefined)
      outputs[i] = resources.allocate(view.output(i).dtype, view.output(i).shape);
    const bool is_empty = outputs[i].is_tensor() && outputs[i].tensor().elements() == 0;
    gives_nothing = gives_nothing && (i >= asked || !view.wants_output(i) || is_empty);
  }
  if (gives_nothing) return outputs;
  std::shared_ptr<const backends::Kernel> kernel = find_kernel();
  PackAtOnce weights;
  if (kernel == nullptr) kernel = device.make_kernel(*plan::choose_kernel(device, view).entry, view, weights);
  const Tensor scratch = resources.allocate(DType::u8, {kernel->scratch_bytes()});
  backends::KernelContext context(view.node(), view.op(), operands, outputs, types, resources);
  context.set_scratch(static_cast<std::byte*>(const_cast<void*>(scratch.raw())));
  backends::run_kernel(*kernel, context);
  for (Value& output : outputs) {
    if (output.is_tensor()) output = resources.with_characters(std::move(output.tensor()));
  }
  return outputs;
}

// The same with what every call does around it: the node in errors, and outputs that it does not list left out.
std::vector<Value> run_node(const backends::Device& device, const ir::Node& node, const ops::NodeView& view,
                            std::span<const Value* const> operands, std::span<const ir::ValueType> types,
                            const backends::ExecutionResources& resources,
                            const std::function<std::shared_ptr<const backends::Kernel>()>& find_kernel) {
  try {
    std::vector<Value> outputs = base::with_memory_errors(
        [&] { return run_kernel_for(device, view, operands, types, node.outputs.size(), resources, find_kernel); });
    outputs.resize(node.outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!node.outputs[i].valid()) outputs[i] = {};
    }
    return outputs;
  } catch (Error& error) {
    error.add_context(ir::describe(node));
    throw;
  }
}

// A node whose kernel was made for such operands before: nothing is inferred again.
std::vector<Value> run_known(const backends::Device& device, const ir::Node& node, const ops::OpDef& op,
                             const std::shared_ptr<const LateKernel>& known, std::span<const Value> inputs,
                             const backends::ExecutionResources& resources) {
  std::vector<const Value*> operands;
  std::vector<const Tensor*> constants;
  for (std::size_t i = 0; i < known->node.inputs.size(); ++i) {
    const bool present = known->node.inputs[i].valid();
    operands.push_back(present ? &inputs[i] : nullptr);
    constants.push_back(present ? &inputs[i].tensor() : nullptr);
  }
  const ops::NodeView view(known->node, op, known->inputs, known->outputs, constants);
  return run_node(device, node, view, operands, known->types, resources,
                  [&] { return std::shared_ptr<const backends::Kernel>(known, known->kernel.get()); });
}

ir::ValueType type_of_operand(const Value& value, const ir::ValueType* planned) {
  const ir::ValueType type = type_of(value);
  const bool says_nothing = type.element != nullptr && value.has_value() && value.elements().empty();
  return says_nothing && planned != nullptr && planned->kind == type.kind ? *planned : type;
}

}  // namespace

ir::ValueType type_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::tensor:
      return ir::ValueType::tensor(value.tensor().dtype(), value.tensor().shape());
    case Value::Kind::sequence:
      return ir::ValueType::sequence(value.elements().empty() ? ir::ValueType{} : type_of(value.elements()[0]));
    case Value::Kind::map:
      return ir::ValueType::map(value.keys().dtype(),
                                value.elements().empty() ? ir::ValueType{} : type_of(value.elements()[0]));
    case Value::Kind::none:
      break;
  }
  return ir::ValueType::optional(ir::ValueType{});
}

std::vector<Value> evaluate_node(const backends::Device& device, const ir::Node& node, std::span<const Value> inputs,
                                 const backends::ExecutionResources& resources, std::span<const ir::ValueType> planned,
                                 LateKernels* kernels) {
  const ops::OpDef& op = ops::op_of(node);
  require(ir::subgraphs_of(node).empty(), ErrorKind::unsupported, "{} needs an executor", node.op);
  if (kernels != nullptr) {
    if (const auto known = kernels->find(node, inputs)) return run_known(device, node, op, known, inputs, resources);
  }
  // A graph of this one node, so that inference sees the actual inputs as constants.
  ir::Graph graph;
  ir::Node local = node;
  std::vector<const Value*> operands;
  std::vector<ops::TensorType> input_types, output_types;
  std::vector<const Tensor*> constants, constant_of;  // by input position, by value
  std::vector<std::size_t> position_of;               // by value
  // Whether the types follow from what kernels are kept by: operands' types, and the contents of some.
  bool follows = kernels != nullptr;
  for (std::size_t i = 0; i < local.inputs.size(); ++i) {
    const bool present = local.inputs[i].valid() && i < inputs.size();
    const ir::ValueType type =
        present ? type_of_operand(inputs[i], i < planned.size() ? &planned[i] : nullptr) : ir::ValueType{};
    local.inputs[i] = present ? graph.add_input("", type) : ir::ValueId{};
    operands.push_back(present ? &inputs[i] : nullptr);
    input_types.push_back(concrete(type));
    constants.push_back(present && inputs[i].is_tensor() ? &inputs[i].tensor() : nullptr);
    if (present) {
      constant_of.push_back(constants.back());
      position_of.push_back(i);
    }
    follows = follows && (!present || constants.back() != nullptr);
  }
  for (const std::size_t output : ops::missing_outputs(node, op)) {
    local.outputs.resize(std::max(local.outputs.size(), output + 1));
    local.outputs[output] = graph.add_value("");
  }
  const auto contents = [&](ir::ValueId id) {
    const auto value = static_cast<std::size_t>(id.index);
    const Tensor* tensor = constant_of[value];
    follows = follows && tensor != nullptr && kernels->is_relied_on(position_of[value], *tensor);
    return tensor;
  };
  const std::vector<ir::ValueType> types = ops::infer_node(graph, local, contents);
  for (const ir::ValueType& type : types) output_types.push_back(concrete(type));
  const ops::NodeView view(local, op, input_types, output_types, constants);
  if (op.decompose != nullptr && !plan::accepts(device, view))
    return evaluate_composite(device, node, op, inputs, resources);
  return run_node(device, node, view, operands, types, resources, [&] {
    return kernels != nullptr ? kernels->find_or_make(device, view, follows ? types : std::vector<ir::ValueType>{})
                              : nullptr;
  });
}

}  // namespace tessera::runtime
