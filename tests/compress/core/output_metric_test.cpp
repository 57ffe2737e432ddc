#include "compress/core/output_metric.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compress/core/class_axis.h"
#include "io/npz.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "support/temporary_folder.h"
#include "tessera/log.h"

namespace tessera::compress::output_metric_test {
namespace {

using Integers = std::vector<std::int64_t>;
using test::expect_error_containing;
constexpr auto kWrong = ErrorKind::invalid_argument;

// A net with one layer, and what is done to its result.
class Net {
 public:
  explicit Net(const ir::Dims& dims) : builder_(graph_) {
    x_ = graph_.add_input("x", ir::ValueType::tensor(DType::f32, dims));
  }
  ir::ValueId x() const { return x_; }
  ir::ValueId constant(const Shape& shape, std::uint64_t seed, double low = -1) {
    return builder_.constant(test::random_tensor(DType::f32, shape, seed, low, 1));
  }
  ir::ValueId add(const char* op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {}) {
    return builder_.add(op, std::move(inputs), std::move(attributes));
  }
  ir::Graph& graph() { return graph_; }
  Model finish(ir::ValueId y) {
    graph_.value(y).name = "y";
    graph_.add_output(y);
    return Model(std::make_shared<const ir::Graph>(graph_));
  }

 private:
  ir::Graph graph_;
  ops::GraphBuilder builder_;
  ir::ValueId x_;
};

const ir::Dims kImages{ir::Dim::symbol("n"), 3, 6, 7};

// Factors that differ from column to column change which column is largest, but no class.
Model segmentation(bool scaled) {
  Net net(kImages);
  ir::ValueId y = net.add("Conv", {net.x(), net.constant({5, 3, 1, 1}, 1)});
  if (scaled) y = net.add("Mul", {y, net.constant({7}, 2, 0.1)});
  return net.finish(y);
}

Model regression() {
  Net net({ir::Dim::symbol("n"), 4});
  return net.finish(net.add("MatMul", {net.x(), net.constant({4, 1}, 1)}));
}

Model classifier() {
  Net net({ir::Dim::symbol("n"), 4});
  return net.finish(net.add("MatMul", {net.x(), net.constant({4, 3}, 1)}));
}

class Metrics : public testing::Test {
 protected:
  CalibrationData data(const Shape& x, const Tensor& labels = {}) {
    std::map<std::string, Tensor> arrays{{"x", test::random_tensor(DType::f32, x, 5, -1, 1)}};
    if (labels.has_value()) arrays["labels"] = labels;
    io::write_npz(folder_ / "data.npz", arrays);
    CalibrationData result;
    result.path = folder_ / "data.npz";
    return result;
  }
  test::TemporaryFolder folder_;
};

TEST_F(Metrics, AgreementComparesClassesOfEachPixel) {
  const Model before = segmentation(false), after = segmentation(true);
  const OutputMetric metric("", before, data({8, 3, 6, 7}), {});
  EXPECT_EQ(metric.name(), "agreement");
  EXPECT_EQ(metric.of(after), 1);
  EXPECT_LT(OutputMetric("cosine", before, data({8, 3, 6, 7}), {}).of(after), 0.99);
}

TEST_F(Metrics, AgreementOfClassesThatTheNetItselfTakes) {
  Net net(kImages);
  const Model model = net.finish(net.add("ArgMax", {net.add("Conv", {net.x(), net.constant({5, 3, 1, 1}, 1)})},
                                         {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}}));
  const OutputMetric metric("", model, data({8, 3, 6, 7}), {});
  EXPECT_EQ(metric.name(), "agreement");
  EXPECT_EQ(metric.of(model), 1);
}

TEST_F(Metrics, NumbersAsLabelsAreNoClasses) {
  const Model model = regression();
  for (const Tensor& labels :
       {test::random_tensor(DType::f32, {8, 1}, 3, -2, 5), test::random_tensor(DType::f64, {8}, 3, -2, 5),
        test::random_tensor(DType::i64, {8, 1}, 3, 20, 90)}) {
    const CalibrationData given = data({8, 4}, labels);
    EXPECT_NE(OutputMetric("", model, given, {}).name(), "accuracy");
    expect_error_containing(kWrong, "the metric accuracy needs labels that are classes of the scores, but one of the",
                            [&] { OutputMetric("accuracy", model, given, {}); });
  }
  EXPECT_EQ(OutputMetric("", model, data({8, 4}), {}).name(), "cosine");
  expect_error_containing(kWrong, "no axis of classes", [&] { OutputMetric("agreement", model, data({8, 4}), {}); });
}

// The metric that is taken where none is named, and what is warned of.
struct Choice {
  std::string name, warnings;
};
Choice choice(const Model& model, const CalibrationData& data) {
  Choice made;
  set_log_handler([&](LogLevel, std::string_view message) { made.warnings += message; });
  const OutputMetric metric("", model, data, {});
  set_log_handler({});
  made.name = metric.name();
  EXPECT_TRUE(std::isfinite(metric.of(model)));
  return made;
}

TEST_F(Metrics, NumbersForEachScoreAreHeldAgainstThem) {
  for (const Shape& shape : {Shape{8}, Shape{8, 1}}) {
    for (const Tensor& labels :
         {test::random_tensor(DType::f32, shape, 3, -2, 5), test::random_tensor(DType::i64, shape, 3, 20, 90)}) {
      const Choice made = choice(regression(), data({8, 4}, labels));
      EXPECT_EQ(made.name, "r2");
      EXPECT_EQ(made.warnings, "");
    }
  }
  EXPECT_EQ(choice(classifier(), data({8, 4}, test::random_tensor(DType::f32, {8, 3}, 3, -2, 5))).name, "r2");
}

TEST_F(Metrics, LabelsThatDoNotFitArePassedOver) {
  const CalibrationData numbers = data({8, 4}, test::random_tensor(DType::f32, {8}, 3, 0.1, 0.9));
  Choice made = choice(classifier(), numbers);
  EXPECT_EQ(made.name, "cosine");
  EXPECT_NE(made.warnings.find("labels of the data are passed over, and the metric is cosine"), std::string::npos)
      << made.warnings;
  EXPECT_NE(made.warnings.find("expected a whole number from 0 to 2"), std::string::npos) << made.warnings;
  for (const char* name : {"r2", "mae", "mse", "rmse"})
    expect_error_containing(
        kWrong, fmt::format("the metric {} needs a label for each of the scores, but the labels are [8] and", name),
        [&] { OutputMetric(name, classifier(), numbers, {}); });
  for (const char* name : {"accuracy", "precision", "recall"})
    expect_error_containing(kWrong, fmt::format("the metric {} needs labels that are classes of the scores", name),
                            [&] { OutputMetric(name, classifier(), numbers, {}); });

  made = choice(classifier(), data({8, 4}, Tensor::from<std::int64_t>({8}, {7, 8, 9, 7, 8, 9, 7, 8})));
  EXPECT_EQ(made.name, "cosine");
  EXPECT_NE(made.warnings.find("one of the labels is 7, expected a whole number from 0 to 2"), std::string::npos)
      << made.warnings;

  made = choice(classifier(), data({8, 4}, test::random_tensor(DType::i64, {8, 5}, 3, 0, 2)));
  EXPECT_EQ(made.name, "cosine");
  EXPECT_NE(made.warnings.find("the labels are [8, 5] and the scores [8, 3]"), std::string::npos) << made.warnings;
}

TEST_F(Metrics, LabelsOfPixelsAreClassesOrPassedOver) {
  const Model model = segmentation(false);
  EXPECT_EQ(choice(model, data({8, 3, 6, 7}, test::random_tensor(DType::i64, {8, 6, 7}, 3, 0, 4))).name, "accuracy");
  for (const Tensor& labels :
       {test::random_tensor(DType::f32, {8, 6, 7}, 3, 0.1, 0.9), test::random_tensor(DType::i64, {8, 6, 7}, 3, 20, 90),
        test::random_tensor(DType::i64, {8}, 3, 0, 4)}) {
    const Choice made = choice(model, data({8, 3, 6, 7}, labels));
    EXPECT_EQ(made.name, "cosine");
    EXPECT_NE(made.warnings.find("passed over"), std::string::npos);
  }
}

TEST_F(Metrics, AccuracyIsThatOfClasses) {
  const CalibrationData given = data({8, 4}, test::random_tensor(DType::i64, {8}, 3, 0, 2));
  EXPECT_EQ(OutputMetric("", classifier(), given, {}).name(), "accuracy");
  const CalibrationData beyond = data({8, 4}, Tensor::from<std::int64_t>({8}, {0, 1, 2, 3, 0, 1, 2, 0}));
  expect_error_containing(kWrong, "one of the labels is 3, expected a whole number from 0 to 2",
                          [&] { OutputMetric("accuracy", classifier(), beyond, {}); });
  EXPECT_EQ(OutputMetric("", classifier(), data({8, 4}), {}).name(), "agreement");
  expect_error_containing(kWrong, "needs labels", [&] { OutputMetric("f1", classifier(), data({8, 4}), {}); });
}

TEST_F(Metrics, ANameIsAMetricAndACommandSaysThatItIsOne) {
  const CalibrationData given = data({8, 4}, test::random_tensor(DType::i64, {8}, 3, 0, 2));
  const Model model = classifier();
  for (const char* name : {"f1", "top_k:2", "perplexity", "accuracy"}) {
    const double value = OutputMetric(name, model, given, {}).of(model);
    EXPECT_GT(value, 0) << name;
  }
  EXPECT_EQ(OutputMetric("command:echo 0.25 #", model, given, {}).of(model), 0.25);
  EXPECT_EQ(OutputMetric("/bin/echo 0.25 #", model, given, {}).of(model), 0.25);
  for (const char* name : {"true", "f2", "python3 errors.py", "Accuracy"})
    expect_error_containing(kWrong,
                            fmt::format("there is no metric '{}'; expected one of agreement, cosine, snr", name),
                            [&] { OutputMetric(name, model, given, {}); });
}

TEST_F(Metrics, DropIsAChangeForTheWorse) {
  EXPECT_DOUBLE_EQ(metric_drop("accuracy", 0.9, 0.8), 0.9 - 0.8);
  EXPECT_DOUBLE_EQ(metric_drop("perplexity", 5, 6), 1);
  EXPECT_DOUBLE_EQ(metric_drop("command:x", 5, 6), -1);
}

TEST(ClassAxis, IsThatOfTheLayerThatMakesTheScores) {
  const auto axis_of = [](Net& net, ir::ValueId y) { return class_axis(net.graph(), y).value_or(99); };
  Net image(kImages);
  const ir::ValueId conv = image.add("Conv", {image.x(), image.constant({5, 3, 1, 1}, 1)});
  EXPECT_EQ(axis_of(image, conv), 1u);
  EXPECT_EQ(axis_of(image, image.add("Sigmoid", {conv})), 1u);
  EXPECT_EQ(axis_of(image, image.add("Transpose", {conv}, {{"perm", Integers{0, 2, 3, 1}}})), 3u);
  Net tokens({ir::Dim::symbol("n"), 4, 6});
  const ir::ValueId product = tokens.add("MatMul", {tokens.x(), tokens.constant({6, 9}, 1)});
  EXPECT_EQ(axis_of(tokens, product), 2u);
  EXPECT_EQ(axis_of(tokens, tokens.add("Transpose", {product}, {{"perm", Integers{0, 2, 1}}})), 1u);
  EXPECT_EQ(axis_of(tokens, tokens.add("Softmax", {tokens.x()}, {{"axis", std::int64_t{1}}})), 1u);
  EXPECT_EQ(axis_of(tokens, tokens.add("Conv", {tokens.x(), tokens.constant({9, 4, 3}, 1)})), 1u);
}

}  // namespace
}  // namespace tessera::compress::output_metric_test
