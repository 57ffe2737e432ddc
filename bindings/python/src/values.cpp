#include "values.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "base/error.h"

namespace nb = nanobind;

namespace tessera::python {
namespace {

Value sequence_from(nb::handle object, const ir::ValueType& declared, std::string_view what) {
  require(PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()), ErrorKind::invalid_argument,
          "{} is a {}, expected a list of {}", what, describe_python(object), ir::to_string(*declared.element));
  std::vector<Value> elements;
  for (const nb::handle item : object)
    elements.push_back(value_from_python(item, *declared.element, fmt::format("{}[{}]", what, elements.size())));
  return Value::sequence(std::move(elements));
}

Value map_from(nb::handle object, const ir::ValueType& declared, std::string_view what) {
  require(PyDict_Check(object.ptr()), ErrorKind::invalid_argument, "{} is a {}, expected a dict", what,
          describe_python(object));
  std::vector<std::string> names;
  std::vector<std::int64_t> numbers;
  std::vector<Value> values;
  for (const auto& [key, item] : nb::cast<nb::dict>(object)) {
    const bool fits = declared.dtype == DType::string ? PyUnicode_Check(key.ptr()) : PyLong_Check(key.ptr());
    require(fits, ErrorKind::invalid_argument, "{} has a key of type {}, expected {}", what, describe_python(key),
            declared.dtype == DType::string ? "str" : "int");
    if (declared.dtype == DType::string) names.push_back(name_from_python(key, "a key"));
    else numbers.push_back(nb::cast<std::int64_t>(key));
    values.push_back(value_from_python(item, *declared.element, fmt::format("{}[{}]", what, text_of(nb::repr(key)))));
  }
  const auto count = static_cast<std::int64_t>(values.size());
  Tensor keys = declared.dtype == DType::string ? Tensor::from<std::string>({count}, names)
                                                : Tensor::from<std::int64_t>({count}, numbers);
  return Value::map(std::move(keys), std::move(values));
}

nb::object element_of_map(const Value& value) {
  const bool scalar = value.is_tensor() && value.tensor().rank() == 0;
  return scalar ? nb::object(python_from_value(value).attr("item")()) : python_from_value(value);
}

nb::object copied_element(const Value& value) {
  return python_from_value(value.is_tensor() && value.tensor().has_value() ? Value(value.tensor().clone()) : value);
}

}  // namespace

Value value_from_python(nb::handle object, const ir::ValueType& declared, std::string_view what) {
  using Kind = ir::ValueType::Kind;
  switch (declared.kind) {
    case Kind::tensor:
      return tensor_from_python(object, declared.dtype, what);
    case Kind::optional:
      return object.is_none() ? Value() : value_from_python(object, *declared.element, what);
    case Kind::sequence:
      return sequence_from(object, declared, what);
    case Kind::map:
      return map_from(object, declared, what);
  }
  return {};
}

nb::object python_from_value(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::none:
      return nb::none();
    case Value::Kind::tensor:
      return numpy_from_tensor(value.tensor());
    case Value::Kind::sequence: {
      nb::list items;
      for (const Value& element : value.elements()) items.append(copied_element(element));
      return items;
    }
    case Value::Kind::map: {
      nb::dict items;
      const nb::object keys = numpy_from_tensor(value.keys()).attr("tolist")();
      for (std::size_t i = 0; i < value.elements().size(); ++i) items[keys[i]] = element_of_map(value.elements()[i]);
      return items;
    }
  }
  return nb::none();
}

}  // namespace tessera::python
