#include "support/op_examples.h"

#include <fmt/format.h>

#include <complex>

#include "backends/host/numeric.h"

namespace tessera::test {

const std::vector<OpExample>& op_examples() {
  static const std::vector<OpExample> examples = [] {
    std::vector<OpExample> all;
    for (const auto family : {element_wise_examples, reduction_examples, movement_examples, layer_examples,
                              attention_examples, quantised_examples, feature_examples, structure_examples}) {
      for (OpExample& example : family()) all.push_back(std::move(example));
    }
    return all;
  }();
  return examples;
}

ExampleOperand at(Shape shape, std::vector<double> values) {
  return {Value::Kind::tensor, std::move(shape), std::move(values)};
}

ExampleOperand as(DType dtype, ExampleOperand operand) {
  operand.dtype = dtype;
  return operand;
}

ExampleOperand integers(std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return as(DType::i64, at({count}, std::move(values)));
}

ExampleOperand sequence(std::vector<ExampleOperand> elements) {
  return {.kind = Value::Kind::sequence, .elements = std::move(elements)};
}
ExampleOperand map(DType keys, std::vector<ExampleOperand> elements) {
  return {.kind = Value::Kind::map, .shape = {}, .values = {}, .dtype = keys, .elements = std::move(elements)};
}

namespace {

Tensor make_tensor(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(dtype, shape);
  std::vector<double> numbers;
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.elements()); ++i)
    numbers.push_back(values[i % values.size()]);
  if (dtype == DType::string) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      tensor.mutable_data<std::string>()[i] = fmt::format("{}", numbers[i]);
  } else if (is_complex(dtype)) {
    std::vector<std::complex<double>> pairs;
    for (const double part : numbers) pairs.emplace_back(part, 2 * part);
    backends::host::write(pairs, tensor);
  } else {
    backends::host::write(numbers, tensor);
  }
  return tensor;
}

}  // namespace

Value make_value(const ExampleOperand& operand, DType dtype) {
  std::vector<Value> elements;
  for (const ExampleOperand& element : operand.elements) elements.push_back(make_value(element, dtype));
  switch (operand.kind) {
    case Value::Kind::none:
      return {};
    case Value::Kind::tensor:
      return make_tensor(operand.dtype == DType::undefined ? dtype : operand.dtype, operand.shape, operand.values);
    case Value::Kind::sequence:
      return Value::sequence(std::move(elements));
    case Value::Kind::map:
      break;
  }
  std::vector<double> keys;
  for (std::size_t i = 0; i < elements.size(); ++i) keys.push_back(static_cast<double>(i));
  return Value::map(make_tensor(operand.dtype, {static_cast<std::int64_t>(keys.size())}, keys), std::move(elements));
}

}  // namespace tessera::test
