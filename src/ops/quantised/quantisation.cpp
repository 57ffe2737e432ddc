#include "ops/quantised/quantisation.h"

#include "base/error.h"
#include "base/numbers/checked.h"
#include "ops/core/gradient.h"
#include "ops/core/text_of.h"

namespace tessera::ops {
namespace {

constexpr TypeSet narrow = types::small_integers | types::small_floats.without({DType::f8e8m0}) |
                           TypeSet{DType::i8, DType::u8, DType::i16, DType::u16};
constexpr TypeSet real_types{DType::f32, DType::f16, DType::bf16};

// Checks that the layout is valid, if both shapes are known.
void check_layout(InferContext& context) {
  const auto shape = context.input(0).shape(), scale = context.input(1).shape();
  if (shape && scale) quantisation_layout(*shape, *scale, context.integer("axis"), context.integer("block_size"));
}

ir::ValueType with_dtype(const InferContext& context, DType dtype) {
  ir::ValueType type = context.input(0);
  type.dtype = dtype;
  return type;
}

DType requested_dtype(const InferContext& context, TypeSet allowed, DType otherwise) {
  const std::int64_t requested = context.integer("output_dtype");
  if (requested == 0) return otherwise;
  context.check(requested > 0 && requested < kDTypeCount && allowed.contains(static_cast<DType>(requested)),
                "output_dtype {} is not allowed", requested);
  return static_cast<DType>(requested);
}

void infer_quantize(InferContext& context) {
  check_layout(context);
  DType dtype = requested_dtype(context, narrow, DType::u8);
  if (context.has_input(2)) {
    context.check(context.integer("output_dtype") == 0 || dtype == context.dtype(2),
                  "output_dtype is {}, but the zero point is {}", name_of(dtype), name_of(context.dtype(2)));
    dtype = context.dtype(2);
  }
  context.set_output(0, with_dtype(context, dtype));
}

void infer_dequantize(InferContext& context) {
  check_layout(context);
  const DType scale = context.dtype(1) == DType::f8e8m0 ? DType::f32 : context.dtype(1);
  context.set_output(0, with_dtype(context, requested_dtype(context, real_types, scale)));
}

void infer_dynamic_quantize(InferContext& context) {
  context.set_output(0, with_dtype(context, DType::u8));
  context.set_output(1, DType::f32, {});
  context.set_output(2, DType::u8, {});
}

// Input 1, the scale, in a shape that broadcasts to x.
Term broadcast_scale(GradientContext& c) {
  require(c.integer("block_size") == 0, ErrorKind::unsupported, "its scale is blocked");
  const Term x = c.input(0), scale = c.input(1);
  if (scale.rank() == 0 || scale.dims()[0].surely_equals(ir::Dim(1))) return scale;
  return scale.unsqueeze(axes_but(normalise_axis(c.integer("axis"), x.rank()), x.rank()));
}

// The zero point as a number of the type, in a shape that broadcasts to x; 0 if there is none.
Term broadcast_zero_point(GradientContext& c, Term like) {
  if (!c.has_input(2)) return like.number(0);
  const Term zero = c.input(2).cast(like.dtype()), x = c.input(0);
  if (zero.rank() == 0 || zero.dims()[0].surely_equals(ir::Dim(1))) return zero;
  return zero.unsqueeze(axes_but(normalise_axis(c.integer("axis"), x.rank()), x.rank()));
}

// The smallest and the largest integer of the type.
std::pair<double, double> range_of(DType type) {
  require(is_integer(type), ErrorKind::unsupported, "it rounds to {}", name_of(type));
  const double values = static_cast<double>(std::uint64_t{1} << bits_of(type));
  return is_signed_integer(type) ? std::pair(-values / 2, values / 2 - 1) : std::pair(0.0, values - 1);
}

// Straight through: rounding has slope 1 where it does not saturate, and elsewhere 0 (Bengio et al., arXiv:1308.3432).
// Together with DequantizeLinear's, the gradient of the scale is that of Esser et al., arXiv:1902.08153.
void quantize_gradient(GradientContext& c) {
  const Term g = c.gradient(), x = c.input(0).cast(g.dtype()), scale = broadcast_scale(c).cast(g.dtype());
  const auto [low, high] = range_of(c.builder().dtype(c.output().id()));
  const Term code = (x / scale).apply("Round") + broadcast_zero_point(c, g);
  const Term slope = ((code < low).combine("Or", {code > high})).choose(g.number(0), g / scale);
  c.set(0, slope.cast(c.input(0).dtype()));
  if (c.wants(1)) c.set(1, (-slope * x / scale).sum_to(scale).reshape_like(c.input(1)).cast(c.input(1).dtype()));
}

void dequantize_gradient(GradientContext& c) {
  const Term g = c.gradient(), scale = broadcast_scale(c).cast(g.dtype());
  c.set(0, g * scale);
  if (!c.wants(1)) return;
  const Term code = c.input(0).cast(g.dtype()) - broadcast_zero_point(c, g);
  c.set(1, (g * code).sum_to(scale).reshape_like(c.input(1)).cast(c.input(1).dtype()));
}

const AttributeSpec axis_attribute{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})};
const AttributeSpec block_size_attribute{"block_size", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})};
const AttributeSpec output_dtype_attribute{"output_dtype", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})};

}  // namespace

bool stands_for_reals(const ir::Node& node) {
  return node.op == "QuantizeLinear";
}

QuantisationLayout quantisation_layout(const Shape& tensor, const Shape& scale, std::int64_t axis,
                                       std::int64_t block_size) {
  require(block_size >= 0, ErrorKind::invalid_model, "block_size is {}, expected at least 0", block_size);
  if (block_size > 0) {
    require(scale.size() == tensor.size(), ErrorKind::invalid_model,
            "a blocked scale of shape {} has not the rank of the tensor {}", text_of(scale), text_of(tensor));
    axis = normalise_axis(axis, static_cast<std::int64_t>(tensor.size()));
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      const std::int64_t wanted =
          static_cast<std::int64_t>(i) == axis ? base::ceil_divide(tensor[i], block_size) : tensor[i];
      require(scale[i] == wanted, ErrorKind::invalid_model,
              "a scale of shape {} does not cover {} in blocks of {} along axis {}", text_of(scale), text_of(tensor),
              block_size, axis);
    }
    return {QuantisationLayout::Kind::blocked, axis, block_size};
  }
  if (element_count(scale) == 1 && scale.size() <= 1) return {};
  require(scale.size() == 1, ErrorKind::invalid_model,
          "the scale has shape {}, expected one value or one an index of axis {}", text_of(scale), axis);
  axis = normalise_axis(axis, static_cast<std::int64_t>(tensor.size()));
  require(scale[0] == tensor[static_cast<std::size_t>(axis)], ErrorKind::invalid_model, "{} scales for axis {} of {}",
          scale[0], axis, text_of(tensor));
  return {QuantisationLayout::Kind::per_axis, axis, 0};
}

// y = saturate(round_half_even(x / y_scale) + y_zero_point)
const OpDef quantize_linear{
    .name = "QuantizeLinear",
    .since = 25,
    .inputs = {{"x", real_types | TypeSet{DType::i32}, "T1"},
               {"y_scale", real_types | TypeSet{DType::i32, DType::f8e8m0}, "T2"},
               {"y_zero_point", narrow, "T3", optional}},
    .outputs = {{"y", narrow, "T3"}},
    .attributes = {axis_attribute,
                   block_size_attribute,
                   output_dtype_attribute,
                   {"precision", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"saturate", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_quantize,
    .operations = operations_per_output<3>,
    .gradient = quantize_gradient,
    .element_wise = ElementWise::along_axis,
};

// y = (x − x_zero_point) · x_scale
const OpDef dequantize_linear{
    .name = "DequantizeLinear",
    .since = 25,
    .inputs = {{"x", narrow | TypeSet{DType::i32}, "T1"},
               {"x_scale", real_types | TypeSet{DType::f8e8m0}, "T2"},
               {"x_zero_point", narrow | TypeSet{DType::i32}, "T1", optional}},
    .outputs = {{"y", real_types, "T3"}},
    .attributes = {axis_attribute, block_size_attribute, output_dtype_attribute},
    .infer = infer_dequantize,
    .operations = operations_per_output<2>,
    .gradient = dequantize_gradient,
    .element_wise = ElementWise::along_axis,
};

// scale = (max(x, 0) − min(x, 0)) / 255, zero_point = saturate(round(−min(x, 0) / scale)), both over the whole tensor.
const OpDef dynamic_quantize_linear{
    .name = "DynamicQuantizeLinear",
    .since = 11,
    .inputs = {{"x", {DType::f32}}},
    .outputs = {{"y", {DType::u8}}, {"y_scale", {DType::f32}}, {"y_zero_point", {DType::u8}}},
    .infer = infer_dynamic_quantize,
    .operations = operations_per_output<5>,
};

}  // namespace tessera::ops
