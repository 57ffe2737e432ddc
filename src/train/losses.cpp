#include "train/losses.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "ops/gradient.h"

namespace tessera::train {
namespace {

using ops::Term;

// A loss before its mean: a term of one number for each thing that counts, and how much each of them counts (nothing:
// all the same). The first dimension is the batch.
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

// Whether `labels` have the shape of `scores` without the axis.
bool fits_without(Term scores, Term labels, std::size_t axis) {
  ir::Dims expected = scores.dims();
  expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(axis));
  const ir::Dims found = labels.dims();
  bool agree = expected.size() == found.size();
  for (std::size_t i = 0; agree && i < found.size(); ++i) agree = expected[i].may_equal(found[i]);
  return agree;
}

// The axis of the scores' classes.
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

// The scores with their classes along axis 1.
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

Terms cross_entropy(Term scores, Term labels, const LossOptions& options) {
  require(options.label_smoothing >= 0 && options.label_smoothing < 1, ErrorKind::invalid_argument,
          "label_smoothing is {}, expected a number in [0, 1)", options.label_smoothing);
  const std::int64_t axis = class_axis(scores, labels, options);
  labels = labels.cast(DType::i64);
  const Term ignored = labels.equals(labels.number(static_cast<double>(options.ignore_index)));
  const Term counts = ignored.choose(scores.number(0), scores.number(1)).of_shape(labels);
  return {scores.combine("tessera::SoftmaxCrossEntropy", {labels},
                         {{"axis", axis},
                          {"ignore_index", options.ignore_index},
                          {"label_smoothing", static_cast<float>(options.label_smoothing)}}),
          counts};
}

Terms binary_cross_entropy(Term logits, Term target, const LossOptions& options) {
  require_equal_shapes(logits, target, options);
  // −t log σ(x) − (1 − t) log(1 − σ(x)) = softplus(x) − t x
  return {softplus(logits) - target * logits, std::nullopt};
}

Terms squared_error(Term prediction, Term target, const LossOptions& options) {
  require_equal_shapes(prediction, target, options);
  const Term difference = prediction - target;
  return {difference * difference, std::nullopt};
}

Terms absolute_error(Term prediction, Term target, const LossOptions& options) {
  require_equal_shapes(prediction, target, options);
  return {(prediction - target).apply("Abs"), std::nullopt};
}

Terms smooth_absolute_error(Term prediction, Term target, const LossOptions& options) {
  require(options.beta > 0, ErrorKind::invalid_argument, "beta of smooth_l1 is {}, expected a positive number",
          options.beta);
  require_equal_shapes(prediction, target, options);
  const Term difference = prediction - target, size = difference.apply("Abs");
  return {(size < options.beta).choose(difference * difference * (0.5 / options.beta), size - options.beta / 2),
          std::nullopt};
}

Terms focal(Term logits, Term target, const LossOptions& options) {
  require(options.gamma >= 0 && options.alpha <= 1, ErrorKind::invalid_argument,
          "focal: gamma is {} and alpha {}, expected at least 0 and at most 1", options.gamma, options.alpha);
  const Term entropy = binary_cross_entropy(logits, target, options).losses;
  const Term p = logits.apply("Sigmoid");
  const Term miss = p * (1 - target) + (1 - p) * target;  // 1 − p_t
  Term losses = entropy * miss.combine("Pow", {miss.number(options.gamma)});
  if (options.alpha >= 0) losses = losses * (target * (2 * options.alpha - 1) + (1 - options.alpha));
  return {losses, std::nullopt};
}

Terms distillation(Term logits, Term teacher, const LossOptions& options) {
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

Terms dice(Term scores, Term labels, const LossOptions& options) {
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

Terms ctc(Term scores, Term labels, const LossOptions& options) {
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
  Terms (*terms)(Term prediction, Term target, const LossOptions& options);
  TargetKind target;
};

constexpr std::array<Loss, 9> kLosses = {{
    {"cross_entropy", cross_entropy, TargetKind::labels},
    {"bce", binary_cross_entropy, TargetKind::probabilities},
    {"mse", squared_error, TargetKind::numbers},
    {"l1", absolute_error, TargetKind::numbers},
    {"smooth_l1", smooth_absolute_error, TargetKind::numbers},
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

ir::ValueId build_loss(ops::GraphBuilder& builder, const LossInputs& inputs, const LossOptions& options) {
  const Loss& loss = loss_named(options.name);
  const Term prediction = in_float({builder, inputs.prediction});
  const auto terms_of = [&](ir::ValueId target) {
    const Term labels(builder, target);
    const bool real = labels.dtype() == DType::f16 || labels.dtype() == DType::bf16 || labels.dtype() == DType::f32;
    return loss.terms(prediction, real ? labels.cast(prediction.dtype()) : labels, options);
  };
  Terms terms = terms_of(inputs.target);
  if (inputs.mixed_target) {
    require(inputs.mix.has_value(), ErrorKind::invalid_argument, "a mixed target needs its share");
    const Terms mixed = terms_of(*inputs.mixed_target);
    const Term share = like_samples(Term(builder, *inputs.mix).cast(prediction.dtype()), terms.losses);
    terms.losses = terms.losses * share + mixed.losses * (1 - share);
  }
  const Term sum = total(terms.losses);
  if (!terms.weights) return (sum / terms.losses.count()).id();
  const Term counted = total(*terms.weights);
  // A batch in which nothing counts has the loss 0.
  return (sum / counted.combine("Max", {counted.number(1)})).id();
}

}  // namespace tessera::train

namespace tessera {

std::vector<std::string> loss_names() {
  std::vector<std::string> names;
  for (const train::Loss& loss : train::kLosses) names.emplace_back(loss.name);
  return names;
}

}  // namespace tessera
