#include "io/onnx/form_version.h"

#include <algorithm>
#include <string_view>

#include "io/onnx/upgrade.h"
#include "ops/op_table.h"

namespace tessera::io {
namespace {

struct Introduction {
  std::string_view op;
  std::int64_t version;
};
constexpr std::int64_t kBase = 17;

// Operators younger than version 17.
constexpr Introduction kOperators[] = {
    {"AffineGrid", 20},
    {"Attention", 23},
    {"BitCast", 26},
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"CausalConvWithState", 27},
    {"CenterCropPad", 18},
    {"Col2Im", 18},
    {"CumProd", 26},
    {"DeformConv", 19},
    {"Gelu", 20},
    {"ImageDecoder", 20},
    {"LinearAttention", 27},
    {"Mish", 18},
    {"RMSNormalization", 23},
    {"RegexFullMatch", 20},
    {"RotaryEmbedding", 23},
    {"StringConcat", 20},
    {"StringSplit", 20},
    {"Swish", 24},
    {"TensorScatter", 24},
    {"OptionalHasElement", 18},
    {"OptionalGetElement", 18},
    {"ScatterElements", 18},
    {"ScatterND", 18},
};

struct AttributeIntroduction {
  std::string_view op, attribute;
  std::int64_t version;
};
// Attributes younger than that, and whose absence means what older versions do.
constexpr AttributeIntroduction kAttributes[] = {
    {"AveragePool", "dilations", 19},
    {"Cast", "saturate", 19},
    {"Cast", "round_mode", 24},
    {"CastLike", "saturate", 19},
    {"CastLike", "round_mode", 24},
    {"DequantizeLinear", "block_size", 21},
    {"DequantizeLinear", "output_dtype", 23},
    {"LpPool", "ceil_mode", 18},
    {"LpPool", "dilations", 18},
    {"QuantizeLinear", "saturate", 19},
    {"QuantizeLinear", "block_size", 21},
    {"QuantizeLinear", "output_dtype", 21},
    {"QuantizeLinear", "precision", 23},
    {"Range", "stash_type", 27},
    {"Resize", "antialias", 18},
    {"Resize", "axes", 18},
    {"Resize", "keep_aspect_ratio_policy", 18},
};

struct InputIntroduction {
  std::string_view op;
  std::size_t input;
  std::int64_t version;
};
constexpr InputIntroduction kInputs[] = {{"Attention", 6, 24}, {"Pad", 3, 18}};

struct TypeIntroduction {
  std::string_view op;
  DType dtype;
  std::int64_t version;
};
// Element types that every version knows, but that the operator did not take before.
constexpr TypeIntroduction kTypes[] = {
    {"Equal", DType::string, 19},         {"ReduceMax", DType::boolean, 20},
    {"ReduceMin", DType::boolean, 20},    {"IsInf", DType::f16, 20},
    {"QuantizeLinear", DType::i16, 21},   {"QuantizeLinear", DType::u16, 21},
    {"DequantizeLinear", DType::i16, 21}, {"DequantizeLinear", DType::u16, 21},
    {"QLinearMatMul", DType::f16, 21},    {"Range", DType::f16, 27},
    {"DequantizeLinear", DType::f16, 19},
};

// The scale of QuantizeLinear was f32 before version 19, and of the type of x before version 23.
std::int64_t version_for_scale(const ir::Graph& graph, const ir::Node& node) {
  if (node.formal_inputs() < 2 || !node.inputs[0].valid() || !node.inputs[1].valid()) return 1;
  const DType x = graph.value(node.inputs[0]).type.dtype, scale = graph.value(node.inputs[1]).type.dtype;
  return x != scale ? 23 : scale != DType::f32 ? 19 : 1;
}

// Types that operators learnt one by one.
bool is_young(DType dtype) {
  return dtype == DType::bf16 || dtype > DType::bf16;
}

std::int64_t version_for_types(const ir::Graph& graph, const ir::Node& node, std::int64_t newest) {
  std::int64_t version = 1;
  auto look = [&](ir::ValueId id) {
    if (!id.valid()) return;
    const DType dtype = graph.value(id).type.dtype;
    if (is_young(dtype)) version = std::max(version, newest);
    for (const TypeIntroduction& each : kTypes) {
      if (each.op == node.op && each.dtype == dtype) version = std::max(version, each.version);
    }
  };
  for (std::size_t i = 0; i < node.formal_inputs(); ++i) look(node.inputs[i]);
  for (ir::ValueId output : node.outputs) look(output);
  return version;
}

}  // namespace

std::int64_t form_version(const ir::Graph& graph, const ir::Node& node) {
  const std::size_t border = node.op.find("::");
  const ops::OpDef* known = ops::find_op(node.op);
  if (border != std::string::npos) {
    const std::int64_t newest = newest_version(std::string_view(node.op).substr(0, border));
    return std::max<std::int64_t>({known != nullptr ? known->since : newest, last_change(node.op), 1});
  }
  if (known == nullptr) return newest_version("");
  std::int64_t version = std::max(kBase, last_change(node.op));
  for (const Introduction& each : kOperators) {
    if (each.op == node.op) version = std::max(version, each.version);
  }
  for (const AttributeIntroduction& each : kAttributes) {
    if (each.op == node.op && node.attributes.contains(each.attribute)) version = std::max(version, each.version);
  }
  for (const InputIntroduction& each : kInputs) {
    const bool given = each.input < node.formal_inputs() && node.inputs[each.input].valid();
    if (each.op == node.op && given) version = std::max(version, each.version);
  }
  if (node.op == "QuantizeLinear") version = std::max(version, version_for_scale(graph, node));
  return std::max(version, version_for_types(graph, node, known->since));
}

}  // namespace tessera::io
