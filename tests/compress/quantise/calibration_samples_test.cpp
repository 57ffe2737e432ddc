#include "compress/quantise/calibration_samples.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/numbers/half.h"
#include "io/npz.h"
#include "ops/core/builder.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace tessera::compress::calibration_samples_test {
namespace {

using test::expect_error_containing;

// y = 2 x
Model doubling() {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, {ir::Dim::symbol("n"), 2}));
  graph.add_output(builder.add("Mul", {x, builder.scalar(2)}));
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

class CalibrationSamples : public testing::Test {
 protected:
  std::vector<float> read(const std::map<std::string, Tensor>& arrays) {
    io::write_npz(folder_ / "data.npz", arrays);
    std::vector<float> numbers;
    read_samples(doubling(), {.path = (folder_ / "data.npz").string()}, [&](const SampleBatch& batch) {
      std::ranges::copy(batch.inputs.at("x").tensor().values<float>(), std::back_inserter(numbers));
      return true;
    });
    return numbers;
  }
  test::TemporaryFolder folder_;
};

TEST_F(CalibrationSamples, AreConvertedAsThoseOfATrainingAre) {
  const std::vector<float> expected = {1, -2, 3, 0.5f};
  EXPECT_EQ(read({{"x", Tensor::from<double>({2, 2}, {1, -2, 3, 0.5})}}), expected);
  EXPECT_EQ(read({{"x", Tensor::from<f16_t>({2, 2}, {base::to_f16(1.0f), base::to_f16(-2.0f), base::to_f16(3.0f),
                                                     base::to_f16(0.5f)})}}),
            expected);
  EXPECT_EQ(read({{"x", Tensor::from<std::int64_t>({1, 2}, {7, -7})}}), (std::vector<float>{7, -7}));
  // Bytes are those of pictures.
  EXPECT_EQ(read({{"x", Tensor::from<std::uint8_t>({1, 2}, {255, 0})}}), (std::vector<float>{1, 0}));
  expect_error_containing(ErrorKind::invalid_argument, "input 'x' is f64 and holds 1e+300, which f32 cannot hold",
                          [&] { read({{"x", Tensor::from<double>({1, 2}, {1, 1e300})}}); });
}

TEST_F(CalibrationSamples, LeaveArraysAloneThatNoInputTakes) {
  const Tensor x = Tensor::from<float>({1, 2}, {1, 2});
  EXPECT_EQ(read({{"x", x}, {"t", x}, {"y", Tensor::from<std::int64_t>({1}, {1})}}), (std::vector<float>{1, 2}));
  const Tensor labels = Tensor::from<std::int64_t>({1}, {1});
  EXPECT_EQ(read({{"pictures", x}, {"y", labels}}), (std::vector<float>{1, 2}));  // the only array beside labels
  expect_error_containing(ErrorKind::invalid_argument, "is no input of the model; expected x",
                          [&] { read({{"pictures", x}, {"t", x}}); });
}

}  // namespace
}  // namespace tessera::compress::calibration_samples_test
