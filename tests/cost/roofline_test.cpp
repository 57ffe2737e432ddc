#include "cost/roofline.h"

#include <gtest/gtest.h>

#include <array>

#include "ops/convolutions/conv_chain.h"
#include "ops/core/builder.h"

namespace tessera::test::roofline_test {
namespace {

using cost::Bound;
using cost::Precision;
using cost::Work;

constexpr cost::WorkPrecision kHalf{Precision::f16, Precision::f16};

const cost::DeviceProfile& device(const char* name) {
  return *cost::find_built_in_profile(name);
}

// A graph of one operator over f32 tensors of these shapes; those beyond the first are constants.
Work work_of_op(const std::string& op, const std::vector<Shape>& shapes, ir::Attributes attributes = {},
                cost::WorkPrecision precision = kHalf) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  std::vector<ir::ValueId> inputs{graph.add_input("x", ir::ValueType::tensor(DType::f32, shapes[0]))};
  for (std::size_t i = 1; i < shapes.size(); ++i) inputs.push_back(graph.add_constant(Tensor(DType::f32, shapes[i])));
  graph.add_output(builder.add(op, inputs, std::move(attributes)));
  return *cost::work_of(graph, graph.order()[0], precision);
}

cost::Estimate on(const char* name, const Work& work) {
  return cost::estimate(work, device(name));
}

// --- the table of the specification ---

TEST(Roofline, LinearLayerOfALargeBatchIsBoundByArithmetic) {
  const Work work = work_of_op("MatMul", {{512, 1024}, {1024, 4096}});
  EXPECT_NEAR(on("v100-16", work).intensity, 315, 0.5);
  EXPECT_EQ(on("v100-16", work).bound, Bound::arithmetic);
}

TEST(Roofline, LinearLayerOfBatchOneIsBoundByMemoryAnywhere) {
  const Work work = work_of_op("MatMul", {{1, 1024}, {1024, 4096}});
  EXPECT_NEAR(on("v100-16", work).intensity, 1, 0.01);
  for (const cost::DeviceProfile& profile : cost::built_in_profiles()) {
    const cost::Estimate estimate = cost::estimate(work, profile);
    EXPECT_GT(estimate.memory_seconds, estimate.arithmetic_seconds) << profile.name;
  }
}

TEST(Roofline, MaxPoolingIntensity) {
  const Work work =
      work_of_op("MaxPool", {{1, 64, 56, 56}},
                 {{"kernel_shape", std::vector<std::int64_t>{3, 3}}, {"pads", std::vector<std::int64_t>{1, 1, 1, 1}}});
  EXPECT_DOUBLE_EQ(on("v100-16", work).intensity, 2.25);
}

TEST(Roofline, ReluIntensity) {
  EXPECT_DOUBLE_EQ(on("v100-16", work_of_op("Relu", {{64, 1024}})).intensity, 0.25);
}

TEST(Roofline, LayerNormalisationIntensityIsBelowTen) {
  const double intensity = on("v100-16", work_of_op("LayerNormalization", {{512, 1024}, {1024}, {1024}})).intensity;
  EXPECT_GT(intensity, 0.25);
  EXPECT_LT(intensity, 10);
}

// --- the formula ---

TEST(Roofline, TimeIsTheLongerOfBothAndTheStart) {
  const Work work = work_of_op("MatMul", {{512, 1024}, {1024, 4096}});
  const cost::Estimate estimate = on("v100-16", work);
  EXPECT_DOUBLE_EQ(estimate.arithmetic_seconds, 2.0 * 512 * 1024 * 4096 / 125e12);
  EXPECT_DOUBLE_EQ(estimate.memory_seconds, 2.0 * (512 * 1024 + 1024 * 4096 + 512 * 4096) / 900e9);
  EXPECT_DOUBLE_EQ(estimate.seconds, estimate.arithmetic_seconds + 5e-6);
  EXPECT_DOUBLE_EQ(cost::estimate(work, device("v100-16"), 0.5).seconds, 2 * estimate.arithmetic_seconds + 5e-6);
  EXPECT_DOUBLE_EQ(estimate.ridge, 125e12 / 900e9);
}

TEST(Roofline, SmallOperatorsAreBoundByTheirStart) {
  EXPECT_EQ(on("h200", work_of_op("Relu", {{16}})).bound, Bound::overhead);
}

TEST(Roofline, ViewsCostNothing) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::f32, Shape{4, 6}));
  graph.add_output(builder.add("Reshape", {x, builder.integers({24})}));
  const cost::Estimate estimate = cost::estimate(*cost::work_of(graph, graph.order()[0]), device("l4"));
  EXPECT_EQ(estimate.bound, Bound::none);
  EXPECT_EQ(estimate.seconds, 0);
}

TEST(Roofline, GatherReadsOnlyWhatItGathers) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId indices = graph.add_input("i", ir::ValueType::tensor(DType::i64, Shape{10}));
  graph.add_output(
      builder.add("Gather", {graph.add_constant(Tensor(DType::f32, {100000, 64}, nullptr, nullptr)), indices}));
  EXPECT_LT(cost::work_of(graph, graph.order()[0])->bytes(), 2 * 10 * 64 * 4 + 100);
}

TEST(Roofline, PrecisionChangesBytesAndUnits) {
  const std::vector<Shape> shapes{{512, 1024}, {1024, 4096}};
  const double bytes = work_of_op("MatMul", shapes, {}, {}).bytes();
  EXPECT_DOUBLE_EQ(work_of_op("MatMul", shapes, {}, {Precision::int8, Precision::f16}).bytes(), bytes / 4);
  EXPECT_DOUBLE_EQ(work_of_op("Relu", {{512}}, {}, {Precision::int8, Precision::f16}).bytes(), 512 * 2 * 2);
  const cost::WorkPrecision on_cpu = cost::precisions_for(device("cpu"), Precision::int8),
                            on_gpu = cost::precisions_for(device("l4"), Precision::int8);
  EXPECT_EQ(on_cpu.other, Precision::f32);
  EXPECT_EQ(on_gpu.other, Precision::f16);
  EXPECT_FALSE(on("v100-16", work_of_op("MatMul", shapes, {}, {Precision::bf16, Precision::bf16})).supported);
}

TEST(Roofline, IntegerAndRoundedLayersMultiplyInTheirOwnPrecision) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  const ir::ValueId bytes = graph.add_input("x", ir::ValueType::tensor(DType::u8, Shape{512, 1024})),
                    weights = graph.add_constant(Tensor(DType::i8, {1024, 4096}));
  const ir::ValueId one = builder.scalar(1);
  graph.add_output(builder.add("tessera::QuantisedLinear", {bytes, weights, {}, one, {}, one}));
  const Work integer = *cost::work_of(graph, graph.order()[0]);
  EXPECT_EQ(integer.precision, Precision::int8);
  ASSERT_TRUE(integer.gemm);
  EXPECT_EQ(integer.gemm->n, 4096);
  EXPECT_NEAR(integer.bytes(), 512 * 1024 + 1024 * 4096 + 512 * 4096 * 4, 16);
  EXPECT_EQ(
      work_of_op("tessera::Linear", {{512, 1024}, {1024, 4096}}, {{"precision", std::string("bf16")}}, {}).precision,
      Precision::bf16);
  const auto chain = [](std::vector<std::string> precisions) {
    std::vector<ops::ConvStage> stages{{.operands = {0, 1, -1, -1}}, {.operands = {3, 2, -1, -1}}};
    for (std::size_t i = 0; i < 2; ++i) stages[i].precision = precisions[i];
    return work_of_op("tessera::ConvChain", {{1, 8, 8, 4}, {16, 4, 1, 1}, {4, 16, 1, 1}},
                      ops::conv_chain_attributes(stages), {});
  };
  const Work rounded = chain({"bf16", "bf16"});
  EXPECT_EQ(rounded.precision, Precision::bf16);
  EXPECT_EQ(rounded.weight_bytes, 2 * 2 * 16 * 4);
  EXPECT_EQ(chain({"bf16", ""}).precision, Precision::f32);
  const Work transposed = work_of_op("tessera::Linear", {{512, 4, 256}, {4096, 1024}},
                                     {{"axis", std::int64_t{1}}, {"transB", std::int64_t{1}}}, {});
  ASSERT_TRUE(transposed.gemm);
  EXPECT_EQ((std::array{transposed.gemm->m, transposed.gemm->n, transposed.gemm->k}),
            (std::array<std::int64_t, 3>{512, 4096, 1024}));
}

TEST(Roofline, LayersOfBfloat16MultiplyInIt) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", ir::ValueType::tensor(DType::bf16, Shape{20, 1, 80}));
  const auto weights = [&](Shape shape) {
    return graph.add_constant(Tensor(DType::bf16, std::move(shape), nullptr, nullptr));
  };
  graph.add_output(ops::GraphBuilder(graph).add("LSTM", {x, weights({1, 2048, 80}), weights({1, 2048, 512})},
                                                {{"hidden_size", std::int64_t{512}}}));
  const Work work = *cost::work_of(graph, graph.order()[0]);
  EXPECT_EQ(work.precision, Precision::bf16);
  EXPECT_DOUBLE_EQ(work.weight_bytes, 2 * 2048 * (80 + 512));
  EXPECT_EQ(cost::work_of(graph, graph.order()[0], {Precision::f16, Precision::f16})->precision, Precision::f16);
}

TEST(Roofline, ProductsOfConvolutions) {
  const Work conv =
      work_of_op("Conv", {{2, 3, 224, 224}, {64, 3, 7, 7}},
                 {{"strides", std::vector<std::int64_t>{2, 2}}, {"pads", std::vector<std::int64_t>{3, 3, 3, 3}}});
  ASSERT_TRUE(conv.gemm);
  EXPECT_EQ(conv.gemm->m, 2 * 112 * 112);
  EXPECT_EQ(conv.gemm->n, 64);
  EXPECT_EQ(conv.gemm->k, 3 * 49);
  EXPECT_DOUBLE_EQ(conv.gemm->operations(), conv.cost.operations);
  const Work depthwise = work_of_op("Conv", {{1, 32, 28, 28}, {32, 1, 3, 3}}, {{"group", std::int64_t{32}}});
  EXPECT_FALSE(depthwise.gemm);
}

TEST(Roofline, ACpuReadsWeightsFromWhereTheRunLeavesThem) {
  cost::DeviceProfile cpu = device("cpu");
  const Work work = work_of_op("MatMul", {{1, 256}, {256, 256}}, {}, {});
  const double alone = cost::estimate(work, cpu).memory_seconds,
               amid = cost::estimate(work, cpu, 1, {.resident_bytes = 1e9}).memory_seconds;
  EXPECT_GT(amid, 2 * alone);
}

TEST(Roofline, TotalsSayWhatTheTimeGoesTo) {
  const std::vector<cost::Estimate> estimates{on("v100-16", work_of_op("MatMul", {{4096, 4096}, {4096, 4096}})),
                                              on("v100-16", work_of_op("Relu", {{4096, 4096}}))};
  const cost::Total total = cost::sum(estimates);
  EXPECT_EQ(total.bound, Bound::arithmetic);
  EXPECT_DOUBLE_EQ(total.seconds, estimates[0].seconds + estimates[1].seconds);
  EXPECT_DOUBLE_EQ(total.memory_seconds, estimates[1].seconds);
  EXPECT_GT(total.arithmetic_utilisation, 0.8);
}

}  // namespace
}  // namespace tessera::test::roofline_test
