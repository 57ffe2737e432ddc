// Chains and small graphs of element-wise operators as one node, computed in one loop over its elements. Not ONNX:
// passes/fuse/fuse_element_wise.cpp makes it, and it decomposes into the operators again.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ops/core/op.h"

namespace tessera::ops {

extern const OpDef element_wise;  // "tessera::ElementWise"

inline constexpr std::size_t kMostElementWiseSteps = 64;

// What a step does with its operands. Real numbers are f32; those of quantise and dequantise outside are u8 or i8.
// Activations are those of ops/element_wise/fused_activation.h, with its parameters. Comparisons and tests of real
// numbers give bools, which logic joins, `inverse` turns around and a choice (Where) picks real numbers by; `widen`
// makes real numbers of bools, i32 and i64.
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
  int operations;  // an element
  int parameters = 0;
};
// Null for what a program does not hold.
const ElementWiseForm* find_element_wise_form(std::string_view name);

// Values of a program are numbered: first the node's inputs, then the result of each step. The last step's is the
// node's output.
struct ElementWiseStep {
  const ElementWiseForm* form = nullptr;
  std::array<std::int64_t, 3> operands{-1, -1, -1};
  // Of a constant, its value; to and from bytes, scale and zero point; of others, as their attributes are ordered.
  std::array<float, 2> parameters{};

  std::size_t operand_count() const;
};

// What a node holds; only for nodes that passed inference.
std::vector<ElementWiseStep> element_wise_steps(const AttributeReader& reader);
ir::Attributes element_wise_attributes(const std::vector<ElementWiseStep>& steps);
// u8 or i8 for steps to bytes, bool for what compares, tests and joins, else f32.
DType result_type(const ElementWiseStep& step);
// Whether a step can take a value of the type as that operand.
bool takes(const ElementWiseStep& step, std::size_t operand, DType type);

// The steps that do what this node does, operands numbered as if it were a program; scales, zero points and bounds must
// be constants of one element, and those inputs are no operands. Empty where a program cannot hold the node.
std::vector<ElementWiseStep> element_wise_steps(const ir::Graph& graph, const ir::Node& node);

}  // namespace tessera::ops
