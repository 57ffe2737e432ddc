#include "ops/training/optimiser_step.h"

#include <fmt/format.h>

#include <charconv>

#include "ops/core/signatures.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

void check_optimiser_step_scalar(InferContext& context, std::size_t input) {
  const ir::Dims* dims = context.dims(input);
  context.check(dims == nullptr || dims->empty(), "'{}' has shape {}, expected a scalar",
                context.op().inputs[input].name, dims != nullptr ? to_string(*dims) : "");
}

void infer_step(InferContext& context) {
  for (std::size_t input = 0; input < kOptimiserScalars; ++input) check_optimiser_step_scalar(context, input);
  const std::string& algorithm = context.text("algorithm");
  const bool known = algorithm == "sgd" || algorithm == "adam" || algorithm == "adamw" || algorithm == "adagrad" ||
                     algorithm == "lars" || algorithm == "lamb";
  context.check(known, "algorithm is '{}', expected sgd, adam, adamw, adagrad, lars or lamb", algorithm);
  const std::size_t tensors = context.input_count() - kOptimiserScalars;
  const std::size_t groups = 2 + optimiser_states(context);
  context.check(tensors > 0 && tensors % groups == 0, "{} tensors are given, expected {} for each parameter", tensors,
                groups);
  const std::size_t count = tensors / groups;
  const std::size_t decays = context.has_attribute("weight_decays") ? context.reals("weight_decays").size() : 0;
  context.check(decays == 0 || decays == count, "{} weight decays are given for {} parameters", decays, count);
  for (std::size_t i = 0; i < tensors; ++i) {
    const ir::ValueType &type = context.input(kOptimiserScalars + i),
                        &parameter = context.input(kOptimiserScalars + i % count);
    bool fits = type.dtype == parameter.dtype;
    if (type.dims && parameter.dims) {
      fits = fits && type.dims->size() == parameter.dims->size();
      for (std::size_t axis = 0; fits && axis < type.dims->size(); ++axis)
        fits = (*type.dims)[axis].may_equal((*parameter.dims)[axis]);
    }
    context.check(fits, "input {} is {}, expected {}", kOptimiserScalars + i, to_string(type), to_string(parameter));
  }
  for (std::size_t i = 0; i < (groups - 1) * count; ++i)
    context.set_output(i, context.input(kOptimiserScalars + i % count));
}

double step_operations(const NodeView& view) {
  const std::size_t groups = 2 + optimiser_states(view);
  const std::size_t count = (view.input_count() - kOptimiserScalars) / groups;
  double elements = 0;
  for (std::size_t i = 0; i < count; ++i) elements += static_cast<double>(view.input(kOptimiserScalars + i).elements());
  const std::string& algorithm = view.text("algorithm");
  const double per_element = algorithm == "sgd" ? 5 : algorithm == "lamb" ? 20 : algorithm == "lars" ? 11 : 14;
  return elements * per_element;
}

}  // namespace

std::size_t optimiser_states(const AttributeReader& reader) {
  const std::string& algorithm = reader.text("algorithm");
  if (algorithm == "sgd") return reader.real("momentum") != 0 ? 1 : 0;
  return algorithm == "adagrad" || algorithm == "lars" ? 1 : 2;
}

bool optimiser_updates_in_place(const ir::Node& node, std::size_t output, std::size_t input) {
  const std::size_t groups = 2 + optimiser_states({node, optimiser_step});
  const std::size_t count = (node.inputs.size() - kOptimiserScalars) / groups;
  // A state is one group further in the inputs than in the outputs, because the gradients come before it.
  return input == kOptimiserScalars + output + (output < count ? 0 : count);
}

double decimal(float attribute) {
  const std::string digits = fmt::format("{}", attribute);
  double number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::vector<AttributeSpec> optimiser_attributes(AttributeSpec decay) {
  return {{"algorithm", AttributeKind::text, std::nullopt, true},
          real_attribute("momentum", 0),
          {"nesterov", AttributeKind::integer, ir::Attribute(std::int64_t{0})},
          real_attribute("beta1", 0.9f),
          real_attribute("beta2", 0.999f),
          real_attribute("epsilon", 1e-8f),
          real_attribute("rate_decay", 0),
          real_attribute("trust", 0.001f),
          std::move(decay)};
}

const OpDef optimiser_step{
    .name = "tessera::OptimiserStep",
    .since = 1,
    .inputs = {{"rate", types::f32_and_f64},
               {"count", types::i64},
               {"gradient_scale", types::f32_and_f64},
               {"apply", types::boolean},
               {"tensors", types::f32_and_f64, "", variadic}},
    .outputs = {{"updated", types::f32_and_f64, "", variadic}},
    // One weight decay per parameter; no decay where they are absent.
    .attributes = optimiser_attributes({"weight_decays", AttributeKind::reals}),
    .infer = infer_step,
    .operations = step_operations,
};

}  // namespace tessera::ops
