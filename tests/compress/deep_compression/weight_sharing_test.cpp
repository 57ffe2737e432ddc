#include "compress/deep_compression/weight_sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/models.h"
#include "support/expect_error.h"
#include "support/random_tensor.h"
#include "tessera/session.h"

namespace tessera::compress::weight_sharing_test {
namespace {

double squared_error(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i) sum += std::pow(a.data<float>()[i] - b.data<float>()[i], 2);
  return sum;
}

TEST(WeightSharing, FindsClustersThatAreThere) {
  const Tensor weights = Tensor::from<float>({2, 5}, {0, -1.01f, 2, 0, 2.02f, -0.99f, 0.5f, 0, 2.01f, 0.5f});
  const SharedWeights shared = share_weights(weights, 2);
  const auto codebook = shared.codebook.values<float>();
  ASSERT_EQ(codebook.size(), 4u);
  EXPECT_EQ(codebook[0], 0);
  EXPECT_FLOAT_EQ(codebook[1], -1);
  EXPECT_FLOAT_EQ(codebook[2], 0.5f);
  EXPECT_FLOAT_EQ(codebook[3], 2.01f);
  const auto indices = shared.indices.values<std::int32_t>();
  EXPECT_TRUE(std::ranges::equal(indices, std::vector<std::int32_t>{0, 1, 3, 0, 3, 1, 2, 0, 3, 2}));
}

TEST(WeightSharing, PutsEveryWeightIntoTheNearestClusterAndIsAFixedPoint) {
  const Tensor weights = test::random_tensor(DType::f32, {37, 41}, 3, -1, 1);
  double before = HUGE_VAL;
  for (const int bits : {1, 3, 5, 8}) {
    const SharedWeights shared = share_weights(weights, bits);
    const Tensor expanded = shared.expand();
    const auto codebook = shared.codebook.values<float>();
    EXPECT_LE(codebook.size(), (std::size_t{1} << bits) + 1);
    std::vector<double> sums(codebook.size()), counts(codebook.size());
    for (std::int64_t i = 0; i < weights.elements(); ++i) {
      const float weight = weights.data<float>()[i];
      float nearest = HUGE_VALF;
      for (std::size_t k = 1; k < codebook.size(); ++k) nearest = std::min(nearest, std::abs(codebook[k] - weight));
      EXPECT_NEAR(std::abs(expanded.data<float>()[i] - weight), nearest, 1e-6);
      const auto place = static_cast<std::size_t>(shared.indices.data<std::int32_t>()[i]);
      sums[place] += static_cast<double>(weight);
      counts[place] += 1;
    }
    for (std::size_t k = 1; k < codebook.size(); ++k) EXPECT_NEAR(codebook[k], sums[k] / counts[k], 1e-5) << bits;
    const double error = squared_error(weights, expanded);
    EXPECT_LT(error, before);
    before = error;
  }
}

TEST(WeightSharing, TakesWeightsOfOneValueAndOfNone) {
  const SharedWeights same = share_weights(Tensor::from<float>({3}, {0.5f, 0, 0.5f}), 4);
  EXPECT_EQ(same.codebook.elements(), 2);
  EXPECT_TRUE(identical(same.expand(), Tensor::from<float>({3}, {0.5f, 0, 0.5f})));
  const SharedWeights none = share_weights(Tensor::from<float>({2}, {0, 0}), 4);
  EXPECT_EQ(none.codebook.elements(), 1);
  EXPECT_TRUE(identical(none.expand(), Tensor::from<float>({2}, {0, 0})));
  test::expect_error(ErrorKind::invalid_argument, "weights cannot share values of 9 bits, expected 1 to 8",
                     [&] { share_weights(none.codebook, 9); });
  test::expect_error(ErrorKind::invalid_argument, "weights that are not finite cannot share values",
                     [] { share_weights(Tensor::from<float>({1}, {std::numeric_limits<float>::infinity()}), 2); });
}

TEST(WeightSharing, GivesAModelThatComputesWithTheSharedValues) {
  const ir::Graph model = models::build_model("lenet_300_100", {.dims = {{"batch", 2}}});
  std::map<std::string, SharedWeights> shared;
  ir::Graph expanded = model;
  for (const char* name : {"fc1.weight", "fc2.weight"}) {
    const ir::ValueId id = model.find_value(name);
    shared[name] = share_weights(*model.constant(id), 3);
    expanded.replace_uses(id, expanded.add_constant(shared[name].expand()));
  }
  const Tensor x = test::random_tensor(DType::f32, {2, 1, 28, 28}, 1, 0, 1);
  const auto run = [&](const ir::Graph& graph) {
    return Session(Model(std::make_shared<const ir::Graph>(graph))).run({{"input", x}}).at("output").tensor();
  };
  const Tensor a = run(with_shared_weights(model, shared)), b = run(expanded);
  EXPECT_EQ(squared_error(a, b), 0);
  EXPECT_GT(squared_error(a, run(model)), 0);
}

}  // namespace
}  // namespace tessera::compress::weight_sharing_test
