#include "ops/quantised/q_linear.h"

#include "ops/convolutions/window_geometry.h"
#include "ops/core/builder.h"
#include "ops/core/signatures.h"
#include "ops/movement/concat.h"
#include "ops/pooling/pooling.h"
#include "ops/rows/reduction.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::ValueId;
using Values = std::vector<ValueId>;
using Inputs = std::span<const ValueId>;

// --- inference ---

void check_q_linear_single(const InferContext& context, std::size_t i) {
  if (!context.has_input(i) || context.dims(i) == nullptr) return;
  const ir::Dims& dims = *context.dims(i);
  const bool single = dims.empty() || (dims.size() == 1 && dims[0].may_equal(1));
  context.check(single, "input {} has shape {}, expected a scalar", i, to_string(dims));
}

// Checks that inputs `scale` and `scale` + 1, the scale and zero point of a tensor, are scalars.
void check_q_linear_quantisation(const InferContext& context, std::size_t scale) {
  check_q_linear_single(context, scale);
  check_q_linear_single(context, scale + 1);
}

// Numpy broadcasting of the inputs at these places; nothing while a rank is unknown.
std::optional<ir::Dims> broadcast_of(const InferContext& context, std::initializer_list<std::size_t> places) {
  ir::Dims result;
  for (const std::size_t i : places) {
    if (context.dims(i) == nullptr) return std::nullopt;
    result = broadcast_dims(context, result, *context.dims(i));
  }
  return result;
}

ir::ValueType tensor_of(DType dtype, std::optional<ir::Dims> dims) {
  ir::ValueType type = ir::ValueType::tensor(dtype);
  type.dims = std::move(dims);
  return type;
}

void infer_binary(InferContext& context) {
  for (const std::size_t scale : {1, 4, 6}) check_q_linear_quantisation(context, scale);
  context.set_output(0, tensor_of(context.dtype(0), broadcast_of(context, {0, 3})));
}

void check_unary(const InferContext& context) {
  for (const std::size_t scale : {1, 3}) check_q_linear_quantisation(context, scale);
}

void infer_unary(InferContext& context) {
  check_unary(context);
  infer_same_as_input(context);
}

void infer_softmax(InferContext& context) {
  context.check(context.integer("opset") >= 1, "opset is {}, expected at least 1", context.integer("opset"));
  if (const ir::Dims* dims = context.dims(0))
    normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims->size()));
  infer_unary(context);
}

void infer_average_pool(InferContext& context) {
  check_unary(context);
  context.set_output(0, tensor_of(context.dtype(0), pooled_dims(context)));
}

void infer_global_average_pool(InferContext& context) {
  check_unary(context);
  infer_global_pooling(context);
}

void infer_reduce_mean(InferContext& context) {
  check_unary(context);
  const ir::Dims* dims = context.dims(0);
  if (dims == nullptr) return context.set_output_unknown_rank(0, context.dtype(0));
  const auto axes = reduction_axes(context.integers("axes"), static_cast<std::int64_t>(dims->size()), false);
  context.set_output(0, context.dtype(0), reduced_dims(*dims, axes, context.integer("keepdims") != 0));
}

void infer_q_linear_where(InferContext& context) {
  for (const std::size_t scale : {2, 5, 7}) check_q_linear_quantisation(context, scale);
  context.set_output(0, tensor_of(context.dtype(1), broadcast_of(context, {0, 1, 4})));
}

void infer_q_linear_concat(InferContext& context) {
  const std::size_t count = context.input_count();
  context.check(count % 3 == 2, "has {} inputs, expected a scale, a zero point, and three a tensor", count);
  check_q_linear_quantisation(context, 0);
  const DType dtype = context.dtype(1);
  std::vector<ir::Dims> tensors;
  for (std::size_t i = 2; i < count; i += 3) {
    check_q_linear_quantisation(context, i + 1);
    const bool typed = context.has_input(i) && context.has_input(i + 1) && context.has_input(i + 2) &&
                       context.dtype(i) == dtype && context.dtype(i + 1) == DType::f32 && context.dtype(i + 2) == dtype;
    context.check(typed, "inputs {} to {} are not a tensor of {}, its scale of f32 and its zero point", i, i + 2,
                  name_of(dtype));
    if (context.dims(i) != nullptr) tensors.push_back(*context.dims(i));
  }
  if (tensors.empty()) return context.set_output_unknown_rank(0, dtype);
  const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(tensors[0].size()));
  ir::Dims result = concat_dims(tensors, axis);
  if (3 * tensors.size() + 2 != count) result[static_cast<std::size_t>(axis)] = ir::Dim();
  context.set_output(0, dtype, std::move(result));
}

// --- decomposition: dequantise, compute, quantise ---

ValueId input_at_q_linear(Inputs inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : ValueId{};
}

// The real numbers of the tensor at `i`, whose scale and zero point follow it.
ValueId dequantise(GraphBuilder& builder, Inputs inputs, std::size_t i) {
  Values operands{inputs[i], inputs[i + 1]};
  if (input_at_q_linear(inputs, i + 2).valid()) operands.push_back(inputs[i + 2]);
  return builder.add("DequantizeLinear", std::move(operands));
}

// With the scale at `scale` and the zero point behind it; an absent one is 0.
std::optional<Values> quantise(GraphBuilder& builder, ValueId real, Inputs inputs, std::size_t scale, DType dtype) {
  const ValueId zero = input_at_q_linear(inputs, scale + 1);
  return Values{builder.add("QuantizeLinear", {real, inputs[scale], zero.valid() ? zero : builder.scalar(0, dtype)})};
}

std::optional<Values> decompose_binary(GraphBuilder& builder, const AttributeReader& reader, Inputs inputs) {
  const std::string op = reader.op().name == q_linear_add.name ? "Add" : "Mul";
  const ValueId a = dequantise(builder, inputs, 0), b = dequantise(builder, inputs, 3);
  return quantise(builder, builder.add(op, {a, b}), inputs, 6, builder.dtype(inputs[0]));
}

// An operator with one tensor as input and output: computes on real numbers, or returns nothing while the shape is not
// known well enough.
using Real = std::optional<ValueId> (*)(GraphBuilder&, const AttributeReader&, ValueId x);
template <Real real>
std::optional<Values> decompose_unary(GraphBuilder& builder, const AttributeReader& reader, Inputs inputs) {
  const std::optional<ValueId> y = real(builder, reader, dequantise(builder, inputs, 0));
  return y ? quantise(builder, *y, inputs, 3, builder.dtype(inputs[0])) : std::nullopt;
}

std::optional<ValueId> real_sigmoid(GraphBuilder& builder, const AttributeReader&, ValueId x) {
  return builder.add("Sigmoid", {x});
}

std::optional<ValueId> real_leaky_relu(GraphBuilder& builder, const AttributeReader& reader, ValueId x) {
  return builder.add("LeakyRelu", {x}, {{"alpha", reader.real("alpha")}});
}

// Before opset 13, the axes from `axis` on count as one.
std::optional<ValueId> real_softmax(GraphBuilder& builder, const AttributeReader& reader, ValueId x) {
  const std::int64_t axis = reader.integer("axis");
  if (reader.integer("opset") >= 13) return builder.add("Softmax", {x}, {{"axis", axis}});
  const ValueId flat = builder.add("Flatten", {x}, {{"axis", axis}});
  const ValueId result = builder.add("Softmax", {flat}, {{"axis", std::int64_t{1}}});
  return builder.add("Reshape", {result, builder.add("Shape", {x})}, {{"allowzero", std::int64_t{1}}});
}

// With count_include_pad every window counts all of its elements, also those that ceil_mode places beyond the padding:
// AveragePool does so when the padding reaches that far.
std::optional<ValueId> real_average_pool(GraphBuilder& builder, const AttributeReader& reader, ValueId x) {
  ir::Attributes attributes = reader.given_among(average_pool.attributes);
  if (reader.integer("ceil_mode") != 0 && reader.integer("count_include_pad") != 0) {
    const std::optional<Shape> shape = builder.type(x).shape();
    if (!shape) return std::nullopt;
    std::vector<std::int64_t> begins, ends;
    for (const WindowAxis& axis : pooling_geometry(reader, *shape)) {
      begins.push_back(axis.pad_begin);
      ends.push_back(
          std::max(axis.pad_end, (axis.output - 1) * axis.stride + axis.extent() - axis.input - axis.pad_begin));
    }
    begins.insert(begins.end(), ends.begin(), ends.end());
    attributes["pads"] = std::move(begins);
    attributes.erase("auto_pad");
  }
  return builder.add("AveragePool", {x}, std::move(attributes));
}

std::optional<ValueId> real_global_average_pool(GraphBuilder& builder, const AttributeReader&, ValueId x) {
  return builder.add("GlobalAveragePool", {x});
}

std::optional<ValueId> real_reduce_mean(GraphBuilder& builder, const AttributeReader& reader, ValueId x) {
  return builder.add("ReduceMean", {x, builder.integers(reader.integers("axes"))},
                     {{"keepdims", reader.integer("keepdims")}});
}

std::optional<Values> decompose_where(GraphBuilder& builder, const AttributeReader&, Inputs inputs) {
  const ValueId x = dequantise(builder, inputs, 1), y = dequantise(builder, inputs, 4);
  return quantise(builder, builder.add("Where", {inputs[0], x, y}), inputs, 7, builder.dtype(inputs[1]));
}

std::optional<Values> decompose_concat(GraphBuilder& builder, const AttributeReader& reader, Inputs inputs) {
  Values parts;
  for (std::size_t i = 2; i < inputs.size(); i += 3) parts.push_back(dequantise(builder, inputs, i));
  return quantise(builder, builder.add("Concat", std::move(parts), {{"axis", reader.integer("axis")}}), inputs, 0,
                  builder.dtype(inputs[1]));
}

// --- signatures ---

OpDef binary_q_linear(std::string_view name) {
  return {.name = name,
          .since = 1,
          .inputs = {{"A", types::bytes, "T"},
                     {"A_scale", types::f32},
                     {"A_zero_point", types::bytes, "T", optional},
                     {"B", types::bytes, "T"},
                     {"B_scale", types::f32},
                     {"B_zero_point", types::bytes, "T", optional},
                     {"C_scale", types::f32},
                     {"C_zero_point", types::bytes, "T", optional}},
          .outputs = {{"C", types::bytes, "T"}},
          .infer = infer_binary,
          .decompose = decompose_binary};
}

OpDef unary(std::string_view name, std::vector<AttributeSpec> attributes, void (*infer)(InferContext&),
            decltype(OpDef::decompose) decompose) {
  return {.name = name,
          .since = 1,
          .inputs = {{"X", types::bytes, "T"},
                     {"X_scale", types::f32},
                     {"X_zero_point", types::bytes, "T", optional},
                     {"Y_scale", types::f32},
                     {"Y_zero_point", types::bytes, "T", optional}},
          .outputs = {{"Y", types::bytes, "T"}},
          .attributes = std::move(attributes),
          .infer = infer,
          .decompose = decompose};
}

std::vector<AttributeSpec> average_pool_attributes() {
  std::vector<AttributeSpec> specs = pooling_attributes();
  std::erase_if(specs, [](const AttributeSpec& spec) { return spec.name == "dilations"; });
  specs.push_back(integer_attribute("count_include_pad", 0));
  return specs;
}

}  // namespace

const OpDef q_linear_add = binary_q_linear("com.microsoft::QLinearAdd");
const OpDef q_linear_mul = binary_q_linear("com.microsoft::QLinearMul");
const OpDef q_linear_sigmoid = unary("com.microsoft::QLinearSigmoid", {}, infer_unary, decompose_unary<real_sigmoid>);
const OpDef q_linear_leaky_relu =
    unary("com.microsoft::QLinearLeakyRelu", {{"alpha", AttributeKind::real, ir::Attribute(0.01f)}}, infer_unary,
          decompose_unary<real_leaky_relu>);
const OpDef q_linear_softmax =
    unary("com.microsoft::QLinearSoftmax",
          {integer_attribute("axis", -1), required_attribute("opset", AttributeKind::integer)}, infer_softmax,
          decompose_unary<real_softmax>);
// Channels come second: the form with channels_last is rewritten at import.
const OpDef q_linear_average_pool = unary("com.microsoft::QLinearAveragePool", average_pool_attributes(),
                                          infer_average_pool, decompose_unary<real_average_pool>);
const OpDef q_linear_global_average_pool = unary("com.microsoft::QLinearGlobalAveragePool", {},
                                                 infer_global_average_pool, decompose_unary<real_global_average_pool>);
const OpDef q_linear_reduce_mean =
    unary("com.microsoft::QLinearReduceMean",
          {required_attribute("axes", AttributeKind::integers), required_attribute("keepdims", AttributeKind::integer)},
          infer_reduce_mean, decompose_unary<real_reduce_mean>);

const OpDef q_linear_where{
    .name = "com.microsoft::QLinearWhere",
    .since = 1,
    .inputs = {{"condition", types::boolean},
               {"X", types::bytes, "T"},
               {"x_scale", types::f32},
               {"x_zero_point", types::bytes, "T"},
               {"Y", types::bytes, "T"},
               {"y_scale", types::f32},
               {"y_zero_point", types::bytes, "T"},
               {"z_scale", types::f32},
               {"z_zero_point", types::bytes, "T"}},
    .outputs = {{"Z", types::bytes, "T"}},
    .infer = infer_q_linear_where,
    .decompose = decompose_where,
};

// Inputs: scale and zero point of the result, then tensor, scale and zero point of each part.
const OpDef q_linear_concat{
    .name = "com.microsoft::QLinearConcat",
    .since = 1,
    .inputs = {{"Y_scale", types::f32},
               {"Y_zero_point", types::bytes},
               {"inputs", types::bytes | types::f32, "", variadic}},
    .outputs = {{"Y", types::bytes}},
    .attributes = {required_attribute("axis", AttributeKind::integer)},
    .infer = infer_q_linear_concat,
    .decompose = decompose_concat,
};

}  // namespace tessera::ops
