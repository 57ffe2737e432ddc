// Kernels that move elements: one list of calls, all compared with the reference bit by bit.
#include <gtest/gtest.h>

#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "tessera/error.h"

namespace tessera::test::movement_test {
namespace {

Value integers(std::vector<std::int64_t> values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

Value data(DType type, const Shape& shape) {
  return random_tensor(type, shape, 7, is_unsigned_integer(type) || type == DType::boolean ? 0 : -100, 100);
}

ir::Attributes axis(std::int64_t value) {
  return {{"axis", value}};
}
ir::Attributes perm(std::vector<std::int64_t> value) {
  return {{"perm", std::move(value)}};
}

// Calls with operand 0 of the given element type.
std::vector<OpCall> calls_of(DType type) {
  const auto x = [&](const Shape& shape) { return data(type, shape); };
  return {
      {"Transpose", {x({7, 5})}},
      {"Transpose", {x({67, 129})}},
      {"Transpose", {x({1, 3, 37, 41})}, perm({0, 2, 3, 1})},
      {"Transpose", {x({2, 37, 41, 3})}, perm({0, 3, 1, 2})},
      {"Transpose", {x({2, 70, 12, 33})}, perm({0, 2, 3, 1})},
      {"Transpose", {x({2, 13, 4, 40})}, perm({0, 2, 1, 3})},
      {"Transpose", {x({2, 13, 4, 40})}, perm({0, 2, 3, 1})},
      {"Transpose", {x({3, 4, 5, 6, 7})}, perm({4, 2, 0, 3, 1})},
      {"Transpose", {x({})}},
      {"Transpose", {x({3, 0, 2})}},
      {"Transpose", {x({1, 300, 400})}, perm({0, 2, 1})},
      {"DepthToSpace", {x({2, 12, 3, 5})}, {{"blocksize", std::int64_t{2}}}},
      {"DepthToSpace", {x({2, 12, 3, 5})}, {{"blocksize", std::int64_t{2}}, {"mode", std::string("CRD")}}},
      {"SpaceToDepth", {x({2, 3, 4, 6})}, {{"blocksize", std::int64_t{2}}}},
      {"Slice", {x({9, 50}), integers({1, 3}), integers({8, 47})}},
      {"Slice", {x({9, 50}), integers({-1, 40}), integers({-100, 2}), integers({0, 1}), integers({-2, -3})}},
      {"Slice",
       {x({9, 50}), integers({0}), integers({std::int64_t{1} << 62}), integers({1}),
        integers({std::int64_t{1} << 61})}},
      {"Slice", {x({300, 500}), integers({0}), integers({299}), integers({0})}},
      {"Slice", {x({4}), integers({3}), integers({1})}},
      {"Expand", {x({3, 1}), integers({2, 1, 5})}},
      {"Expand", {x({}), integers({300})}},
      {"Expand", {x({3, 1}), integers({0, 3, 2})}},
      {"Tile", {x({2, 3, 5}), integers({2, 1, 3})}},
      {"Tile", {x({2, 3}), integers({1, 0})}},
      {"Concat", {x({3, 4}), x({3, 1}), x({3, 9})}, axis(1)},
      {"Concat", {x({3, 4}), x({2, 4})}, axis(0)},
      {"Concat", {x({3, 1}), x({3, 1}), x({3, 0})}, axis(-1)},
      {"Concat", {x({300, 400}), x({300, 100})}, axis(1)},
      {"Concat", {x({200, 400}), x({100, 400})}, axis(0)},
      {"Split", {x({4, 9}), integers({2, 0, 7})}, axis(1), 3},
      {"Split", {x({4, 10}), Value()}, {{"axis", std::int64_t{1}}, {"num_outputs", std::int64_t{3}}}, 3},
      {"Gather", {x({5, 7}), integers({4, -1, 0, 2})}},
      {"Gather", {x({5, 7}), Tensor::from<std::int32_t>({2, 2}, {6, -7, 0, 2})}, axis(1)},
      {"Gather", {x({5, 7}), Tensor::scalar<std::int64_t>(-2)}},
      {"Gather", {x({3, 5, 40}), integers({1, 1})}, axis(1)},
      {"Gather", {x({5, 7}), integers({})}},
      {"Gather", {x({6000, 65}), random_tensor(DType::i64, {500}, 3, -6000, 5999)}},  // more than a cache holds
      {"GatherElements", {x({3, 5}), Tensor::from<std::int64_t>({2, 4}, {0, -1, 2, 1, 2, 2, -3, 0})}},
      {"GatherElements", {x({3, 5}), Tensor::from<std::int64_t>({2, 4}, {0, -1, 4, 1, 2, 2, -3, 0})}, axis(1)},
      {"GatherElements", {x({3, 2, 5}), random_tensor(DType::i32, {3, 4, 5}, 3, -2, 1)}, axis(1)},
      {"Pad", {x({3, 4, 5}), integers({0, 1, 2, 0, 3, 0})}},
      {"Pad", {x({3, 4, 5}), integers({0, 1, 2, 0, 3, 1}), x({})}},
      {"Pad", {x({2, 3, 4, 5}), integers({1, 2, 0, 1}), Value(), integers({1, 2})}},
      {"Pad", {x({3, 4, 5}), integers({0, -1, 2, 0, 3, -4})}},
      {"Pad", {x({3, 4, 5}), integers({1, -1, 7, 0, 3, 9})}, {{"mode", std::string("reflect")}}},
      {"Pad", {x({3, 4, 5}), integers({1, -1, 7, 0, 3, 9})}, {{"mode", std::string("edge")}}},
      {"Pad", {x({3, 4, 5}), integers({1, 1, 7, 0, 3, 9})}, {{"mode", std::string("wrap")}}},
      {"Pad", {x({3, 0}), integers({0, 2, 0, 1})}},
      {"Pad", {x({1, 200, 300, 3}), integers({0, 1, 1, 0, 0, 1, 1, 0})}},
  };
}

class CpuMovement : public testing::TestWithParam<DType> {};

TEST_P(CpuMovement, MatchesReference) {
  for (const OpCall& call : calls_of(GetParam())) expect_matches_reference(call);
}

INSTANTIATE_TEST_SUITE_P(, CpuMovement, testing::Values(DType::f32, DType::u8, DType::f16, DType::i64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(CpuMovementErrors, RefusesIndicesOutOfRange) {
  EXPECT_THROW(run_op({"Gather", {data(DType::f32, {5, 7}), integers({5})}}, "cpu"), Error);
  EXPECT_THROW(run_op({"GatherElements", {data(DType::f32, {5, 7}), Tensor::from<std::int64_t>({1, 1}, {-6})}}, "cpu"),
               Error);
}

}  // namespace
}  // namespace tessera::test::movement_test
