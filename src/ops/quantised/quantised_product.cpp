#include "ops/quantised/quantised_product.h"

#include "ops/core/builder.h"
#include "ops/core/product.h"
#include "ops/core/signatures.h"
#include "ops/core/text_of.h"
#include "ops/products/matrix_product.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;
using ir::ValueId;
using Values = std::vector<ValueId>;
using Inputs = std::span<const ValueId>;

constexpr TypeSet kWords{DType::i16, DType::u16};

ValueId input_at_quantised_product(Inputs inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : ValueId{};
}

// One value, or one per column of the product: [columns], or [batch..., 1, columns] for a batch of right operands.
void check_by_column(const InferContext& context, std::size_t i, const ir::Dim& columns) {
  if (!context.has_input(i) || context.dims(i) == nullptr) return;
  const ir::Dims& dims = *context.dims(i);
  const bool single = ir::product(dims).may_equal(1);
  const bool fits =
      !dims.empty() && dims.back().may_equal(columns) && (dims.size() < 2 || dims[dims.size() - 2].may_equal(1));
  context.check(single || fits, "input '{}' has shape {}, expected one value, or one for each of the {} columns",
                context.op().inputs[i].name, text_of(dims), text_of(columns));
}

void check_quantised_product_single(const InferContext& context, std::size_t i) {
  if (!context.has_input(i) || context.dims(i) == nullptr) return;
  context.check(ir::product(*context.dims(i)).may_equal(1), "input '{}' has shape {}, expected one value",
                context.op().inputs[i].name, text_of(*context.dims(i)));
}

ir::Dim columns_of(const InferContext& context, std::size_t b) {
  const ir::Dims* dims = context.dims(b);
  return dims == nullptr ? ir::Dim() : dims->size() < 2 ? ir::Dim(1) : dims->back();
}

void check_quantised_product_bias(const InferContext& context, std::size_t i, const ir::Dim& columns) {
  if (!context.has_input(i) || context.dims(i) == nullptr) return;
  const ir::Dims& dims = *context.dims(i);
  context.check(dims.size() == 1 && dims[0].may_equal(columns), "the bias has shape {}, expected [{}]", text_of(dims),
                text_of(columns));
}

void set_quantised_product(InferContext& context, std::size_t a, std::size_t b, DType dtype) {
  const ir::Dims *left = context.dims(a), *right = context.dims(b);
  if (left == nullptr || right == nullptr) return context.set_output_unknown_rank(0, dtype);
  context.set_output(0, dtype, matmul_dims(context, *left, *right));
}

void infer_integer_to_float(InferContext& context) {
  const ir::Dim columns = columns_of(context, 1);
  for (const std::size_t i : {2, 4}) check_quantised_product_single(context, i);
  for (const std::size_t i : {3, 5}) check_by_column(context, i, columns);
  check_quantised_product_bias(context, 6, columns);
  set_quantised_product(context, 0, 1, context.dtype(2));
}

void infer_dynamic(InferContext& context) {
  const ir::Dim columns = columns_of(context, 1);
  for (const std::size_t i : {2, 3}) check_by_column(context, i, columns);
  check_quantised_product_bias(context, 4, columns);
  set_quantised_product(context, 0, 1, DType::f32);
}

void infer_integer_16(InferContext& context) {
  const bool is_unsigned = context.dtype(0) == DType::u16 && context.dtype(1) == DType::u16;
  set_quantised_product(context, 0, 1, is_unsigned ? DType::u32 : DType::i32);
}

// A matrix operand with its axes as they are multiplied.
ir::Dims matrix_dims(const InferContext& context, std::size_t i, bool transposed) {
  const ir::Dims dims = context.dims(i) != nullptr ? *context.dims(i) : ir::Dims(2);
  context.check(dims.size() == 2, "input '{}' has rank {}, expected 2", context.op().inputs[i].name, dims.size());
  return transposed ? ir::Dims{dims[1], dims[0]} : dims;
}

void infer_q_gemm(InferContext& context) {
  const ir::Dims a = matrix_dims(context, 0, context.integer("transA") != 0),
                 b = matrix_dims(context, 3, context.integer("transB") != 0);
  context.check(a[1].may_equal(b[0]), "the inner dimensions of A {} and B {} differ", text_of(a), text_of(b));
  const ir::Dims result{a[0], b[1]};
  for (const std::size_t i : {1, 2, 7, 8}) check_quantised_product_single(context, i);
  for (const std::size_t i : {4, 5}) check_by_column(context, i, b[1]);
  if (context.has_input(6) && context.dims(6) != nullptr) {
    const ir::Dims& c = *context.dims(6);
    const bool fits = c.size() <= 2 && broadcast_dims(context, result, c)[0].may_equal(result[0]) &&
                      (c.empty() || c.back().may_equal(1) || c.back().may_equal(result[1]));
    context.check(fits, "input 'C' of shape {} does not broadcast to {}", text_of(c), text_of(result));
  }
  context.check(context.has_input(7) == context.has_input(8), "of 'y_scale' and 'y_zero_point' only one is given");
  context.set_output(0, context.has_input(8) ? context.dtype(8) : DType::f32, result);
}

// --- decomposition ---

// (A − a_zero) · (B − b_zero) in 32-bit integers.
ValueId integer_product(GraphBuilder& builder, ValueId a, ValueId b, ValueId a_zero, ValueId b_zero) {
  Values operands{a, b, a_zero, b_zero};
  while (!operands.back().valid()) operands.pop_back();
  return builder.add("MatMulInteger", std::move(operands));
}

ValueId as_scalar(GraphBuilder& builder, ValueId value) {
  return builder.add("Reshape", {value, builder.integers({})});
}

// sums · (a_scale · b_scale) in float32. A single scale is made a scalar, so that it adds no axis to a product without
// any.
ValueId scaled(GraphBuilder& builder, ValueId sums, ValueId a_scale, ValueId b_scale) {
  const ir::Dims* dims = builder.dims(b_scale);
  const bool single = dims != nullptr && dims->size() == 1 && dims->front() == ir::Dim(1);
  const ValueId right = builder.cast(single ? as_scalar(builder, b_scale) : b_scale, DType::f32);
  const ValueId scale = builder.add("Mul", {as_scalar(builder, builder.cast(a_scale, DType::f32)), right});
  return builder.add("Mul", {builder.cast(sums, DType::f32), scale});
}

ValueId with_bias(GraphBuilder& builder, ValueId value, ValueId bias) {
  return bias.valid() ? builder.add("Add", {value, bias}) : value;
}

std::optional<Values> decompose_integer_to_float(GraphBuilder& builder, const AttributeReader&, Inputs inputs) {
  const ValueId sums = integer_product(builder, inputs[0], inputs[1], input_at_quantised_product(inputs, 4),
                                       input_at_quantised_product(inputs, 5));
  const ValueId real = builder.cast(scaled(builder, sums, inputs[2], inputs[3]), builder.dtype(inputs[2]));
  return Values{with_bias(builder, real, input_at_quantised_product(inputs, 6))};
}

std::optional<Values> decompose_dynamic(GraphBuilder& builder, const AttributeReader&, Inputs inputs) {
  const Values a = builder.add_multi("DynamicQuantizeLinear", {inputs[0]}, 3);
  const ValueId sums = integer_product(builder, a[0], inputs[1], a[2], input_at_quantised_product(inputs, 3));
  return Values{with_bias(builder, scaled(builder, sums, a[1], inputs[2]), input_at_quantised_product(inputs, 4))};
}

std::optional<Values> decompose_integer_16(GraphBuilder& builder, const AttributeReader&, Inputs inputs) {
  const bool is_unsigned = builder.dtype(inputs[0]) == DType::u16 && builder.dtype(inputs[1]) == DType::u16;
  const DType wide = is_unsigned ? DType::u32 : DType::i32;
  return Values{builder.add("MatMul", {builder.cast(inputs[0], wide), builder.cast(inputs[1], wide)})};
}

ValueId transposed_if(GraphBuilder& builder, bool transpose, ValueId matrix) {
  return transpose ? builder.add("Transpose", {matrix}, {{"perm", std::vector<std::int64_t>{1, 0}}}) : matrix;
}

std::optional<Values> decompose_q_gemm(GraphBuilder& builder, const AttributeReader& reader, Inputs inputs) {
  const ValueId a = transposed_if(builder, reader.integer("transA") != 0, inputs[0]);
  const ValueId b = transposed_if(builder, reader.integer("transB") != 0, inputs[3]);
  const ValueId sums = with_bias(builder, integer_product(builder, a, b, as_scalar(builder, inputs[2]), inputs[5]),
                                 input_at_quantised_product(inputs, 6));
  const float alpha = reader.real("alpha");
  const ValueId a_scale = alpha == 1 ? inputs[1] : builder.add("Mul", {inputs[1], builder.scalar(alpha)});
  const ValueId real = scaled(builder, sums, a_scale, inputs[4]);
  if (!input_at_quantised_product(inputs, 7).valid()) return Values{real};
  return Values{builder.add("QuantizeLinear", {real, inputs[7], inputs[8]})};
}

}  // namespace

// Y = quantised(alpha · a_scale · b_scale · ((A' − a_zero_point) · (B' − b_zero_point) + C)), or that number in float32
// when the result has no scale.
const OpDef q_gemm{
    .name = "com.microsoft::QGemm",
    .since = 1,
    .product = several_products,
    .inputs = {{"A", types::bytes, "TA"},
               {"a_scale", types::f32},
               {"a_zero_point", types::bytes, "TA"},
               {"B", types::bytes, "TB"},
               {"b_scale", types::f32},
               {"b_zero_point", types::bytes, "TB"},
               {"C", {DType::i32}, "", optional},
               {"y_scale", types::f32, "", optional},
               {"y_zero_point", types::bytes, "", optional}},
    .outputs = {{"Y", types::bytes | types::f32}},
    .attributes = {{"alpha", AttributeKind::real, ir::Attribute(1.0f)},
                   {"transA", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"transB", AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_q_gemm,
    .decompose = decompose_q_gemm,
};

// Y = a_scale · b_scale · ((A − a_zero_point) · (B − b_zero_point)) + bias
const OpDef matmul_integer_to_float{
    .name = "com.microsoft::MatMulIntegerToFloat",
    .since = 1,
    .product = matrix_product_by<1>,
    .inputs = {{"A", types::bytes, "T1"},
               {"B", types::bytes, "T2"},
               {"a_scale", {DType::f32, DType::f16}, "T3"},
               {"b_scale", {DType::f32, DType::f16}, "T3"},
               {"a_zero_point", types::bytes, "T1", optional},
               {"b_zero_point", types::bytes, "T2", optional},
               {"bias", {DType::f32, DType::f16}, "T3", optional}},
    .outputs = {{"Y", {DType::f32, DType::f16}, "T3"}},
    .infer = infer_integer_to_float,
    .decompose = decompose_integer_to_float,
};

// MatMulIntegerToFloat of A as DynamicQuantizeLinear makes it: 8 bits unsigned, one scale for all of it.
const OpDef dynamic_quantize_matmul{
    .name = "com.microsoft::DynamicQuantizeMatMul",
    .since = 1,
    .product = matrix_product_by<1>,
    .inputs = {{"A", types::f32, "T1"},
               {"B", types::bytes, "T2"},
               {"b_scale", types::f32, "T1"},
               {"b_zero_point", types::bytes, "T2", optional},
               {"bias", types::f32, "T1", optional}},
    .outputs = {{"Y", types::f32, "T1"}},
    .infer = infer_dynamic,
    .decompose = decompose_dynamic,
};

// Y = A · B in 32-bit integers
const OpDef matmul_integer_16{
    .name = "com.microsoft::MatMulInteger16",
    .since = 1,
    .product = matrix_product_by<1>,
    .inputs = {{"A", kWords, "T1"}, {"B", kWords, "T2"}},
    .outputs = {{"Y", {DType::i32, DType::u32}, "T3"}},
    .infer = infer_integer_16,
    .decompose = decompose_integer_16,
};

}  // namespace tessera::ops
