#include "ops/classical/linear_model.h"

#include "backends/backend.h"
#include "backends/host/numeric.h"
#include "backends/host/pair_scores.h"

namespace tessera::backends::reference {

using namespace host;

namespace {

using Row = std::span<const double>;

std::vector<double> reals_of(const KernelContext& context, std::string_view name) {
  if (!context.has_attribute(name)) return {};
  const std::vector<float>& values = context.reals(name);
  return {values.begin(), values.end()};
}

double dot(Row a, Row b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Calls body(row number, row) for every row of X.
template <typename Body>
void for_each_row(KernelContext& context, Body body) {
  const std::vector<double> x = read<double>(context.input(0));
  const Shape& shape = context.input(0).shape();
  const auto columns = static_cast<std::size_t>(shape.back());
  const std::size_t rows = shape.size() == 2 ? static_cast<std::size_t>(shape[0]) : 1;
  for (std::size_t i = 0; i < rows; ++i) {
    context.check_stop();
    body(i, Row(x.data() + i * columns, columns));
  }
}

void set_label(KernelContext& context, std::size_t row, std::size_t winner) {
  if (!context.wants_output(0)) return;
  Tensor& labels = context.output(0);
  if (labels.dtype() == DType::string)
    labels.mutable_data<std::string>()[row] = context.texts("classlabels_strings")[winner];
  else labels.mutable_data<std::int64_t>()[row] = context.integers("classlabels_ints")[winner];
}

std::size_t best_of(const std::vector<double>& scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

// x . coefficients[i] + intercepts[i] for every set of coefficients.
std::vector<double> linear_scores(Row x, const std::vector<double>& coefficients, const std::vector<double>& intercepts,
                                  std::size_t count) {
  std::vector<double> scores(count);
  for (std::size_t i = 0; i < count; ++i) {
    scores[i] = dot(x, Row(coefficients).subspan(i * x.size(), x.size())) + (intercepts.empty() ? 0 : intercepts[i]);
  }
  return scores;
}

double kernel_value(const ops::SvmPlan& plan, Row a, Row b) {
  using Kind = ops::SvmPlan::Kernel;
  if (plan.kernel == Kind::rbf) {
    double distance = 0;
    for (std::size_t i = 0; i < a.size(); ++i) distance += (a[i] - b[i]) * (a[i] - b[i]);
    return std::exp(-plan.gamma * distance);
  }
  const double product = dot(a, b);
  if (plan.kernel == Kind::poly) return std::pow(plan.gamma * product + plan.coefficient, plan.degree);
  if (plan.kernel == Kind::sigmoid) return std::tanh(plan.gamma * product + plan.coefficient);
  return product;
}

std::vector<double> kernel_values(const ops::SvmPlan& plan, Row x, const std::vector<double>& vectors) {
  std::vector<double> values(static_cast<std::size_t>(plan.vectors));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = kernel_value(plan, x, Row(vectors).subspan(i * x.size(), x.size()));
  }
  return values;
}

// The decisions of all pairs of classes, and the votes they give; s > 0 is a vote for the first of the pair.
struct PairDecisions {
  std::vector<double> scores, votes;
};

PairDecisions decide_pairs(const ops::SvmPlan& plan, const std::vector<std::int64_t>& per_class,
                           const std::vector<double>& coefficients, const std::vector<double>& rho,
                           const std::vector<double>& kernels) {
  const auto classes = static_cast<std::size_t>(plan.classes), vectors = static_cast<std::size_t>(plan.vectors);
  std::vector<std::size_t> first(classes + 1, 0);
  for (std::size_t i = 0; i < classes; ++i) first[i + 1] = first[i] + static_cast<std::size_t>(per_class[i]);
  const auto side = [&](std::size_t row, std::size_t of) {
    const std::size_t count = first[of + 1] - first[of];
    return dot(Row(coefficients).subspan(row * vectors + first[of], count), Row(kernels).subspan(first[of], count));
  };
  PairDecisions result{{}, std::vector<double>(classes, 0.0)};
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j) {
      const double score = rho[result.scores.size()] + side(j - 1, i) + side(i, j);
      result.scores.push_back(score);
      result.votes[score > 0 ? i : j] += 1;
    }
  }
  return result;
}

}  // namespace

void linear_regressor(KernelContext& context) {
  const auto targets = static_cast<std::size_t>(context.integer("targets"));
  const std::vector<double> coefficients = reals_of(context, "coefficients"),
                            intercepts = reals_of(context, "intercepts");
  const ops::PostTransform transform = ops::post_transform_named(context.text("post_transform"));
  std::vector<double> y;
  for_each_row(context, [&](std::size_t, Row x) {
    std::vector<double> scores = linear_scores(x, coefficients, intercepts, targets);
    transform_scores(scores, transform);
    y.insert(y.end(), scores.begin(), scores.end());
  });
  write(y, context.output(0));
}

void linear_classifier(KernelContext& context) {
  const std::vector<double> coefficients = reals_of(context, "coefficients"),
                            intercepts = reals_of(context, "intercepts");
  const ops::PostTransform transform = ops::post_transform_named(context.text("post_transform"));
  std::vector<double> z;
  for_each_row(context, [&](std::size_t row, Row x) {
    std::vector<double> scores = linear_scores(x, coefficients, intercepts, coefficients.size() / x.size());
    // Classes tie if their float32 scores, which the operator returns, are equal.
    for (double& score : scores) score = static_cast<float>(score);
    if (scores.size() == 1) {
      set_label(context, row, scores[0] > 0 ? 1 : 0);
      scores = scores_of_pair(scores[0], transform);
    } else {
      set_label(context, row, best_of(scores));
      transform_scores(scores, transform);
    }
    z.insert(z.end(), scores.begin(), scores.end());
  });
  if (context.wants_output(1)) write(z, context.output(1));
}

void svm_regressor(KernelContext& context) {
  const ops::SvmPlan plan = ops::read_svm(context, context.input(0).shape().back());
  const std::vector<double> coefficients = reals_of(context, "coefficients"),
                            vectors = reals_of(context, "support_vectors");
  const double rho = context.reals("rho")[0];
  const ops::PostTransform transform = ops::post_transform_named(context.text("post_transform"));
  std::vector<double> y;
  for_each_row(context, [&](std::size_t, Row x) {
    double score = rho + (plan.vectors > 0 ? dot(kernel_values(plan, x, vectors), coefficients)
                                           : kernel_value(plan, x, coefficients));
    if (context.integer("one_class") != 0) score = score > 0 ? 1 : -1;
    transform_scores(std::span<double>(&score, 1), transform);
    y.push_back(score);
  });
  write(y, context.output(0));
}

void svm_classifier(KernelContext& context) {
  const ops::SvmPlan plan = ops::read_svm(context, context.input(0).shape().back());
  const auto classes = static_cast<std::size_t>(plan.classes);
  const std::vector<double> coefficients = reals_of(context, "coefficients"),
                            vectors = reals_of(context, "support_vectors");
  const std::vector<double> rho = reals_of(context, "rho"), a = reals_of(context, "prob_a"),
                            b = reals_of(context, "prob_b");
  const std::vector<std::int64_t> per_class = context.integers_or_empty("vectors_per_class");
  const ops::PostTransform transform = ops::post_transform_named(context.text("post_transform"));
  std::vector<double> z;
  for_each_row(context, [&](std::size_t row, Row x) {
    std::vector<double> scores(classes);
    std::size_t winner = 0;
    if (plan.vectors == 0) {
      for (std::size_t i = 0; i < classes; ++i) {
        scores[i] = rho[0] + kernel_value(plan, x, Row(coefficients).subspan(i * x.size(), x.size()));
      }
      winner = best_of(scores);
    } else {
      const PairDecisions pairs = decide_pairs(plan, per_class, coefficients, rho, kernel_values(plan, x, vectors));
      scores = plan.probabilities ? probabilities_of_pairs(classes, pairs.scores, a, b) : pairs.scores;
      winner = best_of(pairs.votes);
    }
    set_label(context, row, winner);
    if (scores.size() > 1) transform_scores(scores, transform);
    else if (transform == ops::PostTransform::none) scores = {-scores[0], scores[0]};
    else scores = scores_of_pair(scores[0], transform);
    z.insert(z.end(), scores.begin(), scores.end());
  });
  if (context.wants_output(1)) write(z, context.output(1));
}

}  // namespace tessera::backends::reference
