#include "ops/values/optional.h"

namespace tessera::ops {
namespace {

using Kind = ir::ValueType::Kind;

void infer_optional(InferContext& context) {
  if (context.has_input(0)) {
    context.check(context.input(0).kind != Kind::optional, "input is {}, expected a tensor or sequence",
                  ir::to_string(context.input(0)));
    return context.set_output(0, ir::ValueType::optional(context.input(0)));
  }
  context.check(context.has_attribute("type"), "neither an input nor attribute 'type' is given");
  const ir::ValueType& type = context.type("type");
  context.set_output(0, type.kind == Kind::optional ? type : ir::ValueType::optional(type));
}

void infer_has_element(InferContext& context) {
  context.set_output(0, DType::boolean, ir::Dims{});
}

void infer_get_element(InferContext& context) {
  const ir::ValueType& type = context.input(0);
  context.set_output(0, type.kind == Kind::optional ? *type.element : type);
}

}  // namespace

const OpDef optional_of{
    .name = "Optional",
    .since = 15,
    .inputs = {{.name = "input", .types = types::all, .option = optional, .any_kind = true}},
    .outputs = {{.name = "output", .types = types::all, .any_kind = true}},
    .attributes = {{"type", ir::AttributeKind::type}},
    .infer = infer_optional,
};

const OpDef optional_has_element{
    .name = "OptionalHasElement",
    .since = 18,
    .inputs = {{.name = "input", .types = types::all, .option = optional, .any_kind = true}},
    .outputs = {{"output", types::boolean}},
    .infer = infer_has_element,
};

const OpDef optional_get_element{
    .name = "OptionalGetElement",
    .since = 18,
    .inputs = {{.name = "input", .types = types::all, .any_kind = true}},
    .outputs = {{.name = "output", .types = types::all, .any_kind = true}},
    .infer = infer_get_element,
};

}  // namespace tessera::ops
