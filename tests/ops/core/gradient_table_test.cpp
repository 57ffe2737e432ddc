// Which operators have no gradient, and why: the table that docs/gradients.md shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "base/error.h"
#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "passes/training/differentiate.h"
#include "passes/training/differentiate_control_flow.h"
#include "support/typed_example.h"

namespace tessera::test::gradient_table_test {
namespace {

struct Group {
  std::string_view reason;
  std::vector<std::string_view> ops;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> table{
      {"Their results are integers, truth values or text.",
       {"And",
        "BitCast",
        "BitShift",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "IsInf",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Not",
        "Or",
        "Xor",
        "ArgMax",
        "ArgMin",
        "NonZero",
        "NonMaxSuppression",
        "Shape",
        "Size",
        "StringConcat",
        "StringNormalizer",
        "StringSplit",
        "com.microsoft::Tokenizer",
        "RegexFullMatch",
        "MatMulInteger",
        "ConvInteger",
        "com.microsoft::MatMulInteger16",
        "ImageDecoder"}},
      {"Their results are made of sizes, random numbers or counts, or of operands that are never trained.",
       {"ConstantOfShape", "Range", "EyeLike", "OneHot", "HannWindow", "HammingWindow", "BlackmanWindow",
        "MelWeightMatrix", "TfIdfVectorizer", "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike",
        "RandomUniform", "RandomUniformLike", "tessera::Unmask"}},
      {"They compute with the integers of a model that is quantised already.",
       {"DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "tessera::QuantisedConv",
        "tessera::QuantisedLinear",
        "com.microsoft::QEmbedLayerNormalization",
        "com.microsoft::QGemm",
        "com.microsoft::QLinearAdd",
        "com.microsoft::QLinearAveragePool",
        "com.microsoft::QLinearConcat",
        "com.microsoft::QLinearGlobalAveragePool",
        "com.microsoft::QLinearLeakyRelu",
        "com.microsoft::QLinearMul",
        "com.microsoft::QLinearReduceMean",
        "com.microsoft::QLinearSigmoid",
        "com.microsoft::QLinearSoftmax",
        "com.microsoft::QLinearWhere",
        "com.microsoft::DynamicQuantizeLSTM",
        "com.microsoft::DynamicQuantizeMatMul",
        "com.microsoft::MatMulNBits",
        "com.microsoft::GatherBlockQuantized"}},
      {"They stand for gradients, or behind them in a training step.",
       {"ai.onnx.preview.training::Gradient", "ai.onnx.preview.training::Adagrad", "ai.onnx.preview.training::Adam",
        "ai.onnx.preview.training::Momentum", "tessera::GlobalNorm", "tessera::OptimiserStep",
        "tessera::RowOptimiserStep", "tessera::SumRows", "tessera::AddMicroBatch", "tessera::SumOverRanks",
        "tessera::GatherOverRanks"}},
      {"They hold sequences, optionals or maps, through which no gradient flows.",
       {"SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength",
        "SplitToSequence", "ConcatFromSequence", "SequenceMap", "Optional", "OptionalHasElement", "OptionalGetElement",
        "ai.onnx.ml::ZipMap", "ai.onnx.ml::DictVectorizer", "ai.onnx.ml::CastMap"}},
      {"Classical models are fitted by other means than gradients.",
       {"ai.onnx.ml::TreeEnsemble", "ai.onnx.ml::TreeEnsembleClassifier", "ai.onnx.ml::TreeEnsembleRegressor",
        "ai.onnx.ml::Scaler", "ai.onnx.ml::Normalizer", "ai.onnx.ml::OneHotEncoder", "ai.onnx.ml::CategoryMapper",
        "ai.onnx.ml::LinearRegressor", "ai.onnx.ml::LinearClassifier", "ai.onnx.ml::SVMRegressor",
        "ai.onnx.ml::SVMClassifier", "ai.onnx.ml::LabelEncoder"}},
      {"Their slope is not defined where training would look for it: of elements that are equal.", {"Unique"}},
      {"They serve generation with a cache, which is not trained.",
       {"com.microsoft::DecoderMaskedMultiHeadAttention", "tessera::CacheAttention", "tessera::AppendRows"}},
      {"Weights in blocks of few bits are not trained.", {"tessera::BlockLinear", "tessera::BlockGather"}},
  };
  return table;
}

// Gradient operators have no gradient themselves: nothing differentiates twice.
bool is_listed(std::string_view name) {
  if (name.starts_with("tessera::") && name.ends_with("Gradient")) return true;
  return std::ranges::any_of(groups(), [&](const Group& group) { return std::ranges::count(group.ops, name) > 0; });
}

// One item a reason, its operators in lines of at most 120 columns.
std::string page_list() {
  std::string list;
  for (const Group& group : groups()) {
    std::vector<std::string_view> names = group.ops;
    std::ranges::sort(names);
    list += "\n" + std::string(group.reason) + "\n\n";
    std::string line;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string name = "`" + std::string(names[i]) + "`" + (i + 1 < names.size() ? "," : "");
      if (line.size() + 1 + name.size() > 120) list += std::exchange(line, "") + "\n";
      line += (line.empty() ? "" : " ") + name;
    }
    list += line + "\n";
  }
  return list;
}

// The gradients of the sum of all float outputs with respect to all float operands, or why there are none.
std::string differentiate(const OpCall& call) {
  ir::Graph graph;
  ops::GraphBuilder builder(graph);
  std::vector<ir::ValueId> inputs, xs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].has_value()) {
      inputs.emplace_back();
    } else if (const Tensor& tensor = call.inputs[i].tensor(); is_float(tensor.dtype())) {
      inputs.push_back(graph.add_input("input" + std::to_string(i),
                                       ir::ValueType::tensor(tensor.dtype(), ir::to_dims(tensor.shape()))));
      xs.push_back(inputs.back());
    } else {
      inputs.push_back(graph.add_constant(tensor));
    }
  }
  ir::ValueId sum;
  try {
    for (const ir::ValueId output : builder.add_multi(call.op, inputs, call.outputs, call.attributes)) {
      if (!builder.type(output).is_tensor() || !is_float(builder.dtype(output))) continue;
      const ir::ValueId part =
          builder.cast(builder.add("ReduceSum", {output}, {{"keepdims", std::int64_t{0}}}), DType::f32);
      sum = sum.valid() ? builder.add("Add", {sum, part}) : part;
    }
    if (!sum.valid() || xs.empty()) return "";
    passes::build_gradients(graph, sum, xs);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(GradientTable, HasEveryOperatorThatStatesNone) {
  for (const ops::OpDef* op : ops::all_ops()) {
    const bool control_flow = passes::can_unroll({std::string(op->name), "", {}, {}, {}, 0});
    const bool differentiable = op->gradient != nullptr || op->decompose != nullptr || control_flow;
    EXPECT_TRUE(differentiable || is_listed(op->name)) << op->name << " has no gradient and no reason";
    EXPECT_FALSE(op->gradient != nullptr && is_listed(op->name)) << op->name << " has a gradient";
  }
  for (const Group& group : groups()) {
    for (const std::string_view name : group.ops) EXPECT_NE(ops::find_op(name), nullptr) << name;
  }
}

TEST(GradientTable, CompositesInheritTheirs) {
  struct Found {
    bool some = false;  // an example differentiates, or has nothing to differentiate
    std::string faults;
  };
  std::map<std::string_view, Found> found;
  for (const OpExample& example : op_examples()) {
    const ops::OpDef& op = *ops::find_op(example.op);
    if (op.decompose == nullptr) continue;
    OpCall call = TypedExample(op, example).call({});
    call.outputs = 1;  // others are statistics and caches
    const std::string fault = differentiate(call);
    found[op.name].some |= fault.empty();
    found[op.name].faults += fault + "\n";
  }
  for (const auto& [name, result] : found) EXPECT_TRUE(result.some || is_listed(name)) << name << ": " << result.faults;
}

TEST(GradientTable, IsThatOfThePage) {
  std::ifstream file(TESSERA_GRADIENTS_PAGE);
  ASSERT_TRUE(file) << TESSERA_GRADIENTS_PAGE;
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(page.find(page_list()), std::string::npos) << "docs/gradients.md lacks this:\n" << page_list();
}

}  // namespace
}  // namespace tessera::test::gradient_table_test
