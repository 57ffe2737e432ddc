#include "ops/element_wise/cast.h"

#include "ops/core/gradient.h"
#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kCastTypes = types::all.without(types::complex);
constexpr TypeSet kBitCastTypes = types::all.without(types::text);

void set_type(InferContext& context, DType dtype) {
  ir::ValueType type = context.input(0);
  type.dtype = dtype;
  context.set_output(0, std::move(type));
}

void check_round_mode(const InferContext& context) {
  const std::string& mode = context.text("round_mode");
  context.check(mode == "up" || mode == "down" || mode == "nearest", "round_mode is '{}', expected up, down or nearest",
                mode);
}

void infer_cast(InferContext& context) {
  check_round_mode(context);
  set_type(context, dtype_attribute(context, "to", kCastTypes));
}

void infer_cast_like(InferContext& context) {
  check_round_mode(context);
  set_type(context, context.dtype(1));
}

void infer_bit_cast(InferContext& context) {
  const DType from = context.dtype(0), to = dtype_attribute(context, "to", kBitCastTypes);
  context.check(bits_of(from) == bits_of(to), "{} has {} bits and {} has {}, expected the same width", name_of(from),
                bits_of(from), name_of(to), bits_of(to));
  set_type(context, to);
}

void cast_gradient(GradientContext& c) {
  c.set(0, c.gradient().cast(c.input(0).dtype()));
}

// Only the element type of the second operand is used.
double cast_like_bytes_read(const NodeView& view) {
  return static_cast<double>(view.input(0).bytes());
}

}  // namespace

// Conversion by value. To integers it truncates towards zero and wraps; `saturate` and `round_mode` are for 8-bit
// floats.
const OpDef cast{
    .name = "Cast",
    .since = 25,
    .inputs = {{"input", kCastTypes, "T1"}},
    .outputs = {{"output", kCastTypes, "T2"}},
    .attributes = {{"to", ir::AttributeKind::integer, std::nullopt, true},
                   {"saturate", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                   {"round_mode", ir::AttributeKind::text, ir::Attribute(std::string("up"))}},
    .infer = infer_cast,
    .operations = operations_per_output<1>,
    .gradient = cast_gradient,
    .element_wise = ElementWise::unary,
};

const OpDef cast_like{
    .name = "CastLike",
    .since = 25,
    .inputs = {{"input", kCastTypes, "T1"}, {"target_type", kCastTypes, "T2"}},
    .outputs = {{"output", kCastTypes, "T2"}},
    .attributes = {{"saturate", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})},
                   {"round_mode", ir::AttributeKind::text, ir::Attribute(std::string("up"))}},
    .infer = infer_cast_like,
    .operations = operations_per_output<1>,
    .bytes_read = cast_like_bytes_read,
    .gradient = cast_gradient,
};

// Reinterprets the bits of elements as another type of the same width.
const OpDef bit_cast{
    .name = "BitCast",
    .since = 26,
    .inputs = {{"input", kBitCastTypes, "T1"}},
    .outputs = {{"output", kBitCastTypes, "T2"}},
    .attributes = {{"to", ir::AttributeKind::integer, std::nullopt, true}},
    .infer = infer_bit_cast,
    .element_wise = ElementWise::unary,
};

}  // namespace tessera::ops
