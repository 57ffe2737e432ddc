#include "ops/training/softmax_cross_entropy.h"

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/wanted_output.h"

namespace tessera::ops {
namespace {

using ir::AttributeKind;

const std::vector<AttributeSpec> kSoftmaxCrossEntropyAttributes{
    {"axis", AttributeKind::integer, ir::Attribute(std::int64_t{-1})},
    {"ignore_index", AttributeKind::integer, ir::Attribute(std::int64_t{-100})},
    {"label_smoothing", AttributeKind::real, ir::Attribute(0.0f)}};

// The dimensions of input `scores` without the classes.
std::optional<ir::Dims> label_dims(const InferContext& context, std::size_t scores) {
  const float smoothing = context.real("label_smoothing");
  context.check(smoothing >= 0 && smoothing < 1, "label_smoothing is {}, expected a number in [0, 1)", smoothing);
  if (context.dims(scores) == nullptr) return std::nullopt;
  ir::Dims dims = *context.dims(scores);
  context.check(!dims.empty(), "'scores' has rank 0, expected at least 1");
  dims.erase(dims.begin() + normalise_axis(context.integer("axis"), static_cast<std::int64_t>(dims.size())));
  return dims;
}

void check_labels(const InferContext& context, std::size_t input, const ir::Dims& expected) {
  const ir::Dims* found = context.dims(input);
  if (found == nullptr) return;
  bool agree = expected.size() == found->size();
  for (std::size_t i = 0; agree && i < expected.size(); ++i) agree = expected[i].may_equal((*found)[i]);
  context.check(agree, "'{}' has shape {}, expected that of the scores without the classes, {}",
                context.op().inputs[input].name, to_string(*found), to_string(expected));
}

void infer_softmax_cross_entropy_forward(InferContext& context) {
  const DType own = context.dtype(0), wide = own == DType::f64 ? DType::f64 : DType::f32;
  const std::optional<ir::Dims> dims = label_dims(context, 0);
  if (!dims) {
    context.set_output_unknown_rank(0, own);
    return context.set_output_unknown_rank(1, wide);
  }
  check_labels(context, 1, *dims);
  context.set_output(0, own, *dims);
  context.set_output(1, wide, *dims);
}

void infer_softmax_cross_entropy_backward(InferContext& context) {
  if (const std::optional<ir::Dims> dims = label_dims(context, 1)) {
    for (const std::size_t input : {std::size_t{0}, std::size_t{2}, std::size_t{3}})
      check_labels(context, input, *dims);
  }
  context.set_output(0, context.input(1));
}

void softmax_cross_entropy_forward_gradient(GradientContext& c) {
  require(!c.has_gradient(1), ErrorKind::unsupported, "output 'log_sum' is used");
  c.set(0, c.gradient().combine("tessera::SoftmaxCrossEntropyGradient", {c.input(0), c.input(1), wanted_output(c, 1)},
                                c.node().attributes));
}

}  // namespace

const OpDef softmax_cross_entropy{
    .name = "tessera::SoftmaxCrossEntropy",
    .since = 1,
    .inputs = {{"scores", types::floats, "T"}, {"labels", types::index, "I"}},
    .outputs = {{"losses", types::floats, "T"}, {"log_sum", {DType::f32, DType::f64}, "U"}},
    .attributes = kSoftmaxCrossEntropyAttributes,
    .infer = infer_softmax_cross_entropy_forward,
    .operations = operations_per_input<6>,
    .gradient = softmax_cross_entropy_forward_gradient,
};

const OpDef softmax_cross_entropy_gradient{
    .name = "tessera::SoftmaxCrossEntropyGradient",
    .since = 1,
    .inputs = {{"dLosses", types::floats, "T"},
               {"scores", types::floats, "T"},
               {"labels", types::index, "I"},
               {"log_sum", {DType::f32, DType::f64}, "U"}},
    .outputs = {{"dScores", types::floats, "T"}},
    .attributes = kSoftmaxCrossEntropyAttributes,
    .infer = infer_softmax_cross_entropy_backward,
    .operations = operations_per_output<6>,
};

}  // namespace tessera::ops
