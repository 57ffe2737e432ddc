#include "runtime/session/least_sizes.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/pass_context.h"
#include "tessera/session.h"

namespace tessera::test::least_sizes_test {
namespace {

const std::string kNet =
    "graph { input %x : f32[n, 1, height, width] constant %w = f32[1, 1, 3, 3] {1, 1, 1, 1, 1, 1, 1, 1, 1} "
    "%a = Conv (%x, %w) {strides = [2, 2]} %b = MaxPool (%a) {kernel_shape = [2, 2], strides = [2, 2]} "
    "%y = Conv (%b, %w) output %y }";

Tensor image(std::int64_t height, std::int64_t width) {
  Tensor x(DType::f32, {1, 1, height, width});
  std::fill_n(x.mutable_data<float>(), x.elements(), 1.0f);
  return x;
}

TEST(LeastSizes, NameTheInputAndTheSizeThatTheModelTakes) {
  for (const char* device : {"reference", "cpu"}) {
    Session session(Model(std::make_shared<const ir::Graph>(parsed(kNet))), {.device = device});
    const auto run = [&](std::int64_t height, std::int64_t width) {
      return session.run({{"x", image(height, width)}}).at("y").tensor().shape();
    };
    EXPECT_EQ(run(13, 40), (Shape{1, 1, 1, 7}));
    expect_error_containing(ErrorKind::invalid_argument,
                            "the inputs are too small for the model: dimension 3 of input 'x' is 4, and the model "
                            "takes no less than 13 (",
                            [&] { run(40, 4); });
    expect_error_containing(ErrorKind::invalid_argument,
                            "dimension 2 of input 'x' is 10, and the model takes no less than 13; dimension 3 of "
                            "input 'x' is 4, and the model takes no less than 13 (",
                            [&] { run(10, 4); });
  }
}

TEST(LeastSizes, SayNothingOfOtherFaults) {
  Session session(Model(std::make_shared<const ir::Graph>(
      parsed("graph { input %x : f32[n, 3] input %z : f32[m, 3] %y = Add (%x, %z) output %y }"))));
  try {
    session.run({{"x", Tensor(DType::f32, {2, 3})}, {"z", Tensor(DType::f32, {5, 3})}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("too small"), std::string::npos) << error.what();
  }
}

// A model of fixed sizes is at fault itself.
TEST(LeastSizes, AModelOfFixedSizesIsInvalid) {
  std::string text = kNet;
  text.replace(text.find("n, 1, height, width"), 19, "1, 1, 40, 4");
  expect_error_containing(ErrorKind::invalid_model, "is larger than the padded input",
                          [&] { Session(Model(std::make_shared<const ir::Graph>(parsed(text)))); });
}

}  // namespace
}  // namespace tessera::test::least_sizes_test
