#include "ops/training/row_optimiser_step.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/against_reference.h"
#include "support/random_tensor.h"
#include "tessera/error.h"

namespace tessera::test::row_optimiser_step_test {
namespace {

struct Case {
  std::string algorithm;
  std::size_t states;
  ir::Attributes attributes = {};
};

const std::vector<Case> kCases{
    {"sgd", 0},
    {"sgd", 1, {{"momentum", 0.9f}}},
    {"sgd", 1, {{"momentum", 0.9f}, {"nesterov", std::int64_t{1}}, {"weight_decay", 0.05f}}},
    {"adam", 2},
    {"adamw", 2, {{"epsilon", 1e-6f}, {"weight_decay", 0.05f}}},
    {"adagrad", 1, {{"epsilon", 1e-10f}, {"rate_decay", 0.1f}}},
    {"adagrad", 1, {{"epsilon", 1e-10f}, {"weight_decay", 0.05f}}},
};

// Every third row of a table has a gradient; the last two places are empty.
OpCall call_of(const Case& given, std::int64_t rows, const Shape& row, bool lazy, bool apply = true) {
  Shape table{rows};
  table.insert(table.end(), row.begin(), row.end());
  const std::int64_t found = (rows + 2) / 3;
  Shape sums = table;
  sums[0] = found + 2;
  Tensor places(DType::i64, {found + 2});
  for (std::int64_t i = 0; i < found + 2; ++i) places.mutable_data<std::int64_t>()[i] = i < found ? 3 * i : rows;
  OpCall call{"tessera::RowOptimiserStep",
              {Tensor::scalar(0.01f), Tensor::scalar(std::int64_t{3}), Tensor::scalar(0.25f), Tensor::scalar(apply),
               random_tensor(DType::f32, table, 1, -1, 1), random_tensor(DType::f32, sums, 2, -1, 1), places},
              given.attributes,
              1 + given.states};
  call.attributes["algorithm"] = given.algorithm;
  if (lazy) call.attributes["lazy"] = std::int64_t{1};
  for (std::size_t i = 0; i < given.states; ++i)  // the second moment is not negative
    call.inputs.push_back(random_tensor(DType::f32, table, 3 + i, i == 1 || given.algorithm == "adagrad" ? 0 : -1, 1));
  return call;
}

TEST(CpuRowOptimiserStep, MatchesReference) {
  for (const Case& each : kCases) {
    for (const bool lazy : {false, true}) {
      for (const auto& [rows, row] :
           {std::pair<std::int64_t, Shape>{7, {5}}, {1, {}}, {3000, {16}}, {40, {5000}}, {0, {4}}}) {
        SCOPED_TRACE(each.algorithm + (lazy ? ", lazy" : "") + ", rows " + std::to_string(rows));
        expect_matches_reference(call_of(each, rows, row, lazy), Tolerance::epsilons(DType::f32, 8));
      }
    }
    expect_matches_reference(call_of(each, 50, {6}, false, false));
  }
}

// The same bits as the step that takes the whole gradient.
TEST(CpuRowOptimiserStep, EqualsTheStepOfTheWhole) {
  for (const Case& each : kCases) {
    const OpCall rows = call_of(each, 3001, {12}, false);
    Tensor gradient(DType::f32, {3001, 12});
    std::fill_n(gradient.mutable_data<float>(), gradient.elements(), 0.0f);
    const float* sums = rows.inputs[5].tensor().data<float>();
    for (std::int64_t i = 0; 3 * i < 3001; ++i)
      std::copy_n(sums + i * 12, 12, gradient.mutable_data<float>() + 3 * i * 12);
    OpCall whole = rows;
    whole.op = "tessera::OptimiserStep";
    whole.inputs[5] = gradient;
    whole.inputs.erase(whole.inputs.begin() + 6);
    whole.attributes.erase("weight_decay");
    if (const auto decay = rows.attributes.find("weight_decay"); decay != rows.attributes.end())
      whole.attributes["weight_decays"] = std::vector<float>{std::get<float>(decay->second)};
    const std::vector<Value> found = run_op(rows, "cpu", 2), expected = run_op(whole, "cpu", 1);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(identical(found[i].tensor(), expected[i].tensor())) << each.algorithm << ", output " << i;
  }
}

TEST(CpuRowOptimiserStep, LazyRowsKeepTheirMoments) {
  for (const Case& each : kCases) {
    const OpCall call = call_of(each, 10, {4}, true);
    const std::vector<Value> found = run_op(call, "cpu");
    for (std::size_t i = 0; i < found.size(); ++i) {
      const float *now = found[i].tensor().data<float>(),
                  *before = call.inputs[i == 0 ? 4 : 6 + i].tensor().data<float>();
      for (std::int64_t row = 0; row < 10; ++row)
        EXPECT_EQ(std::equal(now + row * 4, now + row * 4 + 4, before + row * 4), row % 3 != 0)
            << each.algorithm << row;
    }
  }
}

TEST(RowOptimiserStep, RefusesRulesThatNeedTheWhole) {
  OpCall call = call_of({"sgd", 0}, 4, {2}, false);
  call.attributes["algorithm"] = std::string("lamb");
  try {
    run_op(call);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected sgd, adam, adamw or adagrad"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera::test::row_optimiser_step_test
