#include "runtime/session/assumed_dims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/core/infer.h"
#include "support/expect_error.h"

namespace tessera::test::assumed_dims_test {
namespace {

using testing::HasSubstr;

Model model_of(const std::string& text) {
  ir::Graph graph = ir::parse(text);
  ops::infer_graph(graph);
  return Model(std::make_shared<const ir::Graph>(std::move(graph)));
}

std::string note_of(const std::string& text) {
  return runtime::assume_dims(model_of(text)).note;
}

TEST(AssumedDims, NothingIsAssumedWhereNothingIsOpen) {
  const runtime::AssumedDims assumed =
      runtime::assume_dims(model_of("graph { input %x : f32[2, 3] %y = Relu (%x) output %y }"));
  EXPECT_EQ(assumed.note, "");
  EXPECT_TRUE(assumed.only_batches);
}

TEST(AssumedDims, PicturesAre224AndBatches1) {
  const runtime::AssumedDims assumed = runtime::assume_dims(
      model_of("graph { input %image : f32[batch, 3, height, width] %y = Relu (%image) output %y }"));
  EXPECT_EQ(assumed.note, "assuming height=224, width=224, batch=1; change with --dim NAME=N");
  EXPECT_FALSE(assumed.only_batches);
  EXPECT_EQ(assumed.model.inputs()[0].dims, (std::vector<std::int64_t>{1, 3, 224, 224}));
  EXPECT_EQ(note_of("graph { input %image : f32[N, H, W, 3] %y = Relu (%image) output %y }"),
            "assuming H=224, W=224, N=1; change with --dim NAME=N");
  EXPECT_TRUE(
      runtime::assume_dims(model_of("graph { input %x : f32[batch, 8] %y = Relu (%x) output %y }")).only_batches);
}

TEST(AssumedDims, DimensionsWithoutANameAreNamedByTheirInput) {
  const Model model = model_of("graph { input %image : f32[?, 3, ?, ?] %y = Relu (%image) output %y }");
  const runtime::AssumedDims assumed = runtime::assume_dims(model);
  EXPECT_EQ(assumed.note, "assuming image.2=224, image.3=224, image.0=1; change with --dim NAME=N");
  EXPECT_EQ(model.with_dims({{"image.2", 320}}).inputs()[0].type, "f32[?, 3, 320, ?]");
  expect_error(ErrorKind::invalid_argument,
               "no input has a dimension 'image.1'; symbolic dimensions are 'image.0', 'image.2', 'image.3'",
               [&] { model.with_dims({{"image.1", 3}}); });
}

TEST(AssumedDims, SequencesAre128AndPastOnesComeOnTop) {
  EXPECT_EQ(
      note_of("graph { input %ids : i64[batch, seq] input %mask : i64[batch, seq] %y = Add (%ids, %mask) output %y }"),
      "assuming seq=128, batch=1; change with --dim NAME=N");
  EXPECT_EQ(note_of("graph { input %mask : f32[batch, total_sequence] input %past : f32[batch, 4, past_sequence, 8] "
                    "input %x : f32[batch, sequence, 8] "
                    "%y = Relu (%x) output %y output %mask output %past }"),
            "assuming sequence=128, past_sequence=128, total_sequence=256, batch=1; change with --dim NAME=N");
}

TEST(AssumedDims, StatesOfRecurrentLayersHaveABatch) {
  EXPECT_EQ(
      note_of("graph { input %x : f32[?, 16] input %state : f32[2, ?, 128] %y = Relu (%x) output %y output %state }"),
      "assuming x.0=1, state.1=1; change with --dim NAME=N");
  EXPECT_EQ(note_of("graph { input %x : f32[1, ?, 80] %y = Relu (%x) output %y }"),
            "assuming x.1=128; change with --dim NAME=N");
}

// Half the picture beside all of it, cut into pieces that must tile it.
TEST(AssumedDims, WhatTheModelDoesNotAcceptIsTriedInSizesThatItDoes) {
  const auto tiled = [](int tile) {
    return "graph { input %x : f32[n, 1, h, w] constant %s = i64[4] {1, -1, " + std::to_string(tile) + ", " +
           std::to_string(tile) + "} %y = Reshape (%x, %s) output %y }";
  };
  EXPECT_EQ(note_of(tiled(56)), "assuming h=224, w=224, n=1; change with --dim NAME=N");
  EXPECT_EQ(note_of(tiled(64)), "assuming h=64, w=64, n=1; change with --dim NAME=N");
  // A skip connection: halved twice by windows that round up, doubled twice, joined with what it was.
  const std::string skip =
      "graph { input %x : f32[n, 4, h, w] %a = MaxPool (%x) {kernel_shape = [40, 40], strides = [40, 40]} constant %k "
      "= f32[4] {1, 1, 40, 40} "
      "%b = Resize (%a, none, %k) %y = Concat (%x, %b) {axis = 1} output %y }";
  EXPECT_EQ(note_of(skip), "assuming h=160, w=160, n=1; change with --dim NAME=N");
}

TEST(AssumedDims, WhereNothingFitsTheErrorNamesTheDimensions) {
  try {
    runtime::assume_dims(model_of(
        "graph { input %x : f32[n, 3, h, w] constant %s = i64[2] {-1, 4099} %y = Reshape (%x, %s) output %y }"));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.message(), HasSubstr("no sizes were found that the model accepts; fix its dimensions with --dim "
                                           "NAME=N (with h=224, w=224, n=1: "));
  }
}

}  // namespace
}  // namespace tessera::test::assumed_dims_test
