#include "serve/protocol/request_decoder.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "base/text.h"
#include "serve/protocol/datatype.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/json_values.h"

namespace tessera::serve {
namespace {

namespace dom = simdjson::dom;

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
    else if (data) input.tensor = json_tensor(input.name, input.dtype, input.shape, *data);
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

InferenceRequest read_request(const dom::object& root, std::string_view binary, const DecodeLimits& limits,
                              const std::shared_ptr<const void>& owner) {
  InferenceRequest request;
  Inputs inputs(binary, limits, owner);
  std::vector<std::optional<bool>> output_binary;
  bool has_inputs = false;
  for (const dom::key_value_pair field : root) {
    if (field.key == "id") request.id = text_of(field.value, field.key);
    else if (field.key == "parameters") {
      for (const dom::key_value_pair parameter : object_of(field.value, field.key))
        read_request_parameter(parameter, request);
    } else if (field.key == "outputs") read_outputs(array_of(field.value, field.key), limits, request, output_binary);
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
  const dom::element root = parse_json(parser, json, limits.max_json_depth);
  return read_request(object_of(root, "the request"), body.substr(json.size()), limits, owner);
}

}  // namespace tessera::serve
