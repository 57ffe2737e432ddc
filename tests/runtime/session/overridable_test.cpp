// Initialisers that are graph inputs too: defaults that a run may override.
#include "runtime/session/overridable.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "io/onnx/model_builder.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tessera/optimise.h"
#include "tessera/session.h"

namespace tessera::test::overridable_test {
namespace {

std::string raw(std::initializer_list<float> values) {
  std::string bytes;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::array<char, sizeof(float)>>(value);
    bytes.append(bits.begin(), bits.end());
  }
  return bytes;
}

// y = x * (scale + 1), of which scale + 1 would be folded.
ModelBuilder scaled(std::int64_t ir_version = 10) {
  ModelBuilder model(13, {2});
  model.proto.set_ir_version(ir_version);
  declare(*model.graph().add_input(), "scale", DType::f32, {1});
  model.initializer("scale", DType::f32, {1}, raw({2}));
  model.initializer("one", DType::f32, {1}, raw({1}));
  model.node("Add", {"scale", "one"}, {"factor"});
  model.node("Mul", {"x", "factor"}, {"y"});
  return model;
}

Model loaded(const ModelBuilder& model) {
  return Model::from_bytes(bytes_of(model.text()));
}

std::vector<float> run(Session& session, NamedValues inputs) {
  inputs.insert_or_assign("x", Tensor::from<float>({2}, std::vector<float>{1, 10}));
  const Tensor y = session.run(inputs).at("y").tensor();
  return {y.data<float>(), y.data<float>() + y.elements()};
}

Tensor one_value(float value) {
  return Tensor::from<float>({1}, std::vector<float>{value});
}

TEST(Overridable, InitialisersAreListedAndNoInputs) {
  const Model model = loaded(scaled());
  ASSERT_EQ(model.inputs().size(), 1u);
  const std::vector<ValueDescription> found = runtime::overridable_inputs(model);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "scale");
  EXPECT_EQ(found[0].type, "f32[1]");
  // There, every initialiser has to be a graph input.
  EXPECT_TRUE(runtime::overridable_inputs(loaded(scaled(3))).empty());
}

TEST(Overridable, InitialisersStaySoInWhatSaveWritesAndNotInWhatOptimiseDoes) {
  const TemporaryFolder folder;
  loaded(scaled()).save(folder / "saved.onnx");
  optimise(loaded(scaled()), folder / "optimised.onnx");
  const Model saved = Model::load(folder / "saved.onnx");
  ASSERT_EQ(runtime::overridable_inputs(saved).size(), 1u);
  Session session(saved);
  EXPECT_EQ(run(session, {{"scale", one_value(5)}}), (std::vector<float>{6, 60}));
  EXPECT_TRUE(runtime::overridable_inputs(Model::load(folder / "optimised.onnx")).empty());
}

TEST(Overridable, ARunMayGiveOtherValuesAndTheNextOneNone) {
  Session session(loaded(scaled()));
  EXPECT_EQ(run(session, {}), (std::vector<float>{3, 30}));
  EXPECT_EQ(run(session, {{"scale", one_value(5)}}), (std::vector<float>{6, 60}));
  EXPECT_EQ(run(session, {{"scale", one_value(-1)}}), (std::vector<float>{0, 0}));
  EXPECT_EQ(run(session, {}), (std::vector<float>{3, 30}));
  const std::vector<Value> asked =
      session.run({{"x", Tensor::from<float>({2}, std::vector<float>{1, 2})}, {"scale", one_value(0)}}, {{"y"}});
  EXPECT_EQ(asked.at(0).tensor().data<float>()[1], 2);
}

TEST(Overridable, ValuesOfSubgraphsAreOverriddenToo) {
  ModelBuilder model(13, {2});
  declare(*model.graph().add_input(), "scale", DType::f32, {1});
  model.initializer("scale", DType::f32, {1}, raw({2}));
  model.initializer("yes", DType::boolean, {}, std::string(1, '\1'));
  auto& branch = model.node("If", {"yes"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& attribute = add_attribute(branch, name);
    attribute.set_type(5);
    add_node(*attribute.mutable_g()->mutable_node(), "Mul", {"x", "scale"}, {std::string(name) + "_y"});
    attribute.mutable_g()->add_output()->set_name(std::string(name) + "_y");
    attribute.mutable_g()->set_name(name);
  }
  Session session(loaded(model));
  EXPECT_EQ(run(session, {}), (std::vector<float>{2, 20}));
  EXPECT_EQ(run(session, {{"scale", one_value(5)}}), (std::vector<float>{5, 50}));
}

TEST(Overridable, DimensionsThatWereFixedStayFixed) {
  ModelBuilder model = scaled();
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param(
      "n");
  const Model fixed = loaded(model).with_dims({{"n", 2}});
  const Model opened = runtime::with_inputs(fixed, {"scale"});
  ASSERT_EQ(opened.inputs().size(), 2u);
  EXPECT_EQ(opened.inputs()[0].type, "f32[2]");
  EXPECT_EQ(opened.inputs()[1].name, "scale");
}

TEST(Overridable, NamesOfDimensionsMayBeAnything) {
  for (const char* name : {"k", "a\"\n}", "%x", "\xff"}) {
    ModelBuilder model = scaled();
    model.graph()
        .mutable_input(1)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(0)
        ->set_dim_param(name);
    Session session(loaded(model));
    EXPECT_EQ(run(session, {}), (std::vector<float>{3, 30})) << name;
    EXPECT_EQ(run(session, {{"scale", one_value(5)}}), (std::vector<float>{6, 60})) << name;
  }
}

TEST(Overridable, WrongValuesAndNamesAreRefused) {
  Session session(loaded(scaled()));
  expect_error_containing(ErrorKind::invalid_argument, "input 'scale' has shape [2]: dimension 0 is 2, expected 1",
                          [&] { run(session, {{"scale", Tensor(DType::f32, {2})}}); });
  expect_error_containing(ErrorKind::invalid_argument, "its inputs are 'x', 'scale' (which has a default)",
                          [&] { run(session, {{"scales", one_value(1)}}); });
  expect_error_containing(ErrorKind::invalid_argument, "no initialiser 'one' that may be overridden",
                          [] { runtime::with_inputs(loaded(scaled()), {"one"}); });
  Session old(loaded(scaled(3)));
  expect_error_containing(ErrorKind::invalid_argument, "the model has no input 'scale'",
                          [&] { run(old, {{"scale", one_value(1)}}); });
}

// The shape that follows from a default follows from the value that is given.
TEST(Overridable, ShapesFollowTheValue) {
  ModelBuilder model(13, {4});
  declare(*model.graph().add_input(), "shape", DType::i64, {2});
  std::string bytes(16, '\0');
  bytes[0] = 2, bytes[8] = 2;
  model.initializer("shape", DType::i64, {2}, bytes);
  model.node("Reshape", {"x", "shape"}, {"y"});
  Session session(loaded(model));
  const auto shape_of = [&](NamedValues inputs) {
    inputs.insert_or_assign("x", Tensor::from<float>({4}, std::vector<float>{1, 2, 3, 4}));
    return session.run(inputs).at("y").tensor().shape();
  };
  EXPECT_EQ(shape_of({}), (Shape{2, 2}));
  EXPECT_EQ(shape_of({{"shape", Tensor::from<std::int64_t>({2}, std::vector<std::int64_t>{4, 1})}}), (Shape{4, 1}));
}

// The reader makes Upsample of version 9 a Resize whose form depends on the scales.
TEST(Overridable, WhatAnOldFormWasReadWithIsNot) {
  ModelBuilder model(9, {1, 1, 2, 2});
  declare(*model.graph().add_input(), "scales", DType::f32, {4});
  model.initializer("scales", DType::f32, {4}, raw({1, 1, 2, 2}));
  model.node("Upsample", {"x", "scales"}, {"y"});
  const Model read = loaded(model);
  const bool is_listed = !runtime::overridable_inputs(read).empty();
  Session session(read);
  const auto elements = [&](NamedValues inputs) {
    inputs.insert_or_assign("x", Tensor::from<float>({1, 1, 2, 2}, std::vector<float>{1, 2, 3, 4}));
    return session.run(inputs).at("y").tensor().elements();
  };
  EXPECT_EQ(elements({}), 16);
  const NamedValues other{{"scales", Tensor::from<float>({4}, std::vector<float>{1, 1, 3, 3})}};
  if (is_listed) EXPECT_EQ(elements(other), 36);
  else EXPECT_THROW(elements(other), Error);
}

}  // namespace
}  // namespace tessera::test::overridable_test
