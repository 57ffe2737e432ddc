#include "train/net/losses.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "ops/core/gradient.h"

namespace tessera::train {
namespace {

using ops::Term;

// A loss before its mean: its terms, and the weight of each (nothing if all are equal). The first dimension is the
// batch.
struct Terms {
  Term losses;
  std::optional<Term> weights;
};

// log(1 + exp(x)) without overflow.
Term softplus(Term x) {
  return x.apply("Softplus");
}

std::string shape_of(Term term) {
  return to_string(term.dims());
}

void require_equal_shapes(Term a, Term b, const LossOptions& options) {
  bool agree = a.rank() == b.rank();
  const ir::Dims left = a.dims(), right = b.dims();
  for (std::size_t i = 0; agree && i < left.size(); ++i) agree = left[i].may_equal(right[i]);
  require(agree, ErrorKind::invalid_argument, "{}: the prediction {} and the target {} differ in shape", options.name,
          shape_of(a), shape_of(b));
}

// Whether `labels` has the shape of `scores` without the axis.
bool fits_without(Term scores, Term labels, std::size_t axis) {
  ir::Dims expected = scores.dims();
  expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(axis));
  const ir::Dims found = labels.dims();
  bool agree = expected.size() == found.size();
  for (std::size_t i = 0; agree && i < found.size(); ++i) agree = expected[i].may_equal(found[i]);
  return agree;
}

// The axis of the scores along which classes lie.
std::int64_t class_axis(Term scores, Term labels, const LossOptions& options) {
  const auto rank = static_cast<std::size_t>(scores.rank());
  if (options.class_axis != 0) {
    const std::int64_t axis = options.class_axis < 0 ? options.class_axis + scores.rank() : options.class_axis;
    require(rank >= 2 && (axis == 1 || axis == scores.rank() - 1), ErrorKind::invalid_argument,
            "{}: loss.class_axis is {}, expected 1 or -1, for a prediction {}", options.name, options.class_axis,
            shape_of(scores));
    require(fits_without(scores, labels, static_cast<std::size_t>(axis)), ErrorKind::invalid_argument,
            "{}: labels {} do not fit a prediction {} with its classes along axis {}", options.name, shape_of(labels),
            shape_of(scores), axis);
    return axis;
  }
  if (rank >= 2 && fits_without(scores, labels, 1)) return 1;
  require(rank >= 2 && fits_without(scores, labels, rank - 1), ErrorKind::invalid_argument,
          "{}: labels {} do not fit a prediction {}; expected its shape without the classes, which are along axis 1 or "
          "the last axis",
          options.name, shape_of(labels), shape_of(scores));
  return static_cast<std::int64_t>(rank) - 1;
}

// The scores, transposed so that classes lie along axis 1.
Term classes_at_1(Term scores, Term labels, const LossOptions& options) {
  if (class_axis(scores, labels, options) == 1) return scores;
  std::vector<std::int64_t> order(static_cast<std::size_t>(scores.rank()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return scores.transpose(order);
}

Term in_float(Term term) {
  return term.dtype() == DType::f64 ? term : term.cast(DType::f32);
}

// A tensor of factors, in the element type of `like`.
Term factors_of(ops::GraphBuilder& builder, const std::vector<double>& values, const Shape& shape, Term like) {
  Tensor factors(DType::f64, shape);
  std::ranges::copy(values, factors.mutable_data<double>());
  return Term(builder, builder.constant(std::move(factors))).cast(like.dtype());
}

// torch.nn.functional.cross_entropy with weights: (1 − s) w[y] · −log p[y] + s / C · Σ w[c] · −log p[c], with the sum
// of w[y] as the divisor of the mean.
Terms weighted_cross_entropy(ops::GraphBuilder& builder, Term scores, Term labels, const LossOptions& options) {
  const std::int64_t axis = class_axis(scores, labels, options);
  const ir::Dim classes = scores.dims()[static_cast<std::size_t>(axis)];
  std::vector<double> weights = options.class_weights;
  const auto count = static_cast<std::int64_t>(weights.size());
  require(classes.is_known() && (classes.value() == count || (options.balanced_classes && count < classes.value())),
          ErrorKind::invalid_argument, "class_weights has {} numbers, but the prediction {} has {} classes", count,
          shape_of(scores), ir::to_string(classes));
  for (const double weight : weights)
    require(weight >= 0 && std::isfinite(weight), ErrorKind::invalid_argument,
            "class_weights has {}, expected numbers of at least 0", weight);
  require(std::ranges::any_of(weights, [](double weight) { return weight > 0; }), ErrorKind::invalid_argument,
          "all numbers of class_weights are 0, so that nothing would be learnt; expected one above 0");
  weights.resize(static_cast<std::size_t>(classes.value()), 1.0);
  const Term ignored = labels.equals(labels.number(static_cast<double>(options.ignore_index)));
  const Term table = factors_of(builder, weights, {classes.value()}, scores);
  const Term known = ignored.choose(labels.number(0), labels).of_shape(labels);
  const Term looked_up = table.combine("Gather", {known}, {{"axis", std::int64_t{0}}});
  const Term factor = ignored.choose(scores.number(0), looked_up).of_shape(labels);
  Term losses = factor * scores.combine("tessera::SoftmaxCrossEntropy", {labels},
                                        {{"axis", axis}, {"ignore_index", options.ignore_index}});
  if (options.label_smoothing > 0) {
    Shape along(static_cast<std::size_t>(scores.rank()), 1);
    along[static_cast<std::size_t>(axis)] = classes.value();
    const Term all = (scores.apply("LogSoftmax", {{"axis", axis}}) * factors_of(builder, weights, along, scores))
                         .sum({axis}, false)
                         .of_shape(labels);
    const Term smooth = ignored.choose(scores.number(0), all).of_shape(labels);
    losses = losses * (1 - options.label_smoothing) -
             smooth * (options.label_smoothing / static_cast<double>(classes.value()));
  }
  return {losses, factor};
}

Terms cross_entropy(ops::GraphBuilder& builder, Term scores, Term labels, const LossOptions& options) {
  require(options.label_smoothing >= 0 && options.label_smoothing < 1, ErrorKind::invalid_argument,
          "label_smoothing is {}, expected a number in [0, 1)", options.label_smoothing);
  const std::int64_t axis = class_axis(scores, labels, options);
  labels = labels.cast(DType::i64);
  if (!options.class_weights.empty()) return weighted_cross_entropy(builder, scores, labels, options);
  const Term ignored = labels.equals(labels.number(static_cast<double>(options.ignore_index)));
  const Term counts = ignored.choose(scores.number(0), scores.number(1)).of_shape(labels);
  return {scores.combine("tessera::SoftmaxCrossEntropy", {labels},
                         {{"axis", axis},
                          {"ignore_index", options.ignore_index},
                          {"label_smoothing", static_cast<float>(options.label_smoothing)}}),
          counts};
}

Terms binary_cross_entropy(ops::GraphBuilder& builder, Term logits, Term target, const LossOptions& options) {
  require_equal_shapes(logits, target, options);
  // −t log σ(x) − (1 − t) log(1 − σ(x)) = softplus(x) − t x
  if (options.pos_weight.empty()) return {softplus(logits) - target * logits, std::nullopt};
  const std::vector<double>& weights = options.pos_weight;
  for (const double weight : weights)
    require(weight >= 0 && std::isfinite(weight), ErrorKind::invalid_argument,
            "pos_weight is {}, expected numbers of at least 0", weight);
  Shape along(static_cast<std::size_t>(logits.rank()), 1);
  if (weights.size() > 1) {
    const bool fits = along.size() > 1 && logits.dims()[1].may_equal(static_cast<std::int64_t>(weights.size()));
    require(fits, ErrorKind::invalid_argument,
            "pos_weight has {} numbers, expected one, or one for each position along axis 1 of the prediction {}",
            weights.size(), shape_of(logits));
    along[1] = static_cast<std::int64_t>(weights.size());
  }
  // −p t log σ(x) − (1 − t) log(1 − σ(x)) = (1 − t) x + (1 + (p − 1) t) softplus(−x)
  const Term factor = 1 + (factors_of(builder, weights, along, logits) - 1) * target;
  return {(1 - target) * logits + factor * softplus(-logits), std::nullopt};
}

Terms squared_error(ops::GraphBuilder&, Term prediction, Term target, const LossOptions& options) {
  require_equal_shapes(prediction, target, options);
  const Term difference = prediction - target;
  return {difference * difference, std::nullopt};
}

Terms absolute_error(ops::GraphBuilder&, Term prediction, Term target, const LossOptions& options) {
  require_equal_shapes(prediction, target, options);
  return {(prediction - target).apply("Abs"), std::nullopt};
}

Terms smooth_absolute_error(ops::GraphBuilder&, Term prediction, Term target, const LossOptions& options) {
  require(options.beta > 0, ErrorKind::invalid_argument, "beta of smooth_l1 is {}, expected a positive number",
          options.beta);
  require_equal_shapes(prediction, target, options);
  const Term difference = prediction - target, size = difference.apply("Abs");
  return {(size < options.beta).choose(difference * difference * (0.5 / options.beta), size - options.beta / 2),
          std::nullopt};
}

// torch.nn.HuberLoss: d² / 2 below delta, delta (|d| − delta / 2) above, which is delta times smooth_l1 with beta =
// delta.
Terms huber(ops::GraphBuilder& builder, Term prediction, Term target, const LossOptions& options) {
  require(options.delta > 0, ErrorKind::invalid_argument, "delta of huber is {}, expected a positive number",
          options.delta);
  LossOptions smooth = options;
  smooth.beta = options.delta;
  const Terms terms = smooth_absolute_error(builder, prediction, target, smooth);
  return {terms.losses * options.delta, std::nullopt};
}

Terms focal(ops::GraphBuilder& builder, Term logits, Term target, const LossOptions& options) {
  require(options.gamma >= 0 && options.alpha <= 1, ErrorKind::invalid_argument,
          "focal: gamma is {} and alpha {}, expected at least 0 and at most 1", options.gamma, options.alpha);
  const Term entropy = binary_cross_entropy(builder, logits, target, options).losses;
  const Term p = logits.apply("Sigmoid");
  const Term miss = p * (1 - target) + (1 - p) * target;  // 1 − p_t
  Term losses = entropy * miss.combine("Pow", {miss.number(options.gamma)});
  if (options.alpha >= 0) losses = losses * (target * (2 * options.alpha - 1) + (1 - options.alpha));
  return {losses, std::nullopt};
}

Terms distillation(ops::GraphBuilder&, Term logits, Term teacher, const LossOptions& options) {
  require(options.temperature > 0, ErrorKind::invalid_argument,
          "the temperature of the distillation is {}, expected a positive number", options.temperature);
  require_equal_shapes(logits, teacher, options);
  require(logits.rank() == 2, ErrorKind::invalid_argument,
          "distillation: the prediction is {}, expected logits [N, classes]", shape_of(logits));
  const ir::Attributes along_classes{{"axis", std::int64_t{1}}};
  const Term own = (logits / options.temperature).apply("LogSoftmax", along_classes);
  const Term other = (teacher / options.temperature).apply("LogSoftmax", along_classes);
  const Term divergence = (other.apply("Exp") * (other - own)).sum({1}, false);
  return {divergence * (options.temperature * options.temperature), std::nullopt};
}

Terms dice(ops::GraphBuilder&, Term scores, Term labels, const LossOptions& options) {
  require(options.smoothing >= 0, ErrorKind::invalid_argument, "smoothing of dice is {}, expected at least 0",
          options.smoothing);
  scores = classes_at_1(scores, labels, options);
  const ir::Dim classes = scores.dims()[1];
  require(classes.is_known(), ErrorKind::invalid_argument, "dice needs a known number of classes, the prediction is {}",
          shape_of(scores));
  labels = labels.cast(DType::i64).unsqueeze({1});
  std::optional<Term> p, t;
  if (classes.value() == 1) {
    p = scores.apply("Sigmoid");
    t = labels.cast(scores.dtype());
  } else {
    p = scores.apply("Softmax", {{"axis", std::int64_t{1}}});
    Shape shape(static_cast<std::size_t>(scores.rank()), 1);
    shape[1] = classes.value();
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(classes.value()));
    std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
    t = labels.equals(labels.integers(numbers).reshape(labels.integers(shape))).cast(scores.dtype());
  }
  std::vector<std::int64_t> axes(static_cast<std::size_t>(scores.rank() - 2));
  std::iota(axes.begin(), axes.end(), std::int64_t{2});
  const auto total = [&](Term term) { return axes.empty() ? term : term.sum(axes, false); };
  const Term overlap = total(*p * *t) * 2 + options.smoothing;
  return {1 - overlap / (total(*p) + total(*t) + options.smoothing), std::nullopt};
}

Terms ctc(ops::GraphBuilder&, Term scores, Term labels, const LossOptions& options) {
  require(options.blank >= 0, ErrorKind::invalid_argument, "blank of ctc is {}, expected a class", options.blank);
  require(scores.rank() == 3 && labels.rank() == 2, ErrorKind::invalid_argument,
          "ctc: the prediction is {} and the labels {}, expected [N, time, classes] and [N, length]", shape_of(scores),
          shape_of(labels));
  return {scores.combine("tessera::CtcLoss", {labels.cast(DType::i64)},
                         {{"blank", options.blank}, {"ignore_index", options.ignore_index}}),
          std::nullopt};
}

struct Loss {
  std::string_view name;
  Terms (*terms)(ops::GraphBuilder& builder, Term prediction, Term target, const LossOptions& options);
  TargetKind target;
};

constexpr std::array<Loss, 10> kLosses = {{
    {"cross_entropy", cross_entropy, TargetKind::labels},
    {"bce", binary_cross_entropy, TargetKind::probabilities},
    {"mse", squared_error, TargetKind::numbers},
    {"l1", absolute_error, TargetKind::numbers},
    {"smooth_l1", smooth_absolute_error, TargetKind::numbers},
    {"huber", huber, TargetKind::numbers},
    {"focal", focal, TargetKind::probabilities},
    {"distillation", distillation, TargetKind::numbers},
    {"dice", dice, TargetKind::labels},
    {"ctc", ctc, TargetKind::labels},
}};

const Loss& loss_named(const std::string& name) {
  const auto found = std::ranges::find(kLosses, name, &Loss::name);
  if (found != kLosses.end()) return *found;
  std::string names;
  for (const Loss& loss : kLosses) names += (names.empty() ? "" : ", ") + std::string(loss.name);
  fail(ErrorKind::invalid_argument, "unknown loss '{}'; there are {}", name, names);
}

Term total(Term term) {
  return term.apply("ReduceSum", {{"keepdims", std::int64_t{0}}});
}

// λ of each sample, with as many axes as the losses have.
Term like_samples(Term mix, Term losses) {
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = 1; axis < losses.rank(); ++axis) axes.push_back(axis);
  return axes.empty() ? mix : mix.unsqueeze(axes);
}

}  // namespace

TargetKind target_kind(const std::string& loss) {
  return loss_named(loss).target;
}

LossValues build_loss(ops::GraphBuilder& builder, const LossInputs& inputs, const LossOptions& options) {
  const Loss& loss = loss_named(options.name);
  require(options.class_weights.empty() || options.name == "cross_entropy", ErrorKind::invalid_argument,
          "class_weights are for cross_entropy, not for {}; of bce there is pos_weight", options.name);
  require(options.pos_weight.empty() || options.name == "bce", ErrorKind::invalid_argument,
          "pos_weight is for bce, not for {}", options.name);
  const Term prediction = in_float({builder, inputs.prediction});
  const auto terms_of = [&](ir::ValueId target) {
    const Term labels(builder, target);
    const bool real = labels.dtype() == DType::f16 || labels.dtype() == DType::bf16 || labels.dtype() == DType::f32;
    return loss.terms(builder, prediction, real ? labels.cast(prediction.dtype()) : labels, options);
  };
  Terms terms = terms_of(inputs.target);
  if (inputs.mixed_target) {
    require(inputs.mix.has_value(), ErrorKind::invalid_argument, "a mixed target needs its share");
    const Terms mixed = terms_of(*inputs.mixed_target);
    const Term share = like_samples(Term(builder, *inputs.mix).cast(prediction.dtype()), terms.losses);
    terms.losses = terms.losses * share + mixed.losses * (1 - share);
    if (!options.class_weights.empty()) terms.weights = *terms.weights * share + *mixed.weights * (1 - share);
  }
  const Term sum = total(terms.losses);
  const Term counted = terms.weights ? total(*terms.weights) : terms.losses.count();
  if (!terms.weights) return {(sum / counted).id(), counted.id()};
  // The loss of a batch in which nothing counts is 0.
  if (options.class_weights.empty()) return {(sum / counted.combine("Max", {counted.number(1)})).id(), counted.id()};
  return {(sum / (counted > 0).choose(counted, 1)).id(), counted.id()};
}

}  // namespace tessera::train

namespace tessera {

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const train::Loss& loss : train::kLosses) names.emplace_back(loss.name);
  return names;
}

}  // namespace tessera
