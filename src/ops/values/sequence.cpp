#include "ops/values/sequence.h"

#include "ops/core/shape_arguments.h"

namespace tessera::ops {
namespace {

using Kind = ir::ValueType::Kind;

// The element type of sequence input i.
const ir::ValueType& element_of(const InferContext& context, std::size_t i) {
  const ir::ValueType& type = context.input(i);
  context.check(type.kind == Kind::sequence, "input '{}' is {}, expected a sequence", context.op().inputs[i].name,
                ir::to_string(type));
  return *type.element;
}

void check_tensor(const InferContext& context, std::size_t i) {
  context.check(context.input(i).is_tensor(), "input {} is {}, expected a tensor", i, ir::to_string(context.input(i)));
}

void infer_construct(InferContext& context) {
  check_tensor(context, 0);
  ir::ValueType element = context.input(0);
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    check_tensor(context, i);
    element = ir::join(element, context.input(i));
  }
  context.set_output(0, ir::ValueType::sequence(std::move(element)));
}

void infer_empty(InferContext& context) {
  context.set_output(0, ir::ValueType::sequence(ir::ValueType::tensor(dtype_attribute(context, "dtype", types::all))));
}

void infer_insert(InferContext& context) {
  check_tensor(context, 1);
  context.set_output(0, ir::ValueType::sequence(ir::join(element_of(context, 0), context.input(1))));
}

void infer_erase(InferContext& context) {
  element_of(context, 0);
  context.set_output(0, context.input(0));
}

void infer_at(InferContext& context) {
  context.set_output(0, element_of(context, 0));
}

void infer_length(InferContext& context) {
  element_of(context, 0);
  context.set_output(0, DType::i64, ir::Dims{});
}

void infer_sequence_split(InferContext& context) {
  const ir::Dims* dims = context.dims(0);
  ir::ValueType element = ir::ValueType::tensor(context.dtype(0));
  if (dims != nullptr) {
    element.dims = *dims;
    const std::int64_t axis = normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims->size()));
    if (context.has_input(1)) (*element.dims)[axis] = ir::Dim();
    else if (context.integer("keepdims") != 0) (*element.dims)[axis] = 1;
    else element.dims->erase(element.dims->begin() + axis);
  }
  context.set_output(0, ir::ValueType::sequence(std::move(element)));
}

void infer_sequence_concat(InferContext& context) {
  const ir::ValueType& element = element_of(context, 0);
  context.check(element.is_tensor(), "the sequence holds {}, expected tensors", ir::to_string(element));
  const std::int64_t new_axis = context.integer("new_axis");
  context.check(new_axis == 0 || new_axis == 1, "new_axis is {}, expected 0 or 1", new_axis);
  if (!element.dims) return context.set_output_unknown_rank(0, element.dtype);
  ir::Dims dims = *element.dims;
  if (new_axis == 1)
    dims.insert(dims.begin() + normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims.size()) + 1),
                ir::Dim());
  else dims[normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims.size()))] = ir::Dim();
  context.set_output(0, element.dtype, std::move(dims));
}

constexpr Parameter kSequence{.name = "input_sequence", .types = types::all, .any_kind = true};
constexpr Parameter kPosition{.name = "position", .types = types::index, .option = optional};

}  // namespace

const OpDef sequence_construct{
    .name = "SequenceConstruct",
    .since = 11,
    .inputs = {{"inputs", types::all, "T", variadic}},
    .outputs = {{.name = "output_sequence", .types = types::all, .any_kind = true}},
    .infer = infer_construct,
};

const OpDef sequence_empty{
    .name = "SequenceEmpty",
    .since = 11,
    .outputs = {{.name = "output", .types = types::all, .any_kind = true}},
    .attributes = {{"dtype", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_empty,
};

const OpDef sequence_insert{
    .name = "SequenceInsert",
    .since = 11,
    .inputs = {kSequence, {"tensor", types::all}, kPosition},
    .outputs = {{.name = "output_sequence", .types = types::all, .any_kind = true}},
    .infer = infer_insert,
};

const OpDef sequence_erase{
    .name = "SequenceErase",
    .since = 11,
    .inputs = {kSequence, kPosition},
    .outputs = {{.name = "output_sequence", .types = types::all, .any_kind = true}},
    .infer = infer_erase,
};

const OpDef sequence_at{
    .name = "SequenceAt",
    .since = 11,
    .inputs = {kSequence, {"position", types::index}},
    .outputs = {{.name = "tensor", .types = types::all, .any_kind = true}},
    .infer = infer_at,
};

const OpDef sequence_length{
    .name = "SequenceLength",
    .since = 11,
    .inputs = {kSequence},
    .outputs = {{"length", types::i64}},
    .infer = infer_length,
};

const OpDef split_to_sequence{
    .name = "SplitToSequence",
    .since = 24,
    .inputs = {{"input", types::all, "T"}, {"split", types::index, "", optional}},
    .outputs = {{.name = "output_sequence", .types = types::all, .any_kind = true}},
    .attributes = {{"axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})},
                   {"keepdims", ir::AttributeKind::integer, ir::Attribute(std::int64_t{1})}},
    .infer = infer_sequence_split,
};

const OpDef concat_from_sequence{
    .name = "ConcatFromSequence",
    .since = 11,
    .inputs = {kSequence},
    .outputs = {{"concat_result", types::all}},
    .attributes = {{"axis", ir::AttributeKind::integer, std::nullopt, true},
                   {"new_axis", ir::AttributeKind::integer, ir::Attribute(std::int64_t{0})}},
    .infer = infer_sequence_concat,
};

}  // namespace tessera::ops
