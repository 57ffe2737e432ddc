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

// Element i of the tensor as a Python number or text.
nb::object python_element(const Tensor& tensor, std::int64_t i) {
  switch (tensor.dtype()) {
    case DType::f32:
      return nb::float_(tensor.data<float>()[i]);
    case DType::f64:
      return nb::float_(tensor.data<double>()[i]);
    case DType::i64:
      return nb::int_(tensor.data<std::int64_t>()[i]);
    case DType::string:
      return python_text(tensor.data<std::string>()[i]);
    default:
      return numpy_from_tensor(tensor).attr("reshape")(-1)[i].attr("item")();
  }
}

// The Python keys of a map. Maps in a sequence usually have the same keys, so these are made once.
class MapKeys {
 public:
  const std::vector<nb::object>& of(const Tensor& keys) {
    if (made_.has_value() && identical(made_, keys)) return objects_;
    objects_.clear();
    for (std::int64_t i = 0; i < keys.elements(); ++i) objects_.push_back(python_element(keys, i));
    made_ = keys;
    return objects_;
  }

 private:
  Tensor made_;
  std::vector<nb::object> objects_;
};

nb::object python_from_map(const Value& map, MapKeys& keys) {
  const std::vector<nb::object>& names = keys.of(map.keys());
  nb::dict items;
  for (std::size_t i = 0; i < map.elements().size(); ++i) {
    const Value& value = map.elements()[i];
    const bool scalar = value.is_tensor() && value.tensor().rank() == 0;
    items[names[i]] = scalar ? python_element(value.tensor(), 0) : python_from_value(value);
  }
  return items;
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
      MapKeys keys;
      for (const Value& element : value.elements())
        items.append(element.kind() == Value::Kind::map ? python_from_map(element, keys) : copied_element(element));
      return items;
    }
    case Value::Kind::map: {
      MapKeys keys;
      return python_from_map(value, keys);
    }
  }
  return nb::none();
}

}  // namespace tessera::python
