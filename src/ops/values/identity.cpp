#include "ops/values/identity.h"

#include "ops/core/gradient.h"
#include "ops/core/text_of.h"
#include "ops/core/wanted_output.h"
#include "ops/values/random_streams.h"

namespace tessera::ops {
namespace {

constexpr TypeSet kDropoutTypes =
    types::floats | TypeSet{DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz};

void check_identity_scalar(const InferContext& context, std::size_t i) {
  const ir::Dims* dims = context.has_input(i) ? context.dims(i) : nullptr;
  const ir::Dim count = dims != nullptr ? ir::product(*dims) : ir::Dim();
  context.check(!count.is_known() || count.value() == 1, "input '{}' has shape {}, expected a scalar",
                context.op().inputs[i].name, text_of(dims));
}

void infer_dropout(InferContext& context) {
  check_identity_scalar(context, 1);
  check_identity_scalar(context, 2);
  ir::ValueType type = context.input(0);
  context.set_output(0, type);
  type.dtype = DType::boolean;
  context.set_output(1, std::move(type));
}

// Without training_mode, the gradient is passed through. With it, the forward node returns its mask, which cannot be
// drawn a second time.
void dropout_gradient(GradientContext& c) {
  const Tensor* training = c.has_input(2) ? c.builder().graph().constant(c.node().inputs[2]) : nullptr;
  if (!c.has_input(2) || (training != nullptr && !*training->data<bool>())) return c.set(0, c.gradient());
  const Term ratio = c.has_input(1) ? c.input(1).cast(c.gradient().dtype()) : c.gradient().number(0.5);
  const Term scale = c.input(2).choose(1 / (1 - ratio), 1);
  c.set(0, wanted_output(c, 1).choose(c.gradient() * scale, 0));
}

}  // namespace

const OpDef identity{
    .name = "Identity",
    .since = 25,
    .inputs = {{.name = "input", .types = types::all, .variable = "V", .any_kind = true}},
    .outputs = {{.name = "output", .types = types::all, .variable = "V", .any_kind = true}},
    .infer = infer_same_as_input,
    .gradient = [](GradientContext& c) { c.set(0, c.gradient()); },
    .element_wise = ElementWise::unary,
    .traits = {Trait::moves, Trait::rearranges},
};

// With training_mode: output = data mask / (1 - ratio), each mask element false with probability `ratio`; else
// output = data. Srivastava et al., "Dropout" (JMLR 15, 2014).
const OpDef dropout{
    .name = "Dropout",
    .since = 22,
    .inputs = {{"data", kDropoutTypes, "T"},
               {"ratio", kDropoutTypes, "T1", optional},
               {"training_mode", types::boolean, "T2", optional}},
    .outputs = {{"output", kDropoutTypes, "T"}, {"mask", types::boolean, "T2", optional}},
    .attributes = {{"seed", ir::AttributeKind::integer}, stream_attribute()},
    .infer = infer_dropout,
    .operations = operations_per_output<2>,
    .gradient = dropout_gradient,
    .deterministic = false,
};

}  // namespace tessera::ops
