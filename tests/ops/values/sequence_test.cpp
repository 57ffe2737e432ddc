#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/run_op.h"

namespace tessera::test::sequence_test {
namespace {

const Tensor kA = Tensor::from<float>({2}, {1, 2}), kB = Tensor::from<float>({2}, {3, 4});
Value pair() {
  return run_op({"SequenceConstruct", {kA, kB}})[0];
}
Tensor position(std::int64_t value) {
  return Tensor::scalar(value);
}
Value run_one(const OpCall& call) {
  return run_op(call)[0];
}

TEST(Sequence, TypesJoinTheElements) {
  const ir::ValueType x = ir::ValueType::tensor(DType::f32, Shape{2, 3}),
                      y = ir::ValueType::tensor(DType::f32, Shape{2, 4});
  const ir::ValueType joined = ir::ValueType::sequence(ir::ValueType::tensor(DType::f32, ir::Dims{2, ir::Dim()}));
  EXPECT_EQ(infer_op("SequenceConstruct", {x, y})[0], joined);
  EXPECT_EQ(infer_op("SequenceAt", {joined, ir::ValueType::tensor(DType::i64, Shape{})})[0], *joined.element);
  EXPECT_EQ(infer_op("ConcatFromSequence", {joined}, {{"axis", std::int64_t{1}}})[0], *joined.element);
}

TEST(Sequence, InsertEraseAtLength) {
  const Value three = run_one({"SequenceInsert", {pair(), kB, position(-2)}});
  EXPECT_TRUE(identical(run_op_tensor({"SequenceLength", {three}}), Tensor::scalar<std::int64_t>(3)));
  EXPECT_TRUE(identical(run_op_tensor({"SequenceAt", {three, position(0)}}), kB));
  EXPECT_TRUE(identical(run_op_tensor({"SequenceAt", {run_one({"SequenceErase", {three}}), position(-1)}}), kA));
  EXPECT_EQ(run_one({"SequenceInsert", {run_one({"SequenceEmpty", {}}), kA}}).elements().size(), 1u);
}

TEST(Sequence, RefusesPositionsOutside) {
  expect_error(ErrorKind::failed, "index 2 is outside [-2, 2)", [] { run_op({"SequenceAt", {pair(), position(2)}}); });
  expect_error(ErrorKind::failed, "index 3 is outside [-2, 2]",
               [] { run_op({"SequenceInsert", {pair(), kA, position(3)}}); });
  expect_error(ErrorKind::failed, "index -1 is outside [0, 0)",
               [] { run_op({"SequenceErase", {Value::sequence({})}}); });
  expect_error(ErrorKind::invalid_model, "input 'input_sequence' is f32[2], expected a sequence",
               [] { run_op({"SequenceLength", {kA}}); });
}

TEST(SplitToSequence, PartsOfASizeOrGivenSizes) {
  const Tensor x = Tensor::from<std::int32_t>({3}, {1, 2, 3});
  const Value by_two = run_one({"SplitToSequence", {x, position(2)}});
  EXPECT_TRUE(identical(by_two.elements()[1].tensor(), Tensor::from<std::int32_t>({1}, {3})));
  const Value single = run_one({"SplitToSequence", {x}, {{"keepdims", std::int64_t{0}}}});
  EXPECT_TRUE(identical(single.elements()[2].tensor(), Tensor::scalar<std::int32_t>(3)));
  expect_error(ErrorKind::failed, "cannot split into parts of 0",
               [&] { run_op({"SplitToSequence", {x, position(0)}}); });
}

TEST(ConcatFromSequence, AlongAnOldOrANewAxis) {
  EXPECT_TRUE(identical(run_op_tensor({"ConcatFromSequence", {pair()}, {{"axis", std::int64_t{0}}}}),
                        Tensor::from<float>({4}, {1, 2, 3, 4})));
  EXPECT_TRUE(identical(
      run_op_tensor({"ConcatFromSequence", {pair()}, {{"axis", std::int64_t{-1}}, {"new_axis", std::int64_t{1}}}}),
      Tensor::from<float>({2, 2}, {1, 3, 2, 4})));
}

}  // namespace
}  // namespace tessera::test::sequence_test
