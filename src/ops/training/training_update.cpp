#include "ops/training/training_update.h"

#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

// Inputs: rate R, count T, then `groups` tensors for each optimised one: all X, all gradients, then all of each state.
// Outputs: all X, then all of each state.
template <std::size_t groups>
void infer_training_update(InferContext& context) {
  for (const std::size_t input : {std::size_t{0}, std::size_t{1}}) {
    const ir::Dims* dims = context.dims(input);
    context.check(dims == nullptr || ir::product(*dims).may_equal(1), "'{}' has shape {}, expected one element",
                  context.op().inputs[input].name, dims != nullptr ? to_string(*dims) : "");
  }
  const std::size_t tensors = context.input_count() - 2;
  context.check(context.input_count() > 2 && tensors % groups == 0,
                "{} tensors are given, expected {} for each one to optimise", context.input_count() - 2, groups);
  const std::size_t count = tensors / groups;
  for (std::size_t i = 2; i < context.input_count(); ++i) {
    const ir::ValueType &type = context.input(i), &x = context.input(2 + (i - 2) % count);
    bool fits = type.dtype == x.dtype;
    if (type.dims && x.dims) {
      fits = fits && type.dims->size() == x.dims->size();
      for (std::size_t j = 0; fits && j < x.dims->size(); ++j) fits = (*type.dims)[j].may_equal((*x.dims)[j]);
    }
    context.check(fits, "input {} is {}, expected {}", i, to_string(type), to_string(x));
  }
  context.check(context.output_count() <= (groups - 1) * count, "{} outputs are asked for, expected at most {}",
                context.output_count(), (groups - 1) * count);
  for (std::size_t i = 0; i < (groups - 1) * count; ++i) context.set_output(i, context.input(2 + i % count));
}

template <int per_element, std::size_t groups>
double training_update_operations(const NodeView& view) {
  double elements = 0;
  for (std::size_t i = 2; i < view.input_count(); ++i) elements += static_cast<double>(view.input(i).elements());
  return elements / static_cast<double>(groups) * per_element;
}

std::vector<Parameter> inputs() {
  return {{"R", types::f32_and_f64, "T1"}, {"T", types::i64, "T2"}, {"inputs", types::f32_and_f64, "", variadic}};
}
std::vector<Parameter> outputs() {
  return {{"outputs", types::f32_and_f64, "", variadic}};
}

}  // namespace

// g = norm_coefficient x + gradient; h += g^2; x -= R / (1 + T decay_factor) g / (sqrt(h) + epsilon)
const OpDef adagrad{
    .name = "ai.onnx.preview.training::Adagrad",
    .since = 1,
    .inputs = inputs(),
    .outputs = outputs(),
    .attributes = {real_attribute("decay_factor", 0), real_attribute("epsilon", 1e-6f),
                   real_attribute("norm_coefficient", 0)},
    .infer = infer_training_update<3>,
    .operations = training_update_operations<9, 3>,
};

// g = norm_coefficient x + gradient; v = alpha v + (1 - alpha) g; h = beta h + (1 - beta) g^2;
// x = (1 - norm_coefficient_post) (x - r v / (sqrt(h) + epsilon)) with r = R sqrt(1 - beta^T) / (1 - alpha^T), or R
// when T is 0
const OpDef adam{
    .name = "ai.onnx.preview.training::Adam",
    .since = 1,
    .inputs = inputs(),
    .outputs = outputs(),
    .attributes = {real_attribute("alpha", 0.9f), real_attribute("beta", 0.999f), real_attribute("epsilon", 1e-6f),
                   real_attribute("norm_coefficient", 0), real_attribute("norm_coefficient_post", 0)},
    .infer = infer_training_update<4>,
    .operations = training_update_operations<15, 4>,
};

// g = norm_coefficient x + gradient; v = alpha v + (beta, or 1 when T is 0) g;
// x -= R v, or with mode "nesterov" R (g + alpha v)
const OpDef momentum{
    .name = "ai.onnx.preview.training::Momentum",
    .since = 1,
    .inputs = inputs(),
    .outputs = outputs(),
    .attributes = {required_attribute("alpha", AttributeKind::real),
                   required_attribute("beta", AttributeKind::real),
                   {"mode", AttributeKind::text, std::nullopt, true},
                   required_attribute("norm_coefficient", AttributeKind::real)},
    .infer =
        [](InferContext& context) {
          const std::string& mode = context.text("mode");
          context.check(mode == "standard" || mode == "nesterov", "mode is '{}', expected standard or nesterov", mode);
          infer_training_update<3>(context);
        },
    .operations = training_update_operations<9, 3>,
};

}  // namespace tessera::ops
