#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "backends/host/numeric.h"
#include "base/error.h"
#include "report/values/json_text.h"
#include "report/values/value_files.h"

namespace tessera::report {
namespace {

using Json = nlohmann::json;
using Kind = ir::ValueType::Kind;

constexpr std::size_t kMaxDepth = 64;

Json of_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

// The elements as a flat list.
std::vector<Json> elements_of(const Tensor& tensor) {
  std::vector<Json> list;
  list.reserve(static_cast<std::size_t>(tensor.elements()));
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.values<std::string>()) list.emplace_back(text);
  } else if (tensor.dtype() == DType::boolean) {
    for (bool value : tensor.values<bool>()) list.emplace_back(value);
  } else {
    require(!is_complex(tensor.dtype()), ErrorKind::unsupported,
            "JSON has no place for a {} tensor; write an .npz archive", name_of(tensor.dtype()));
    backends::host::with_wide_type(tensor.dtype(), [&](auto zero) {
      using T = decltype(zero);
      for (const T value : backends::host::read<T>(tensor)) {
        if constexpr (std::is_floating_point_v<T>) list.push_back(of_number(value));
        else list.emplace_back(value);
      }
    });
  }
  return list;
}

Json nest(std::vector<Json>& elements, std::size_t& at, const Shape& shape, std::size_t axis) {
  if (axis == shape.size()) return std::move(elements[at++]);
  Json list = Json::array();
  for (std::int64_t i = 0; i < shape[axis]; ++i) list.push_back(nest(elements, at, shape, axis + 1));
  return list;
}

std::string key_text(const Tensor& keys, std::size_t i) {
  return keys.dtype() == DType::string ? keys.values<std::string>()[i] : std::to_string(keys.values<std::int64_t>()[i]);
}

Json to_json(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::none:
      return nullptr;
    case Value::Kind::tensor: {
      std::vector<Json> elements = elements_of(value.tensor());
      std::size_t at = 0;
      return nest(elements, at, value.tensor().shape(), 0);
    }
    case Value::Kind::sequence: {
      Json list = Json::array();
      for (const Value& element : value.elements()) list.push_back(to_json(element));
      return list;
    }
    case Value::Kind::map: {
      Json object = Json::object();
      for (std::size_t i = 0; i < value.elements().size(); ++i)
        object[key_text(value.keys(), i)] = to_json(value.elements()[i]);
      return object;
    }
  }
  return nullptr;
}

[[noreturn]] void wrong(const Json& json, const std::string& expected) {
  // Writing recurses once per level, and there may be any number of levels.
  const bool flat = json.size() < 100 &&
                    std::all_of(json.begin(), json.end(), [](const Json& element) { return element.is_primitive(); });
  const std::string text = flat ? base::shortened(json_text(json), 60) : json.is_array() ? "a list" : "an object";
  fail(ErrorKind::invalid_argument, "{} where {} was expected", text, expected);
}

double number_of(const Json& json, DType type) {
  if (json.is_number()) return json.get<double>();
  if (json == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (json == "Infinity") return std::numeric_limits<double>::infinity();
  if (json == "-Infinity") return -std::numeric_limits<double>::infinity();
  wrong(json, fmt::format("a number ({})", name_of(type)));
}

// A whole number that the type holds.
template <typename T>
T integer_of(const Json& json, DType type) {
  const int bits = bits_of(type);
  if (json.is_number_integer() && (json.is_number_unsigned() || json.get<std::int64_t>() >= 0 || std::is_signed_v<T>)) {
    const std::uint64_t largest =
        (std::uint64_t{1} << (bits - 1)) - 1 + (std::is_signed_v<T> ? 0 : std::uint64_t{1} << (bits - 1));
    const bool fits = json.is_number_unsigned() ? json.get<std::uint64_t>() <= largest
                                                : json.get<std::int64_t>() >= -static_cast<std::int64_t>(largest) - 1;
    if (fits) return json.get<T>();
  }
  wrong(json, fmt::format("a whole number ({})", name_of(type)));
}

// Reads nested lists of equal lengths, innermost elements in row-major order.
struct Flattener {
  const ir::ValueType& type;
  Shape shape;
  std::vector<const Json*> elements;

  void measure(const Json& json) {
    const Json* at = &json;
    while (at->is_array()) {
      require(shape.size() < kMaxDepth, ErrorKind::invalid_argument, "lists are nested deeper than {}", kMaxDepth);
      shape.push_back(static_cast<std::int64_t>(at->size()));
      if (at->empty()) break;
      at = &at->front();
    }
    // The shape below an empty list is known from the declaration alone.
    if (!shape.empty() && shape.back() == 0 && type.dims) {
      while (shape.size() < type.dims->size())
        shape.push_back(std::max<std::int64_t>(0, (*type.dims)[shape.size()].value()));
    }
  }

  void collect(const Json& json, std::size_t axis) {
    if (axis == shape.size()) return elements.push_back(&json);  // a list at this depth fits no element type
    if (!json.is_array() || static_cast<std::int64_t>(json.size()) != shape[axis])
      wrong(json, fmt::format("a list of {}", shape[axis]));
    for (const Json& element : json) collect(element, axis + 1);
  }
};

Tensor tensor_from(const Json& json, const ir::ValueType& type) {
  Flattener flat{type, {}, {}};
  flat.measure(json);
  flat.collect(json, 0);
  const DType dtype = type.dtype;
  Tensor tensor(dtype, flat.shape);
  const auto for_each = [&](auto&& read) {
    for (std::size_t i = 0; i < flat.elements.size(); ++i) read(*flat.elements[i], i);
  };
  if (dtype == DType::string) {
    for_each([&](const Json& element, std::size_t i) {
      element.is_string() ? void(tensor.mutable_data<std::string>()[i] = element.get<std::string>())
                          : wrong(element, "a string");
    });
  } else if (dtype == DType::boolean) {
    for_each([&](const Json& element, std::size_t i) {
      element.is_boolean() ? void(tensor.mutable_data<bool>()[i] = element.get<bool>())
                           : wrong(element, "true or false");
    });
  } else {
    backends::host::with_wide_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> values;
      for_each([&](const Json& element, std::size_t) {
        if constexpr (std::is_floating_point_v<T>) values.push_back(number_of(element, dtype));
        else values.push_back(integer_of<T>(element, dtype));
      });
      backends::host::write(values, tensor);
    });
  }
  return tensor;
}

std::int64_t integer_key(const std::string& text) {
  std::int64_t key = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key);
  require(error == std::errc() && end == text.data() + text.size(), ErrorKind::invalid_argument,
          "key '{}' where a whole number was expected", text);
  return key;
}

Value value_from(const Json& json, const ir::ValueType& type);

Value map_from(const Json& json, const ir::ValueType& type) {
  if (!json.is_object()) wrong(json, "an object");
  Tensor keys(type.dtype, {static_cast<std::int64_t>(json.size())});
  std::vector<Value> values;
  for (const auto& [key, element] : json.items()) {
    if (type.dtype == DType::string) keys.mutable_data<std::string>()[values.size()] = key;
    else keys.mutable_data<std::int64_t>()[values.size()] = integer_key(key);
    values.push_back(value_from(element, *type.element));
  }
  return Value::map(std::move(keys), std::move(values));
}

Value value_from(const Json& json, const ir::ValueType& type) {
  switch (type.kind) {
    case Kind::tensor:
      return tensor_from(json, type);
    case Kind::optional:
      return json.is_null() ? Value() : value_from(json, *type.element);
    case Kind::map:
      return map_from(json, type);
    case Kind::sequence:
      break;
  }
  if (!json.is_array()) wrong(json, "a list");
  std::vector<Value> elements;
  for (const Json& element : json) elements.push_back(value_from(element, *type.element));
  return Value::sequence(std::move(elements));
}

}  // namespace

std::string write_values_json(const NamedValues& values) {
  Json object = Json::object();
  for (const auto& [name, value] : values) object[name] = to_json(value);
  try {
    return object.dump() + "\n";
  } catch (const Json::exception&) {
    fail(ErrorKind::unsupported, "a string or name is not UTF-8, which JSON has no place for; write an .npz archive");
  }
}

NamedValues read_values_json(const std::string& text, const TypesByName& types) {
  const Json object = Json::parse(text, nullptr, false);
  require(!object.is_discarded() && object.is_object(), ErrorKind::invalid_argument, "not a JSON object");
  NamedValues values;
  for (const auto& [name, json] : object.items()) {
    const auto type = types.find(name);
    require(type != types.end(), ErrorKind::invalid_argument, "'{}' is not known", name);
    try {
      values[name] = value_from(json, type->second);
    } catch (Error& error) {
      error.add_context(fmt::format("value '{}'", name));
      throw;
    }
  }
  return values;
}

}  // namespace tessera::report
