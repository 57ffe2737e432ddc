#include "serve/protocol/json_values.h"

#include <fmt/format.h>

#include <limits>
#include <span>
#include <utility>

#include "base/text.h"
#include "serve/protocol/datatype.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/request_decoder.h"

namespace tessera::serve {

namespace dom = simdjson::dom;

namespace {

// The leaves of nested arrays, which the parser's limit on depth bounds.
std::int64_t count_leaves(const dom::element& data) {
  dom::array array;
  if (data.get(array) != simdjson::SUCCESS) return 1;
  std::int64_t leaves = 0;
  for (const dom::element element : array) leaves += count_leaves(element);
  return leaves;
}

template <typename Take>
void for_leaves(const dom::element& data, Take&& take) {
  dom::array array;
  if (data.get(array) != simdjson::SUCCESS) {
    take(data);
    return;
  }
  for (const dom::element element : array) for_leaves(element, take);
}

template <typename T>
T number_of(const dom::element& element, const std::string& name) {
  if constexpr (std::is_same_v<T, bool>) {
    bool value = false;
    if (element.get(value) == simdjson::SUCCESS) return value;
    std::int64_t number = 0;
    if (element.get(number) == simdjson::SUCCESS && (number == 0 || number == 1)) return number == 1;
  } else if constexpr (std::is_floating_point_v<T>) {
    double value = 0;
    if (element.get(value) == simdjson::SUCCESS) return static_cast<T>(value);
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    std::uint64_t value = 0;
    if (element.get(value) == simdjson::SUCCESS) return value;
  } else {
    std::int64_t value = 0;
    if (element.get(value) == simdjson::SUCCESS && std::in_range<T>(value)) return static_cast<T>(value);
  }
  refuse(
      fmt::format("'data' of input '{}' has an element that is no {}", base::shown(name), datatype_name(dtype_of<T>)));
}

template <typename T>
void fill(Tensor& tensor, const dom::element& data, const std::string& name) {
  T* next = tensor.mutable_data<T>();
  for_leaves(data, [&](const dom::element& leaf) {
    if constexpr (std::is_same_v<T, std::string>) *next++ = text_of(leaf, "data");
    else *next++ = number_of<T>(leaf, name);
  });
}

// Microseconds as a number, or as a text of digits, which some clients send.
std::int64_t timeout_ns(const dom::element& element) {
  std::int64_t us = 0;
  if (element.get(us) != simdjson::SUCCESS) refuse("'timeout' is not a number of microseconds");
  if (us < 0 || us > std::numeric_limits<std::int64_t>::max() / 1000 / 4) refuse("'timeout' is out of range");
  return us * 1000;
}

SequenceId sequence_id(const dom::element& element) {
  SequenceId id;
  std::string_view text;
  if (element.get(text) == simdjson::SUCCESS) id.text = text;
  else if (element.get(id.number) != simdjson::SUCCESS)
    refuse("'sequence_id' is neither a whole number of at least 0 nor a text");
  return id;
}

// Checks that the parts of an array have the shape `rest`.
void check_regular(const std::string& name, const dom::element& data, std::span<const std::int64_t> rest) {
  dom::array array;
  const bool is_array = data.get(array) == simdjson::SUCCESS;
  if (is_array != !rest.empty() || (is_array && static_cast<std::int64_t>(array.size()) != rest[0]))
    refuse(fmt::format("input '{}' has arrays of different lengths or depths side by side", base::shown(name)));
  if (!is_array) return;
  for (const dom::element element : array) check_regular(name, element, rest.subspan(1));
}

}  // namespace

void refuse(const std::string& message) {
  throw Failure(Reason::bad_request, message);
}

std::string text_of(const dom::element& element, std::string_view what) {
  std::string_view text;
  if (element.get(text) != simdjson::SUCCESS) refuse(fmt::format("'{}' is not a text", what));
  return std::string(text);
}

std::int64_t whole_of(const dom::element& element, std::string_view what) {
  std::int64_t number = 0;
  if (element.get(number) != simdjson::SUCCESS) refuse(fmt::format("'{}' is not a whole number", what));
  return number;
}

bool bool_of(const dom::element& element, std::string_view what) {
  bool value = false;
  if (element.get(value) != simdjson::SUCCESS) refuse(fmt::format("'{}' is neither true nor false", what));
  return value;
}

dom::object object_of(const dom::element& element, std::string_view what) {
  dom::object object;
  if (element.get(object) != simdjson::SUCCESS) refuse(fmt::format("'{}' is not an object", what));
  return object;
}

dom::array array_of(const dom::element& element, std::string_view what) {
  dom::array array;
  if (element.get(array) != simdjson::SUCCESS) refuse(fmt::format("'{}' is not an array", what));
  return array;
}

Shape shape_of(const dom::element& element) {
  Shape shape;
  for (const dom::element size : array_of(element, "shape")) shape.push_back(whole_of(size, "shape"));
  return shape;
}

dom::element parse_json(dom::parser& parser, std::string_view json, std::int64_t max_depth) {
  if (parser.allocate(json.size(), static_cast<std::size_t>(max_depth)) != simdjson::SUCCESS)
    throw Failure(Reason::unavailable, "the server is short of memory", 1);
  dom::element root;
  if (const simdjson::error_code error = parser.parse(json.data(), json.size()).get(root)) {
    if (error == simdjson::DEPTH_ERROR) refuse(fmt::format("the JSON text is nested more than {} deep", max_depth));
    refuse(fmt::format("the JSON text is malformed: {}", simdjson::error_message(error)));
  }
  return root;
}

Shape nested_shape(const std::string& name, const dom::element& data) {
  Shape shape;
  dom::element first = data;
  dom::array array;
  while (first.get(array) == simdjson::SUCCESS) {
    shape.push_back(static_cast<std::int64_t>(array.size()));
    if (array.size() == 0) break;
    first = array.at(0);
  }
  check_regular(name, data, shape);
  return shape;
}

Tensor json_tensor(const std::string& name, DType dtype, const Shape& shape, const dom::element& data) {
  const std::int64_t elements = checked_elements(name, shape);
  const std::int64_t found = count_leaves(data);
  if (elements != found)
    refuse(fmt::format("'data' of input '{}' has {} elements, expected {} for the shape {}", base::shown(name), found,
                       elements, to_string(shape)));
  Tensor tensor(dtype, shape);
  switch (dtype) {
    case DType::boolean:
      fill<bool>(tensor, data, name);
      break;
    case DType::u8:
      fill<std::uint8_t>(tensor, data, name);
      break;
    case DType::u16:
      fill<std::uint16_t>(tensor, data, name);
      break;
    case DType::u32:
      fill<std::uint32_t>(tensor, data, name);
      break;
    case DType::u64:
      fill<std::uint64_t>(tensor, data, name);
      break;
    case DType::i8:
      fill<std::int8_t>(tensor, data, name);
      break;
    case DType::i16:
      fill<std::int16_t>(tensor, data, name);
      break;
    case DType::i32:
      fill<std::int32_t>(tensor, data, name);
      break;
    case DType::i64:
      fill<std::int64_t>(tensor, data, name);
      break;
    case DType::f32:
      fill<float>(tensor, data, name);
      break;
    case DType::f64:
      fill<double>(tensor, data, name);
      break;
    case DType::string:
      fill<std::string>(tensor, data, name);
      break;
    default:
      refuse(fmt::format("input '{}' is {}, which JSON cannot hold: send it as binary data", base::shown(name),
                         datatype_name(dtype)));
  }
  return tensor;
}

bool read_request_parameter(const dom::key_value_pair& field, InferenceRequest& request) {
  if (field.key == "binary_data_output") request.binary_by_default = bool_of(field.value, field.key);
  else if (field.key == "timeout") request.timeout_ns = timeout_ns(field.value);
  else if (field.key == "routing_key") request.routing_key = text_of(field.value, field.key);
  else if (field.key == "priority") {
    const std::int64_t priority = whole_of(field.value, field.key);
    if (priority < 0) refuse("'priority' is negative");
    request.priority = static_cast<std::uint64_t>(priority);
  } else if (field.key == "sequence_id") request.sequence.id = sequence_id(field.value);
  else if (field.key == "sequence_start") request.sequence.is_start = bool_of(field.value, field.key);
  else if (field.key == "sequence_end") request.sequence.is_end = bool_of(field.value, field.key);
  else return false;
  return true;
}

}  // namespace tessera::serve
