// Chains and small graphs of element-wise operators as one node, computed in one loop over its elements. Not ONNX:
// passes/fuse/fuse_element_wise.cpp makes it, and it decomposes into the operators.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef element_wise;  // "tessera::ElementWise"

inline constexpr std::size_t kMostElementWiseSteps = 64;

// The kind of a step. Real numbers are f32; the quantised values of quantise and dequantise steps are u8 or i8.
// Activations are those of ops/element_wise/fused_activation.h, with its parameters. Comparisons and tests of real
// numbers give bools; logic steps combine bools, `inverse` negates them, and a choice (Where) selects real numbers by
// them; `widen` converts bools, i32 and i64 to real numbers.
enum class ElementWiseKind : std::uint8_t {
  constant,
  unary,
  activation,
  binary,
  quantise,
  dequantise,
  comparison,
  test,
  logic,
  inverse,
  choice,
  widen
};

struct ElementWiseForm {
  std::string_view name;  // the operator's, or where that says too little: "Constant", "QuantizeU8", "QuantizeI8",
                          // "GeluTanh", "ToBool", "ToReal"
  ElementWiseKind kind;
  int operations;  // per element
  int parameters = 0;
};
// Null for an operator that a program cannot hold.
const ElementWiseForm* find_element_wise_form(std::string_view name);

// The values of a program are numbered: first the node's inputs, then the result of each step. The result of the last
// step is the node's output.
struct ElementWiseStep {
  const ElementWiseForm* form = nullptr;
  std::array<std::int64_t, 3> operands{-1, -1, -1};
  // For a constant, its value; for quantise and dequantise steps, scale and zero point; for others, the attributes in
  // order.
  std::array<float, 2> parameters{};

  std::size_t operand_count() const;
};

// The steps of a node that passed inference.
std::vector<ElementWiseStep> element_wise_steps(const AttributeReader& reader);
ir::Attributes element_wise_attributes(const std::vector<ElementWiseStep>& steps);
// u8 or i8 for steps that quantise, bool for comparisons, tests and logic, else f32.
DType result_type(const ElementWiseStep& step);
// Whether a step can take a value of the type as that operand.
bool takes(const ElementWiseStep& step, std::size_t operand, DType type);

// The steps equivalent to this node, with operands numbered as in a program. Scales, zero points and bounds must be
// constants of one element; those inputs are not operands of steps. Empty where a program cannot hold the node.
std::vector<ElementWiseStep> element_wise_steps(const ir::Graph& graph, const ir::Node& node);

}  // namespace tessera::ops
