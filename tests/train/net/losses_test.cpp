#include "train/net/losses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "passes/training/differentiate.h"
#include "support/evaluate_graph.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"

namespace tessera::train::losses_test {
namespace {

using test::expect_error_containing;

// A graph of one loss with its prediction and target as inputs, and its gradient.
struct LossGraph {
  ir::Graph graph;
  ir::ValueId loss, gradient;
};

ir::Dims dims_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

LossGraph make(const Tensor& prediction, const Tensor& target, const LossOptions& options, bool differentiate = true) {
  LossGraph result;
  ops::GraphBuilder builder(result.graph);
  const ir::ValueId x =
      result.graph.add_input("x", ir::ValueType::tensor(prediction.dtype(), dims_of(prediction.shape())));
  const ir::ValueId y = result.graph.add_input("y", ir::ValueType::tensor(target.dtype(), dims_of(target.shape())));
  result.loss = build_loss(builder, {x, y, {}, {}}, options).loss;
  if (differentiate) {
    const ir::ValueId xs[] = {x};
    result.gradient = passes::build_gradients(result.graph, result.loss, xs)[0];
  }
  return result;
}

double value_of(const LossGraph& made, const Tensor& prediction, const Tensor& target) {
  const std::vector<Value> values = test::evaluate_graph(made.graph, {{"x", prediction}, {"y", target}});
  const Tensor& loss = values[made.loss.index].tensor();
  return loss.dtype() == DType::f64 ? loss.data<double>()[0] : loss.data<float>()[0];
}

// The loss equals `expected`, and its gradient central differences.
void expect_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options, double expected) {
  const LossGraph made = make(prediction, target, options);
  EXPECT_NEAR(value_of(made, prediction, target), expected, 1e-10 * std::max(1.0, std::abs(expected))) << options.name;
  const std::vector<Value> values = test::evaluate_graph(made.graph, {{"x", prediction}, {"y", target}});
  const Tensor gradient = values[made.gradient.index].tensor();
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < prediction.elements(); ++i) {
    Tensor up = prediction.clone(), down = prediction.clone();
    up.mutable_data<double>()[i] += kStep;
    down.mutable_data<double>()[i] -= kStep;
    const double slope = (value_of(made, up, target) - value_of(made, down, target)) / (2 * kStep);
    EXPECT_NEAR(gradient.data<double>()[i], slope, 1e-7) << options.name << " element " << i;
  }
}

Tensor logits(const Shape& shape, std::uint64_t seed) {
  return test::random_tensor(DType::f64, shape, seed, -3, 3);
}

// −log softmax of the scores of one position, `stride` apart.
double log_likelihood(const double* scores, std::int64_t classes, std::int64_t stride, std::int64_t label) {
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(scores[c * stride]);
  return std::log(sum) - scores[label * stride];
}

TEST(CrossEntropy, CountsEveryLabelButTheIgnored) {
  const Tensor x = logits({4, 3}, 1);
  const Tensor y = Tensor::from<std::int64_t>({4}, {2, -100, 0, 1});
  const double* s = x.data<double>();
  const double expected =
      (log_likelihood(s, 3, 1, 2) + log_likelihood(s + 6, 3, 1, 0) + log_likelihood(s + 9, 3, 1, 1)) / 3;
  expect_loss(x, y, {}, expected);
  expect_loss(x, Tensor::from<std::int64_t>({4}, {-100, -100, -100, -100}), {}, 0);
}

TEST(CrossEntropy, SmoothsLabels) {
  const Tensor x = logits({2, 3}, 2);
  const double* s = x.data<double>();
  double expected = 0;
  for (std::int64_t n = 0; n < 2; ++n) {
    double all = 0;
    for (std::int64_t c = 0; c < 3; ++c) all += log_likelihood(s + 3 * n, 3, 1, c) / 3;
    expected += (0.9 * log_likelihood(s + 3 * n, 3, 1, n) + 0.1 * all) / 2;
  }
  expect_loss(x, Tensor::from<std::int64_t>({2}, {0, 1}), {.label_smoothing = 0.1}, expected);
}

const Tensor kScores = Tensor::from<double>({4, 3}, {1, -2, 0.5, 0.25, 1.5, -1, 2, 0, 1, -0.5, 0.75, 1.25});

// The figures are those of torch.nn.functional.cross_entropy.
TEST(CrossEntropy, WeighsClasses) {
  const Tensor y = Tensor::from<std::int64_t>({4}, {2, 0, -100, 1});
  expect_loss(kScores, y, {.class_weights = {0.5, 2, 3}}, 1.081681834321445);
  expect_loss(kScores, y, {.label_smoothing = 0.1, .class_weights = {0.5, 2, 3}}, 1.1260796649737657);
  // Labels of weight 0 alone.
  EXPECT_EQ(value_of(make(kScores, Tensor::from<std::int64_t>({4}, {0, 0, 0, 0}), {.class_weights = {0, 1, 1}}),
                     kScores, Tensor::from<std::int64_t>({4}, {0, 0, 0, 0})),
            0);
  // A position of a text or an image has a label each; classes are along axis 1 or the last one.
  const Tensor first = Tensor::from<double>({1, 3, 2}, {1, 0.25, -2, 1.5, 0.5, -1}),
               last = Tensor::from<double>({1, 2, 3}, {1, -2, 0.5, 0.25, 1.5, -1});
  const double* s = kScores.data<double>();
  const double expected = (3 * log_likelihood(s, 3, 1, 2) + 0.5 * log_likelihood(s + 3, 3, 1, 0)) / 3.5;
  for (const Tensor& x : {first, last})
    expect_loss(x, Tensor::from<std::int64_t>({1, 2}, {2, 0}), {.class_weights = {0.5, 2, 3}}, expected);
}

// The figures are those of torch.nn.functional.binary_cross_entropy_with_logits.
TEST(BinaryCrossEntropy, WeighsPositiveTargets) {
  const Tensor y = Tensor::from<double>({4, 3}, {1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0});
  expect_loss(kScores, y, {.name = "bce", .pos_weight = {2.5}}, 1.1843679045236832);
  expect_loss(kScores, y, {.name = "bce", .pos_weight = {0.5, 2, 4}}, 1.2894195309476566);
}

TEST(CrossEntropy, TakesClassesAlongAxis1OrTheLast) {
  const Tensor last = logits({2, 4, 3}, 3);
  Tensor first(DType::f64, {2, 3, 4});
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t t = 0; t < 4; ++t) {
      for (std::int64_t c = 0; c < 3; ++c)
        first.mutable_data<double>()[(n * 3 + c) * 4 + t] = last.data<double>()[(n * 4 + t) * 3 + c];
    }
  }
  const Tensor y = Tensor::from<std::int64_t>({2, 4}, {0, 1, 2, 0, 2, 2, 1, -100});
  const double expected = value_of(make(first, y, {}), first, y);
  expect_loss(last, y, {}, expected);
}

TEST(CrossEntropy, TakesTheClassesAlongAxis1WhereBothFit) {
  const Tensor logits = test::random_tensor(DType::f64, {2, 3, 3}, 1, -1, 1);
  const Tensor labels = Tensor::from<std::int64_t>({2, 3}, {0, 2, 1, 1, 0, 2});
  const auto loss = [&](std::int64_t axis) {
    LossOptions options;
    options.class_axis = axis;
    return value_of(make(logits, labels, options), logits, labels);
  };
  const auto expected = [&](bool last) {
    double sum = 0;
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t i = 0; i < 3; ++i) {
        const auto at = [&](std::int64_t c) { return logits.data<double>()[n * 9 + (last ? i * 3 + c : c * 3 + i)]; };
        sum +=
            std::log(std::exp(at(0)) + std::exp(at(1)) + std::exp(at(2))) - at(labels.data<std::int64_t>()[n * 3 + i]);
      }
    }
    return sum / 6;
  };
  EXPECT_NEAR(loss(0), expected(false), 1e-12);
  EXPECT_NEAR(loss(1), expected(false), 1e-12);
  EXPECT_NEAR(loss(-1), expected(true), 1e-12);
  LossOptions options;
  options.class_axis = 3;
  expect_error_containing(ErrorKind::invalid_argument, "loss.class_axis is 3, expected 1 or -1",
                          [&] { make(logits, labels, options); });
}

TEST(BinaryCrossEntropy, IsStableForLargeLogits) {
  const Tensor x = Tensor::from<double>({4}, {0.5, -1.5, 800, -800});
  const Tensor y = Tensor::from<double>({4}, {1, 0.25, 1, 0});
  const auto entropy = [](double logit, double target) {
    const double p = 1 / (1 + std::exp(-logit));
    return -target * std::log(p) - (1 - target) * std::log(1 - p);
  };
  const LossOptions options{.name = "bce"};
  EXPECT_NEAR(value_of(make(x, y, options), x, y), (entropy(0.5, 1) + entropy(-1.5, 0.25)) / 4, 1e-12);
  const Tensor small = logits({5}, 4), target = test::random_tensor(DType::f64, {5}, 5, 0, 1);
  double expected = 0;
  for (int i = 0; i < 5; ++i) expected += entropy(small.data<double>()[i], target.data<double>()[i]) / 5;
  expect_loss(small, target, options, expected);
}

TEST(Errors, OfRegression) {
  const Tensor x = Tensor::from<double>({2, 2}, {1, 2.5, -1, 0}), y = Tensor::from<double>({2, 2}, {0.5, 0, -1.2, 3});
  expect_loss(x, y, {.name = "mse"}, (0.25 + 6.25 + 0.04 + 9) / 4);
  expect_loss(x, y, {.name = "l1"}, (0.5 + 2.5 + 0.2 + 3) / 4);
  expect_loss(x, y, {.name = "smooth_l1"}, (0.125 + 2 + 0.02 + 2.5) / 4);
  expect_loss(x, y, {.name = "smooth_l1", .beta = 2}, (0.0625 + 1.5 + 0.01 + 2) / 4);
}

// The figure is that of torch.nn.functional.huber_loss.
TEST(Errors, OfHuberAreLinearBeyondDelta) {
  const Tensor x = Tensor::from<double>({4}, {0.5, 3, -1, 0}), y = Tensor::from<double>({4}, {0, 0, 0, 0.25});
  expect_loss(x, y, {.name = "huber", .delta = 2}, (0.125 + 2 * (3 - 1) + 0.5 + 0.03125) / 4);
}

TEST(Focal, WeighsHardExamples) {
  const Tensor x = logits({6}, 6), y = Tensor::from<double>({6}, {0, 1, 1, 0, 1, 0});
  double expected = 0;
  for (int i = 0; i < 6; ++i) {
    const double p = 1 / (1 + std::exp(-x.data<double>()[i]));
    const bool positive = y.data<double>()[i] == 1;
    const double right = positive ? p : 1 - p;
    expected -= (positive ? 0.25 : 0.75) * std::pow(1 - right, 2) * std::log(right) / 6;
  }
  expect_loss(x, y, {.name = "focal"}, expected);
}

TEST(Distillation, IsTheDivergenceFromTheTeacher) {
  const Tensor x = logits({2, 3}, 7), y = logits({2, 3}, 8);
  double expected = 0;
  for (std::int64_t n = 0; n < 2; ++n) {
    std::vector<double> own(3), other(3);
    for (std::size_t c = 0; c < 3; ++c) {
      own[c] = x.data<double>()[3 * n + static_cast<std::int64_t>(c)] / 2;
      other[c] = y.data<double>()[3 * n + static_cast<std::int64_t>(c)] / 2;
    }
    for (std::int64_t c = 0; c < 3; ++c) {
      const double p = -log_likelihood(other.data(), 3, 1, c), q = -log_likelihood(own.data(), 3, 1, c);
      expected += 4 * std::exp(p) * (p - q) / 2;
    }
  }
  expect_loss(x, y, {.name = "distillation", .temperature = 2}, expected);
  expect_loss(x, x, {.name = "distillation"}, 0);
}

TEST(Dice, ComparesAreas) {
  // One class: sigmoid(0) = 1/2 everywhere, half of four pixels are labelled.
  const Tensor flat = Tensor::from<double>({1, 1, 4}, {0, 0, 0, 0});
  const Tensor y = Tensor::from<std::int64_t>({1, 4}, {1, 0, 1, 0});
  expect_loss(flat, y, {.name = "dice"}, 1 - (2 * 1.0 + 1) / (2.0 + 2 + 1));
  const Tensor x = logits({2, 3, 4}, 9);
  const Tensor labels = Tensor::from<std::int64_t>({2, 4}, {0, 1, 2, 2, 1, 1, 0, 2});
  double expected = 0;
  for (std::int64_t n = 0; n < 2; ++n) {
    for (std::int64_t c = 0; c < 3; ++c) {
      double overlap = 0, areas = 0;
      for (std::int64_t i = 0; i < 4; ++i) {
        const double p = std::exp(-log_likelihood(x.data<double>() + n * 12 + i, 3, 4, c));
        const double t = labels.data<std::int64_t>()[n * 4 + i] == c ? 1 : 0;
        overlap += p * t;
        areas += p + t;
      }
      expected += (1 - (2 * overlap + 1) / (areas + 1)) / 6;
    }
  }
  expect_loss(x, labels, {.name = "dice"}, expected);
}

// Against all paths of 4 steps through 3 classes, of which 0 is the blank.
TEST(Ctc, SumsOverAllAlignments) {
  const std::int64_t steps = 4, classes = 3;
  const Tensor x = test::random_tensor(DType::f64, {4, steps, classes}, 3);
  const std::vector<std::vector<std::int64_t>> labels = {{1, 2}, {1, 1}, {}, {2, 1, 2}};
  double expected = 0;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    double sum = 0;
    for (std::int64_t path = 0; path < 81; ++path) {
      std::vector<std::int64_t> merged;
      double log_probability = 0;
      std::int64_t last = 0, rest = path;
      for (std::int64_t t = 0; t < steps; ++t, rest /= classes) {
        const std::int64_t c = rest % classes;
        const double* row = x.data<double>() + (static_cast<std::int64_t>(n) * steps + t) * classes;
        log_probability -= log_likelihood(row, classes, 1, c);
        if (c != 0 && c != last) merged.push_back(c);
        last = c;
      }
      if (merged == labels[n]) sum += std::exp(log_probability);
    }
    expected -= std::log(sum) / 4;
  }
  const Tensor y = Tensor::from<std::int64_t>({4, 3}, {1, 2, -100, 1, 1, -100, -100, -100, -100, 2, 1, 2});
  expect_loss(x, y, {.name = "ctc"}, expected);
  // Three equal labels need five steps: such a sample counts for nothing.
  const Tensor one = test::random_tensor(DType::f64, {1, steps, classes}, 3);
  expect_loss(one, Tensor::from<std::int64_t>({1, 3}, {1, 1, 1}), {.name = "ctc"}, 0);
  const LossGraph made = make(one, Tensor::from<std::int64_t>({1, 1}, {0}), {.name = "ctc"});
  expect_error_containing(ErrorKind::failed, "label 0 of the CTC loss is blank or outside [0, 3)",
                          [&] { value_of(made, one, Tensor::from<std::int64_t>({1, 1}, {0})); });
  expect_error_containing(ErrorKind::invalid_argument, "ctc: the prediction is [2, 3] and the labels [2]",
                          [&] { make(logits({2, 3}, 1), Tensor::from<std::int64_t>({2}, {0, 1}), {.name = "ctc"}); });
}

TEST(Losses, OfHalvesAreComputedInFloat) {
  const Tensor x = test::random_tensor(DType::bf16, {4, 3}, 1), y = Tensor::from<std::int64_t>({4}, {0, 1, 2, 0});
  const LossGraph made = make(x, y, {}, false);
  EXPECT_EQ(made.graph.value(made.loss).type.dtype, DType::f32);
}

TEST(Losses, MixTwoTargets) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const Tensor x = logits({2, 3}, 1), y = Tensor::from<std::int64_t>({2}, {0, 1}),
               mixed = Tensor::from<std::int64_t>({2}, {2, 2}), mix = Tensor::from<float>({2}, {0.75f, 1});
  const auto input = [&](const char* name, const Tensor& tensor) {
    return graph.add_input(name, ir::ValueType::tensor(tensor.dtype(), dims_of(tensor.shape())));
  };
  const LossInputs inputs{input("x", x), input("y", y), input("mixed", mixed), input("mix", mix)};
  const ir::ValueId loss = build_loss(builder, inputs, {}).loss;
  const std::vector<Value> values = test::evaluate_graph(graph, {{"x", x}, {"y", y}, {"mixed", mixed}, {"mix", mix}});
  const double* s = x.data<double>();
  const double expected =
      (0.75 * log_likelihood(s, 3, 1, 0) + 0.25 * log_likelihood(s, 3, 1, 2) + log_likelihood(s + 3, 3, 1, 1)) / 2;
  EXPECT_NEAR(values[loss.index].tensor().data<double>()[0], expected, 1e-12);
}

TEST(Losses, SayWhatDoesNotFit) {
  const auto refuses = [](const Tensor& x, const Tensor& y, const LossOptions& options, const std::string& text) {
    expect_error_containing(ErrorKind::invalid_argument, text, [&] { make(x, y, options, false); });
  };
  const Tensor x(DType::f32, {2, 3}), labels(DType::i64, {2});
  refuses(x, labels, {.name = "hinge"}, "unknown loss 'hinge'; there are cross_entropy, bce, mse");
  refuses(x, Tensor(DType::i64, {3}), {}, "labels [3] do not fit a prediction [2, 3]");
  refuses(x, labels, {.label_smoothing = 1}, "label_smoothing is 1");
  refuses(x, Tensor(DType::f32, {2, 4}), {.name = "mse"}, "the prediction [2, 3] and the target [2, 4] differ");
  refuses(x, labels, {.class_weights = {1, 2}}, "class_weights has 2 numbers, but the prediction [2, 3] has 3 classes");
  refuses(x, labels, {.class_weights = {1, 2, -1}}, "class_weights has -1, expected numbers of at least 0");
  refuses(x, labels, {.class_weights = {0, 0, 0}}, "all numbers of class_weights are 0");
  refuses(x, x, {.name = "mse", .class_weights = {1, 2, 3}}, "class_weights are for cross_entropy, not for mse");
  refuses(x, x, {.name = "bce", .pos_weight = {1, 2}},
          "pos_weight has 2 numbers, expected one, or one for each position");
  refuses(x, labels, {.pos_weight = {2}}, "pos_weight is for bce, not for cross_entropy");
  refuses(x, x, {.name = "smooth_l1", .beta = 0}, "beta of smooth_l1 is 0");
  refuses(x, x, {.name = "distillation", .temperature = 0}, "the temperature of the distillation is 0");
}

}  // namespace
}  // namespace tessera::train::losses_test
