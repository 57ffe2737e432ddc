#include "ops/training/loss.h"

#include "base/error.h"
#include "ops/core/gradient.h"

namespace tessera::ops {
namespace {

void infer_loss(InferContext& context) {
  const std::string& reduction = context.text("reduction");
  context.check(reduction == "none" || reduction == "sum" || reduction == "mean",
                "reduction is '{}', expected none, sum or mean", reduction);
  const ir::Dims* scores = context.dims(0);
  const ir::Dims* labels = context.dims(1);
  if (scores != nullptr) context.check(scores->size() >= 2, "scores have rank {}, expected at least 2", scores->size());
  if (scores != nullptr && labels != nullptr) {
    ir::Dims expected = *scores;
    expected.erase(expected.begin() + 1);
    bool agree = expected.size() == labels->size();
    for (std::size_t i = 0; agree && i < expected.size(); ++i) agree = expected[i].may_equal((*labels)[i]);
    context.check(agree, "labels of shape {} do not fit scores of shape {}", to_string(*labels), to_string(*scores));
  }
  if (context.has_input(2) && context.dims(2) != nullptr) {
    context.check(context.dims(2)->size() == 1 && (scores == nullptr || (*context.dims(2))[0].may_equal((*scores)[1])),
                  "class weights have shape {}", to_string(*context.dims(2)));
  }
  if (reduction != "none") context.set_output(0, context.dtype(0), {});
  else if (labels != nullptr) context.set_output(0, context.dtype(0), *labels);
  else context.set_output_unknown_rank(0, context.dtype(0));
  context.set_output(1, context.input(0));
}

// The gradient with respect to the log-probabilities: minus the weight of its class at each target, divided by the sum
// of all weights for "mean".
Term likelihood_gradient(GradientContext& c) {
  require(!c.wants(2), ErrorKind::unsupported, "class weights are not differentiated");
  const Term scores = c.input(0);
  Term labels = c.input(1).cast(DType::i64);
  std::optional<Term> counts;
  if (c.has_attribute("ignore_index")) {
    const Term ignored = labels.equals({c.builder(), c.builder().constant(Tensor::scalar(c.integer("ignore_index")))});
    counts = ignored.apply("Not");
    labels = ignored.choose({c.builder(), c.builder().constant(Tensor::scalar(std::int64_t{0}))}, labels);
  }
  Term weight = c.has_input(2) ? c.input(2).combine("Gather", {labels}) : scores.number(1).expand_like(labels);
  if (counts) weight = counts->choose(weight, 0);
  Term g = c.gradient() * weight;
  if (c.text("reduction") == "mean") g = g / weight.apply("ReduceSum", {{"keepdims", std::int64_t{0}}});
  return scores.zeros().combine("ScatterElements", {labels.unsqueeze({1}), (-g).unsqueeze({1})},
                                {{"axis", std::int64_t{1}}});
}

void cross_entropy_gradient(GradientContext& c) {
  Term g = likelihood_gradient(c);
  if (c.has_gradient(1)) g = g + c.gradient(1);
  c.set(0, g - c.input(0).apply("Softmax", {{"axis", std::int64_t{1}}}) * g.sum({1}));
}

const std::vector<AttributeSpec> attributes{{"ignore_index", ir::AttributeKind::integer},
                                            {"reduction", ir::AttributeKind::text, ir::Attribute(std::string("mean"))}};

}  // namespace

// loss = −weight[target] · input[target]; "mean" divides by the sum of the weights used. Targets equal to ignore_index
// are left out.
const OpDef negative_log_likelihood_loss{
    .name = "NegativeLogLikelihoodLoss",
    .since = 22,
    .inputs = {{"input", types::floats, "T"},
               {"target", types::index, "Tind"},
               {"weight", types::floats, "T", optional}},
    .outputs = {{"loss", types::floats, "T"}},
    .attributes = attributes,
    .infer = infer_loss,
    .operations = operations_per_output<2>,
    .gradient = [](GradientContext& c) { c.set(0, likelihood_gradient(c)); },
};

// NegativeLogLikelihoodLoss of log softmax(scores) along axis 1.
const OpDef softmax_cross_entropy_loss{
    .name = "SoftmaxCrossEntropyLoss",
    .since = 13,
    .inputs = {{"scores", types::floats, "T"},
               {"labels", types::index, "Tind"},
               {"weights", types::floats, "T", optional}},
    .outputs = {{"output", types::floats, "T"}, {"log_prob", types::floats, "T", optional}},
    .attributes = attributes,
    .infer = infer_loss,
    .operations = operations_per_input<6>,
    .gradient = cross_entropy_gradient,
};

}  // namespace tessera::ops
