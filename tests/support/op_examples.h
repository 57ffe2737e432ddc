// Small valid calls of every operator whose element types are left open: a line an example, grouped by family in
// op_examples_*.cpp. Who runs them chooses the types (see element_types_test.cpp).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "tessera/tensor.h"

namespace tessera::test {

// One operand: numbers that every element type takes as it can (integers drop the fraction and wrap, bool is "not
// zero", a string is the number's text, an imaginary part twice the number), repeated as often as the shape needs.
struct ExampleOperand {
  Value::Kind kind = Value::Kind::none;  // none: absent
  Shape shape = {};
  std::vector<double> values = {};
  DType dtype = DType::undefined;             // undefined: the type that the parameter has in this call
  std::vector<ExampleOperand> elements = {};  // of a sequence or map; keys of a map are 0, 1 …
};

// Types of a parameter that its operator allows, but not in such a call, and a part of what is said then.
struct Refusal {
  std::string_view parameter;
  ops::TypeSet types;
  std::string_view message;
};

struct OpExample {
  std::string_view op;
  std::vector<ExampleOperand> operands = {};
  ir::Attributes attributes = {};
  std::size_t outputs = 1;
  // Narrows the types of a parameter in this example.
  std::vector<std::pair<std::string_view, ops::TypeSet>> only = {};
  // Parameters that have one type in this example, beside those of one type variable.
  std::vector<std::string_view> together = {};
  // Further attributes, made for the type that this parameter has. An output that no input gives its type varies
  // through them.
  std::string_view attributes_follow = {};
  ir::Attributes (*follow)(DType) = nullptr;
  Refusal refuses = {};
};

std::vector<OpExample> element_wise_examples();
std::vector<OpExample> reduction_examples();
std::vector<OpExample> movement_examples();
std::vector<OpExample> layer_examples();
std::vector<OpExample> attention_examples();
std::vector<OpExample> quantised_examples();
std::vector<OpExample> feature_examples();
std::vector<OpExample> structure_examples();
// All of these.
const std::vector<OpExample>& op_examples();

// The operand with elements of this type, where it does not state its own.
Value make_value(const ExampleOperand& operand, DType dtype);

// --- how examples are written ---

ExampleOperand at(Shape shape, std::vector<double> values = {1, 2.5, 0, -1.5, 0.5, 3, -0.25});
inline ExampleOperand number(double value) {
  return at({}, {value});
}
ExampleOperand as(DType dtype, ExampleOperand operand);
ExampleOperand integers(std::vector<double> values);  // 1-D i64
ExampleOperand sequence(std::vector<ExampleOperand> elements);
ExampleOperand map(DType keys, std::vector<ExampleOperand> elements);
inline const ExampleOperand absent{};

inline ir::Attribute whole(std::int64_t value) {
  return value;
}
inline ir::Attribute whole_list(std::vector<std::int64_t> values) {
  return values;
}
inline ir::Attribute real(float value) {
  return value;
}
inline ir::Attribute real_list(std::vector<float> values) {
  return values;
}
inline ir::Attribute text(std::string value) {
  return value;
}
inline ir::Attribute text_list(std::vector<std::string> values) {
  return values;
}
// ONNX's number of an element type, as attributes name it.
inline ir::Attribute code_of(DType type) {
  return static_cast<std::int64_t>(type);
}

}  // namespace tessera::test
