#include "ops/convolutions/conv_chain.h"

#include <algorithm>
#include <span>

#include "ops/convolutions/channels_last.h"
#include "ops/convolutions/window_geometry.h"
#include "ops/core/builder.h"
#include "ops/core/product.h"
#include "ops/element_wise/fused_activation.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::ValueId;
constexpr std::size_t kWindowNumbers = 9;  // strides, pads, dilations and group

// Checks the attributes: the number of entries of each.
void check_conv_chain_attributes(const InferContext& context) {
  const std::size_t stages = context.texts("activations").size();
  context.check(stages > 0 && stages <= kMostConvStages, "has {} stages, expected 1 to {}", stages, kMostConvStages);
  const std::size_t operands = context.integers("operands").size(), windows = context.integers("windows").size(),
                    parameters = context.reals("parameters").size();
  context.check(operands == ConvStage::kOperands * stages, "{} operands for {} stages, expected {} for each", operands,
                stages, ConvStage::kOperands);
  context.check(windows == kWindowNumbers * stages, "{} numbers of windows for {} stages, expected {} for each",
                windows, stages, kWindowNumbers);
  context.check(parameters == 2 * stages, "{} parameters for {} stages, expected two for each", parameters, stages);
  const auto check_optional = [&](std::string_view name, std::size_t count) {
    context.check(count == stages, "{} {} for {} stages, expected one for each or none", count, name, stages);
  };
  if (context.has_attribute("precisions")) check_optional("precisions", context.texts("precisions").size());
  if (context.has_attribute("output_dtypes")) check_optional("output_dtypes", context.integers("output_dtypes").size());
}

void check_conv_chain_operands(const InferContext& context, const std::vector<ConvStage>& stages) {
  const auto inputs = static_cast<std::int64_t>(context.input_count());
  std::vector<bool> used(static_cast<std::size_t>(inputs) + stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const std::int64_t values = inputs + static_cast<std::int64_t>(i);
    for (std::size_t k = 0; k < ConvStage::kOperands; ++k) {
      const std::int64_t operand = stages[i].operands[k], end = k == 1 || k == 2 ? inputs : values;
      context.check(operand >= (k < 2 ? 0 : -1) && operand < end,
                    "stage {} takes value {} as operand {}, expected an earlier one", i, operand, k);
      if (operand >= 0) used[static_cast<std::size_t>(operand)] = true;
    }
  }
  used.back() = true;
  context.check(std::ranges::all_of(used, [](bool value) { return value; }), "a value of the chain is not used");
}

ir::Node node_of(const ConvStage& stage) {
  ir::Node node{std::string(channels_last_conv.name), "", {}, {}, {}, 0};
  for (const std::int64_t operand : stage.operands) node.inputs.push_back({static_cast<std::int32_t>(operand)});
  const auto list = [](const auto& values) { return std::vector<std::int64_t>(values.begin(), values.end()); };
  node.attributes = {{"strides", list(stage.strides)},
                     {"pads", list(stage.pads)},
                     {"dilations", list(stage.dilations)},
                     {"group", stage.group}};
  if (!stage.precision.empty()) node.attributes.emplace("precision", stage.precision);
  if (stage.output_dtype != 0) node.attributes.emplace("output_dtype", stage.output_dtype);
  if (stage.activation.empty()) return node;
  node.attributes.emplace("activation", stage.activation);
  const std::size_t count = activation_parameters(stage.activation).size();
  if (count > 0)
    node.attributes.emplace(
        "activation_params",
        std::vector<float>(stage.parameters.begin(), stage.parameters.begin() + static_cast<std::ptrdiff_t>(count)));
  return node;
}

// Adds the convolutions to a graph that has the node's inputs as `values`; returns the last result.
ValueId add_stages(GraphBuilder& builder, const std::vector<ConvStage>& stages, std::vector<ValueId> values) {
  for (const ConvStage& stage : stages) {
    ir::Node node = node_of(stage);
    for (ValueId& input : node.inputs)
      input = input.valid() ? values[static_cast<std::size_t>(input.index)] : ValueId();
    while (!node.inputs.back().valid()) node.inputs.pop_back();
    values.push_back(builder.add(std::move(node.op), std::move(node.inputs), std::move(node.attributes)));
  }
  return values.back();
}

void infer_conv_chain(InferContext& context) {
  check_conv_chain_attributes(context);
  const std::vector<ConvStage> stages = conv_stages(context);
  check_conv_chain_operands(context, stages);
  ir::Graph graph;
  GraphBuilder builder(graph);
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < context.input_count(); ++i) values.push_back(graph.add_input("", context.input(i)));
  for (const ConvStage& stage : stages) {
    const auto data = static_cast<std::size_t>(stage.operands[0]);
    const ir::Dims* dims = data < values.size() ? context.dims(data) : nullptr;
    if (dims != nullptr) context.check(dims->size() == 4, "data has rank {}, expected [N, H, W, C]", dims->size());
  }
  context.set_output(0, builder.type(add_stages(builder, stages, std::move(values))));
}

std::optional<std::vector<ValueId>> decompose_conv_chain(GraphBuilder& builder, const AttributeReader& reader,
                                                         std::span<const ValueId> inputs) {
  return std::vector{add_stages(builder, conv_stages(reader), {inputs.begin(), inputs.end()})};
}

double conv_chain_operations(const NodeView& view) {
  const ConvStageViews stages(view);
  double sum = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) sum += channels_last_conv.operations(stages.view(i));
  return sum;
}

}  // namespace

std::vector<ConvStage> conv_stages(const AttributeReader& reader) {
  const std::vector<std::string>& activations = reader.texts("activations");
  const std::vector<float>& parameters = reader.reals("parameters");
  const std::vector<std::string>* precisions =
      reader.has_attribute("precisions") ? &reader.texts("precisions") : nullptr;
  const std::vector<std::int64_t>* output_dtypes =
      reader.has_attribute("output_dtypes") ? &reader.integers("output_dtypes") : nullptr;
  auto operand = reader.integers("operands").begin(), number = reader.integers("windows").begin();
  std::vector<ConvStage> stages;
  for (std::size_t i = 0; i < activations.size(); ++i) {
    ConvStage stage{.activation = activations[i], .parameters = {parameters[2 * i], parameters[2 * i + 1]}};
    for (std::int64_t& each : stage.operands) each = *operand++;
    for (std::int64_t& each : stage.strides) each = *number++;
    for (std::int64_t& each : stage.pads) each = *number++;
    for (std::int64_t& each : stage.dilations) each = *number++;
    stage.group = *number++;
    if (precisions != nullptr) stage.precision = (*precisions)[i];
    if (output_dtypes != nullptr) stage.output_dtype = (*output_dtypes)[i];
    stages.push_back(std::move(stage));
  }
  return stages;
}

ir::Attributes conv_chain_attributes(const std::vector<ConvStage>& stages) {
  std::vector<std::int64_t> operands, windows, output_dtypes;
  std::vector<std::string> activations, precisions;
  std::vector<float> parameters;
  for (const ConvStage& stage : stages) {
    operands.insert(operands.end(), stage.operands.begin(), stage.operands.end());
    windows.insert(windows.end(), stage.strides.begin(), stage.strides.end());
    windows.insert(windows.end(), stage.pads.begin(), stage.pads.end());
    windows.insert(windows.end(), stage.dilations.begin(), stage.dilations.end());
    windows.push_back(stage.group);
    activations.push_back(stage.activation);
    parameters.insert(parameters.end(), stage.parameters.begin(), stage.parameters.end());
    precisions.push_back(stage.precision);
    output_dtypes.push_back(stage.output_dtype);
  }
  ir::Attributes attributes{{"operands", std::move(operands)},
                            {"windows", std::move(windows)},
                            {"activations", std::move(activations)},
                            {"parameters", std::move(parameters)}};
  if (std::ranges::all_of(stages,
                          [](const ConvStage& stage) { return stage.precision.empty() && stage.output_dtype == 0; }))
    return attributes;
  attributes.emplace("precisions", std::move(precisions));
  attributes.emplace("output_dtypes", std::move(output_dtypes));
  return attributes;
}

ConvStage conv_stage_of(const ir::Graph& graph, const ir::Node& node) {
  const AttributeReader reader(node, channels_last_conv);
  const auto shape = [&](std::size_t i) { return *graph.value(node.inputs[i]).type.shape(); };
  const std::vector<WindowAxis> axes = convolution_geometry(reader, channels_first(shape(0)), shape(1));
  ConvStage stage{.group = reader.integer("group")};
  for (std::size_t i = 0; i < 2; ++i) {
    stage.strides[i] = axes[i].stride;
    stage.dilations[i] = axes[i].dilation;
    stage.pads[i] = axes[i].pad_begin;
    stage.pads[i + 2] = axes[i].pad_end;
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    stage.operands[i] = node.inputs[i].valid() ? static_cast<std::int64_t>(i) : -1;
  if (reader.has_attribute("precision")) stage.precision = reader.text("precision");
  if (reader.has_attribute("output_dtype")) stage.output_dtype = reader.integer("output_dtype");
  if (!reader.has_attribute("activation")) return stage;
  stage.activation = reader.text("activation");
  std::ranges::copy(activation_params(reader), stage.parameters.begin());
  return stage;
}

ConvStageViews::ConvStageViews(const NodeView& chain) : stages_(conv_stages(chain)) {
  const std::size_t inputs = chain.input_count();
  for (const ConvStage& stage : stages_) {
    Part part{.node = node_of(stage)};
    for (std::size_t k = 0; k < ConvStage::kOperands; ++k) {
      const auto operand = static_cast<std::size_t>(stage.operands[k]);
      if (stage.operands[k] < 0) continue;
      part.inputs[k] = operand < inputs ? chain.input(operand) : parts_[operand - inputs].result;
      part.constants[k] = operand < inputs ? chain.constant(operand) : nullptr;
    }
    const Shape &x = part.inputs[0].shape, &w = part.inputs[1].shape;
    const std::vector<WindowAxis> axes =
        convolution_geometry(AttributeReader(part.node, channels_last_conv), channels_first(x), w);
    part.result = {stage.output_dtype != 0 ? static_cast<DType>(stage.output_dtype) : part.inputs[1].dtype,
                   {x[0], axes[0].output, axes[1].output, w[0]}};
    parts_.push_back(std::move(part));
  }
}

NodeView ConvStageViews::view(std::size_t i) const {
  const Part& part = parts_[i];
  return {part.node, channels_last_conv, part.inputs, std::span(&part.result, 1), part.constants};
}

// The stages of ops/convolutions/conv_chain.h, each Y = activation(Conv(X, W, B) + Z), in sequence. Without precisions
// and output_dtypes no stage rounds.
const OpDef conv_chain{
    .name = "tessera::ConvChain",
    .product = several_products,
    .inputs = {{"X", {DType::f32, DType::bf16}, "", variadic}},
    .outputs = {{"Y", {DType::f32, DType::bf16}, ""}},
    .attributes = {{"operands", AttributeKind::integers, std::nullopt, true},
                   {"windows", AttributeKind::integers, std::nullopt, true},
                   {"activations", AttributeKind::texts, std::nullopt, true},
                   {"parameters", AttributeKind::reals, std::nullopt, true},
                   {"precisions", AttributeKind::texts},
                   {"output_dtypes", AttributeKind::integers}},
    .infer = infer_conv_chain,
    .operations = conv_chain_operations,
    .decompose = decompose_conv_chain,
};

}  // namespace tessera::ops
