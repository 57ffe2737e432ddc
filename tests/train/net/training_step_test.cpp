#include "train/net/training_step.h"

#include <gtest/gtest.h>

#include "models/models.h"
#include "runtime/session/random_inputs.h"
#include "support/expect_error.h"
#include "tessera/session.h"

namespace tessera::train::training_step_test {
namespace {

Model net(const char* name) {
  return Model(std::make_shared<const ir::Graph>(models::build_model(name, {.dims = {{"batch", 4}}})));
}

TEST(UsualTrainingStep, TrainsByTheLossThatFits) {
  for (const char* name : {"lenet5", "mlp", "unet_small"}) {
    const Model step = usual_training_step(net(name));
    Session session(step);
    NamedValues inputs = runtime::random_inputs(step, 1);
    inputs.insert_or_assign("learning_rate", Tensor::scalar(0.01f));
    const auto loss = [&] { return session.run(inputs).at("loss").tensor().data<float>()[0]; };
    const float first = loss();
    for (int i = 0; i < 3; ++i) loss();
    EXPECT_LT(loss(), first) << name;
    EXPECT_EQ(session.variable("train/count").data<std::int64_t>()[0], 5);
  }
}

TEST(UsualTrainingStep, SaysWhenThereIsNothingToTrain) {
  ir::Graph nothing;
  nothing.add_output(nothing.add_input("x", ir::ValueType::tensor(DType::f32, Shape{1})));
  test::expect_error_containing(ErrorKind::invalid_argument, "no float32 weights left to train",
                                [&] { usual_training_step(Model(std::make_shared<const ir::Graph>(nothing))); });
}

}  // namespace
}  // namespace tessera::train::training_step_test
