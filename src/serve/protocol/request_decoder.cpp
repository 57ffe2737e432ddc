#include "serve/protocol/request_decoder.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <limits>

#include "base/text.h"
#include "serve/protocol/datatype.h"
#include "serve/protocol/failure.h"

namespace tessera::serve {
namespace {

namespace dom = simdjson::dom;

[[noreturn]] void refuse(const std::string& message) {
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

Tensor tensor_of(const InferenceInput& input, const dom::element& data) {
  const std::int64_t elements = checked_elements(input.name, input.shape);
  const std::int64_t found = count_leaves(data);
  if (elements != found)
    refuse(fmt::format("'data' of input '{}' has {} elements, expected {} for the shape {}", base::shown(input.name),
                       found, elements, to_string(input.shape)));
  Tensor tensor(input.dtype, input.shape);
  switch (input.dtype) {
    case DType::boolean:
      fill<bool>(tensor, data, input.name);
      break;
    case DType::u8:
      fill<std::uint8_t>(tensor, data, input.name);
      break;
    case DType::u16:
      fill<std::uint16_t>(tensor, data, input.name);
      break;
    case DType::u32:
      fill<std::uint32_t>(tensor, data, input.name);
      break;
    case DType::u64:
      fill<std::uint64_t>(tensor, data, input.name);
      break;
    case DType::i8:
      fill<std::int8_t>(tensor, data, input.name);
      break;
    case DType::i16:
      fill<std::int16_t>(tensor, data, input.name);
      break;
    case DType::i32:
      fill<std::int32_t>(tensor, data, input.name);
      break;
    case DType::i64:
      fill<std::int64_t>(tensor, data, input.name);
      break;
    case DType::f32:
      fill<float>(tensor, data, input.name);
      break;
    case DType::f64:
      fill<double>(tensor, data, input.name);
      break;
    case DType::string:
      fill<std::string>(tensor, data, input.name);
      break;
    default:
      refuse(fmt::format("input '{}' is {}, which JSON cannot hold: send it as binary data", base::shown(input.name),
                         datatype_name(input.dtype)));
  }
  return tensor;
}

// The place of the data, from "parameters" of an input or an output.
struct Placement {
  std::optional<std::int64_t> binary_bytes;
  std::optional<bool> binary;
  std::optional<RegionPart> region;
  std::int64_t classes = 0;
};

Placement placement_of(const dom::object& parameters) {
  Placement placement;
  RegionPart part;
  for (const dom::key_value_pair field : parameters) {
    if (field.key == "binary_data_size") placement.binary_bytes = whole_of(field.value, field.key);
    else if (field.key == "binary_data") placement.binary = bool_of(field.value, field.key);
    else if (field.key == "classification") placement.classes = whole_of(field.value, field.key);
    else if (field.key == "shared_memory_region") part.region = text_of(field.value, field.key);
    else if (field.key == "shared_memory_byte_size") part.byte_size = whole_of(field.value, field.key);
    else if (field.key == "shared_memory_offset") part.offset = whole_of(field.value, field.key);
  }
  if (placement.classes < 0) refuse("'classification' is negative");
  if (!part.region.empty()) placement.region = part;
  return placement;
}

// Reads inputs in order, with the bytes behind the JSON text.
class Inputs {
 public:
  Inputs(std::string_view binary, const DecodeLimits& limits, const std::shared_ptr<const void>& owner)
      : binary_(binary), limits_(limits), owner_(owner) {}

  void add(const dom::object& object, std::vector<InferenceInput>& inputs) {
    if (static_cast<std::int64_t>(inputs.size()) >= limits_.max_tensors)
      refuse(fmt::format("the request has more than {} inputs", limits_.max_tensors));
    InferenceInput input;
    Placement placement;
    std::optional<dom::element> data;
    std::string datatype;
    bool has_shape = false;
    for (const dom::key_value_pair field : object) {
      if (field.key == "name") input.name = text_of(field.value, field.key);
      else if (field.key == "datatype") datatype = text_of(field.value, field.key);
      else if (field.key == "shape") input.shape = shape_of(field.value), has_shape = true;
      else if (field.key == "parameters") placement = placement_of(object_of(field.value, field.key));
      else if (field.key == "data") data = field.value;
    }
    if (input.name.empty()) refuse("an input has no 'name'");
    if (!has_shape) refuse(fmt::format("input '{}' has no 'shape'", base::shown(input.name)));
    input.dtype = checked_datatype(input.name, datatype);
    input.region = placement.region;
    if (input.region) checked_elements(input.name, input.shape);
    else if (placement.binary_bytes) input.tensor = binary_tensor(input, *placement.binary_bytes);
    else if (data) input.tensor = tensor_of(input, *data);
    else refuse(fmt::format("input '{}' has neither 'data' nor 'binary_data_size'", base::shown(input.name)));
    inputs.push_back(std::move(input));
  }

  void check_end() const {
    if (!binary_.empty()) refuse(fmt::format("the body has {} bytes behind its last input", binary_.size()));
  }

 private:
  Tensor binary_tensor(const InferenceInput& input, std::int64_t bytes) {
    if (bytes < 0 || bytes > static_cast<std::int64_t>(binary_.size()))
      refuse(fmt::format("'binary_data_size' of input '{}' is {}, but {} bytes are left of the body",
                         base::shown(input.name), bytes, binary_.size()));
    const std::string_view own = binary_.substr(0, static_cast<std::size_t>(bytes));
    binary_.remove_prefix(own.size());
    return decode_elements(input.name, input.dtype, input.shape, own, owner_);
  }

  std::string_view binary_;
  const DecodeLimits& limits_;
  const std::shared_ptr<const void>& owner_;
};

void read_outputs(const dom::array& array, const DecodeLimits& limits, InferenceRequest& request,
                  std::vector<std::optional<bool>>& binary) {
  for (const dom::element element : array) {
    if (static_cast<std::int64_t>(request.outputs.size()) >= limits.max_tensors)
      refuse(fmt::format("the request asks for more than {} outputs", limits.max_tensors));
    RequestedOutput output;
    Placement placement;
    for (const dom::key_value_pair field : object_of(element, "outputs")) {
      if (field.key == "name") output.name = text_of(field.value, field.key);
      else if (field.key == "parameters") placement = placement_of(object_of(field.value, field.key));
    }
    if (output.name.empty()) refuse("a requested output has no 'name'");
    output.classes = placement.classes;
    output.region = placement.region;
    binary.push_back(placement.binary);
    request.outputs.push_back(std::move(output));
  }
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

void read_parameters(const dom::object& parameters, InferenceRequest& request) {
  for (const dom::key_value_pair field : parameters) {
    if (field.key == "binary_data_output") request.binary_by_default = bool_of(field.value, field.key);
    else if (field.key == "timeout") request.timeout_ns = timeout_ns(field.value);
    else if (field.key == "routing_key") request.routing_key = text_of(field.value, field.key);
    else if (field.key == "priority") {
      const std::int64_t priority = whole_of(field.value, field.key);
      if (priority < 0) refuse("'priority' is negative");
      request.priority = static_cast<std::uint64_t>(priority);
    } else if (field.key == "sequence_id") {
      request.sequence.id = sequence_id(field.value);
    } else if (field.key == "sequence_start") request.sequence.is_start = bool_of(field.value, field.key);
    else if (field.key == "sequence_end") request.sequence.is_end = bool_of(field.value, field.key);
  }
}

InferenceRequest read_request(const dom::object& root, std::string_view binary, const DecodeLimits& limits,
                              const std::shared_ptr<const void>& owner) {
  InferenceRequest request;
  Inputs inputs(binary, limits, owner);
  std::vector<std::optional<bool>> output_binary;
  bool has_inputs = false;
  for (const dom::key_value_pair field : root) {
    if (field.key == "id") request.id = text_of(field.value, field.key);
    else if (field.key == "parameters") read_parameters(object_of(field.value, field.key), request);
    else if (field.key == "outputs") read_outputs(array_of(field.value, field.key), limits, request, output_binary);
    else if (field.key == "inputs") {
      has_inputs = true;
      for (const dom::element element : array_of(field.value, field.key))
        inputs.add(object_of(element, field.key), request.inputs);
    }
  }
  if (!has_inputs) refuse("the request has no 'inputs'");
  inputs.check_end();
  for (std::size_t i = 0; i < request.outputs.size(); ++i)
    request.outputs[i].binary = output_binary[i].value_or(request.binary_by_default);
  return request;
}

}  // namespace

InferenceRequest decode_request(std::string_view body, std::optional<std::size_t> json_bytes,
                                const DecodeLimits& limits, const std::shared_ptr<const void>& owner) {
  if (json_bytes.value_or(0) > body.size())
    refuse(fmt::format("the header says that {} bytes are JSON, but the body has {}", *json_bytes, body.size()));
  const std::string_view json = body.substr(0, json_bytes.value_or(body.size()));
  if (json.empty()) refuse("the request is empty, expected a JSON object");
  dom::parser parser;
  if (parser.allocate(json.size(), static_cast<std::size_t>(limits.max_json_depth)) != simdjson::SUCCESS)
    throw Failure(Reason::unavailable, "the server is short of memory", 1);
  dom::element root;
  if (const simdjson::error_code error = parser.parse(json.data(), json.size()).get(root)) {
    if (error == simdjson::DEPTH_ERROR)
      refuse(fmt::format("the JSON text is nested more than {} deep", limits.max_json_depth));
    refuse(fmt::format("the JSON text is malformed: {}", simdjson::error_message(error)));
  }
  return read_request(object_of(root, "the request"), body.substr(json.size()), limits, owner);
}

}  // namespace tessera::serve
