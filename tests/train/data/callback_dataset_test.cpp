#include "train/data/callback_dataset.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "support/expect_error.h"
#include "train/data/loader.h"
#include "train/data/sample_support.h"

namespace tessera::train::callback_dataset_test {
namespace {

using test::expect_error_containing;

const std::vector<Field> kFields = {{"x", DType::f32, {2}}, {"y", DType::i64, {}}};

std::map<std::string, Tensor> sample(std::int64_t index) {
  const auto x = static_cast<float>(index);
  return {{"x", Tensor::from<float>({2}, {x, x * x})}, {"y", Tensor::scalar(index)}};
}

TEST(CallbackDataset, GivesWhatTheFunctionMakes) {
  const auto data = make_callback_dataset(kFields, 5, sample);
  EXPECT_EQ(data->size(), 5);
  EXPECT_EQ(data->describe(3), "callback sample 3");
  const std::vector<Tensor> read = test::read_sample(*data, 3);
  EXPECT_TRUE(identical(read[0], Tensor::from<float>({2}, {3, 9})));
  EXPECT_TRUE(identical(read[1], Tensor::scalar(std::int64_t{3})));
}

TEST(CallbackDataset, WhatTheFunctionThrowsIsAnErrorOfTheSample) {
  const std::shared_ptr<const Dataset> data = make_callback_dataset(kFields, 6, [](std::int64_t index) {
    if (index == 2) throw std::runtime_error("the sensor was off");
    if (index == 4) return std::map<std::string, Tensor>{{"x", Tensor::from<float>({1}, {0})}};
    return sample(index);
  });
  expect_error_containing(ErrorKind::invalid_argument, "the sensor was off", [&] { test::read_sample(*data, 2); });
  expect_error_containing(ErrorKind::invalid_argument, "gave field 'x' as f32[1], expected f32[2]",
                          [&] { test::read_sample(*data, 4); });
  Loader loader(data, {}, {.batch = 3, .shuffle = false, .workers = 2});
  const Tensor labels = loader.next().fields.at("y");
  EXPECT_EQ(labels.data<std::int64_t>()[0], 0);
  EXPECT_EQ(labels.data<std::int64_t>()[1], 1);
  const std::int64_t drawn = labels.data<std::int64_t>()[2];
  EXPECT_TRUE(drawn != 2 && drawn != 4 && drawn < 6) << drawn;
  loader.next();
  EXPECT_EQ(loader.report().skipped, 2);
}

TEST(CallbackDataset, RefusesWhatCannotBeSamples) {
  expect_error_containing(ErrorKind::invalid_argument, "there is no function to call",
                          [] { make_callback_dataset(kFields, 1, nullptr); });
  expect_error_containing(ErrorKind::invalid_argument, "needs at least one field",
                          [] { make_callback_dataset({}, 1, sample); });
  expect_error_containing(ErrorKind::invalid_argument, "field 'x' is string, expected numbers",
                          [] { make_callback_dataset({{"x", DType::string, {}}}, 1, sample); });
}

}  // namespace
}  // namespace tessera::train::callback_dataset_test
