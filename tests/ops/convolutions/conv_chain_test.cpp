// What chains of convolutions give, and which ones are refused.
#include "ops/convolutions/conv_chain.h"

#include <gtest/gtest.h>

#include "ops/op_table.h"
#include "support/random_tensor.h"
#include "support/run_op.h"
#include "tessera/error.h"

namespace tessera::ops::conv_chain_test {
namespace {

using test::random_tensor;
using Stages = std::vector<ConvStage>;

const Value kData(random_tensor(DType::f32, {2, 7, 6, 3}, 1)), kWiden(random_tensor(DType::f32, {5, 3, 1, 1}, 2)),
    kBias(random_tensor(DType::f32, {5}, 3)), kFilter(random_tensor(DType::f32, {5, 1, 3, 3}, 4)),
    kNarrow(random_tensor(DType::f32, {3, 5, 1, 1}, 5));
const std::vector<Value> kInputs{kData, kWiden, kBias, kFilter, kNarrow};

// An inverted residual block: wider, 3×3 for each channel, narrower, and its own input.
Stages block() {
  return {{.operands = {0, 1, 2, -1}, .activation = "Clip", .parameters = {-0.5f, 0.75f}},
          {.operands = {5, 3, -1, -1}, .pads = {1, 1, 1, 1}, .group = 5, .activation = "Relu"},
          {.operands = {6, 4, -1, 0}}};
}

// All of it rounds; what lies between is stored so.
Stages rounded_block() {
  Stages stages = block();
  for (ConvStage& stage : stages) stage.precision = "bf16";
  stages[0].output_dtype = stages[1].output_dtype = static_cast<std::int64_t>(DType::bf16);
  return stages;
}

std::string error_of(const std::vector<Value>& inputs, const ir::Attributes& attributes) {
  try {
    test::run_op({std::string(conv_chain.name), inputs, attributes});
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(ConvChain, ComputesItsStagesOneAfterTheOther) {
  const std::string conv = "tessera::ChannelsLastConv";
  const Tensor wide = test::run_op_tensor(
      {conv,
       {kData, kWiden, kBias},
       {{"activation", std::string("Clip")}, {"activation_params", std::vector<float>{-0.5f, 0.75f}}}});
  const Tensor filtered = test::run_op_tensor({conv,
                                               {wide, kFilter},
                                               {{"group", std::int64_t{5}},
                                                {"pads", std::vector<std::int64_t>{1, 1, 1, 1}},
                                                {"activation", std::string("Relu")}}});
  const Tensor expected = test::run_op_tensor({conv, {filtered, kNarrow, Value(), kData}});
  EXPECT_TRUE(identical(test::run_op_tensor({std::string(conv_chain.name), kInputs, conv_chain_attributes(block())}),
                        expected));
}

TEST(ConvChain, StagesRoundAsTheirConvolutionsDo) {
  const std::string conv = "tessera::ChannelsLastConv", precision = "bf16";
  const std::int64_t stored = static_cast<std::int64_t>(DType::bf16);
  const Tensor wide = test::run_op_tensor({conv,
                                           {kData, kWiden, kBias},
                                           {{"precision", precision},
                                            {"output_dtype", stored},
                                            {"activation", std::string("Clip")},
                                            {"activation_params", std::vector<float>{-0.5f, 0.75f}}}});
  const Tensor filtered = test::run_op_tensor({conv,
                                               {wide, kFilter},
                                               {{"precision", precision},
                                                {"output_dtype", stored},
                                                {"group", std::int64_t{5}},
                                                {"pads", std::vector<std::int64_t>{1, 1, 1, 1}},
                                                {"activation", std::string("Relu")}}});
  const Tensor expected = test::run_op_tensor({conv, {filtered, kNarrow, Value(), kData}, {{"precision", precision}}});
  EXPECT_EQ(wide.dtype(), DType::bf16);
  EXPECT_EQ(expected.dtype(), DType::f32);
  EXPECT_TRUE(identical(
      test::run_op_tensor({std::string(conv_chain.name), kInputs, conv_chain_attributes(rounded_block())}), expected));
}

TEST(ConvChain, AttributesHoldItsStages) {
  for (const Stages& stages : {block(), rounded_block()}) {
    const ir::Attributes attributes = conv_chain_attributes(stages);
    EXPECT_EQ(attributes.contains("precisions"),
              !stages[0].precision.empty());  // as files had them before there were any
    ir::Node node{std::string(conv_chain.name), "", {}, {}, attributes, 0};
    const Stages held = conv_stages(AttributeReader(node, conv_chain));
    ASSERT_EQ(held.size(), stages.size());
    for (std::size_t i = 0; i < stages.size(); ++i)
      EXPECT_EQ(std::pair(held[i].precision, held[i].output_dtype),
                std::pair(stages[i].precision, stages[i].output_dtype));
  }
}

TEST(ConvChain, ResultHasTheTypeOfItsLastStage) {
  std::vector<ir::ValueType> types;
  for (const Value& input : kInputs)
    types.push_back(ir::ValueType::tensor(DType::f32, ir::to_dims(input.tensor().shape())));
  types[0].dtype = DType::bf16;
  Stages stages = rounded_block();
  EXPECT_EQ(test::infer_op(std::string(conv_chain.name), types, conv_chain_attributes(stages))[0].dtype, DType::f32);
  stages[2].output_dtype = static_cast<std::int64_t>(DType::bf16);
  EXPECT_EQ(test::infer_op(std::string(conv_chain.name), types, conv_chain_attributes(stages))[0], types[0]);
}

TEST(ConvChain, KeepsSymbolicSizes) {
  const auto picture = [](const char* height) {
    return ir::ValueType::tensor(DType::f32, ir::Dims{ir::Dim::symbol("batch"), ir::Dim::symbol(height), 6, 3});
  };
  std::vector<ir::ValueType> types{picture("height")};
  for (std::size_t i = 1; i < kInputs.size(); ++i)
    types.push_back(ir::ValueType::tensor(DType::f32, ir::to_dims(kInputs[i].tensor().shape())));
  EXPECT_EQ(test::infer_op(std::string(conv_chain.name), types, conv_chain_attributes(block()))[0], picture("height"));
}

TEST(ConvChain, CostsWhatItsStagesComputeAndNoBytesBetweenThem) {
  std::vector<TensorType> types;
  std::vector<const Tensor*> constants(kInputs.size());
  double read = 0;
  for (const Value& input : kInputs) {
    types.push_back({DType::f32, input.tensor().shape()});
    read += static_cast<double>(input.tensor().bytes());
  }
  ir::Node node{std::string(conv_chain.name), "", {}, {{0}}, conv_chain_attributes(block()), 0};
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(types.size()); ++i) node.inputs.push_back({i});
  const std::vector<TensorType> outputs{types[0]};
  const Cost cost = cost_of(NodeView(node, conv_chain, types, outputs, constants));
  EXPECT_EQ(cost.operations, 2 * (2 * 7 * 6) * (5 * 3 + 5 * 9 + 3 * 5));
  EXPECT_EQ(cost.bytes_read, read);
  EXPECT_EQ(cost.bytes_written, 4 * 2 * 7 * 6 * 3);
}

TEST(ConvChain, RefusesWhatMakesNoSense) {
  const auto with_operands = [](std::size_t stage, std::array<std::int64_t, 4> operands) {
    Stages stages = block();
    stages[stage].operands = operands;
    return conv_chain_attributes(stages);
  };
  EXPECT_EQ(error_of(kInputs, conv_chain_attributes({})), "has 0 stages, expected 1 to 16");
  EXPECT_EQ(error_of(kInputs, with_operands(0, {5, 1, 2, -1})),
            "stage 0 takes value 5 as operand 0, expected an earlier one");
  EXPECT_EQ(error_of(kInputs, with_operands(1, {5, 6, -1, -1})),
            "stage 1 takes value 6 as operand 1, expected an earlier one");
  EXPECT_EQ(error_of(kInputs, with_operands(2, {-1, 4, -1, 0})),
            "stage 2 takes value -1 as operand 0, expected an earlier one");
  EXPECT_EQ(error_of(kInputs, with_operands(0, {0, 1, -1, -1})), "a value of the chain is not used");
  EXPECT_NE(error_of(kInputs, with_operands(2, {6, 4, -1, 5})).find("expected"),
            std::string::npos);  // an addend of another shape
  Stages stages = block();
  stages[0].activation = "Rely";
  EXPECT_NE(error_of(kInputs, conv_chain_attributes(stages)).find("Rely"), std::string::npos);
  stages[0].activation = "Relu";
  stages[1].strides = {0, 1};
  EXPECT_NE(error_of(kInputs, conv_chain_attributes(stages)).find("strides"), std::string::npos);
  std::vector<Value> volumes = kInputs;
  volumes[0] = random_tensor(DType::f32, {2, 7, 6, 2, 3}, 1);
  EXPECT_EQ(error_of(volumes, conv_chain_attributes(block())), "data has rank 5, expected [N, H, W, C]");
  ir::Attributes attributes = conv_chain_attributes(block());
  attributes["windows"] = std::vector<std::int64_t>{1};
  EXPECT_EQ(error_of(kInputs, attributes), "1 numbers of windows for 3 stages, expected 9 for each");
}

TEST(ConvChain, RefusesTypesThatItsConvolutionsRefuse) {
  ir::Attributes attributes = conv_chain_attributes(rounded_block());
  attributes["precisions"] = std::vector<std::string>{"bf16"};
  EXPECT_EQ(error_of(kInputs, attributes), "1 precisions for 3 stages, expected one for each or none");
  attributes = conv_chain_attributes(rounded_block());
  attributes["output_dtypes"] = std::vector<std::int64_t>(4);
  EXPECT_EQ(error_of(kInputs, attributes), "4 output_dtypes for 3 stages, expected one for each or none");
  Stages stages = rounded_block();
  stages[1].precision = "f16";
  EXPECT_EQ(error_of(kInputs, conv_chain_attributes(stages)), "precision is 'f16', expected bf16");
  stages[1].precision = "";  // but its data is stored rounded
  EXPECT_EQ(error_of(kInputs, conv_chain_attributes(stages)), "'X' is bf16, 'W' f32");
  stages = rounded_block();
  stages[2].output_dtype = static_cast<std::int64_t>(DType::f16);
  EXPECT_NE(error_of(kInputs, conv_chain_attributes(stages)).find("expected that of bf16"), std::string::npos);
  std::vector<Value> inputs = kInputs;
  inputs[0] = random_tensor(DType::bf16, {2, 7, 6, 3}, 1);
  EXPECT_EQ(error_of(inputs, conv_chain_attributes(block())), "'X' is bf16, 'W' f32");
}

}  // namespace
}  // namespace tessera::ops::conv_chain_test
