#include "serve/protocol/generate_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "serve/protocol/failure.h"
#include "serve/protocol/json_values.h"
#include "serve/protocol/request_decoder.h"

namespace tessera::serve {
namespace {

namespace dom = simdjson::dom;

constexpr std::int64_t kMostDepth = 16;

InferenceInput input_of(const GenerateField& field, const dom::element& data) {
  const TensorInfo& info = field.info;
  InferenceInput input{info.name, info.dtype, nested_shape(info.name, data), {}, {}};
  const std::int64_t given = checked_elements(info.name, input.shape);
  if (field.is_fed) {
    Shape step = step_shape(info);
    const std::int64_t elements = checked_elements(info.name, step);
    if (given == 0 || elements == 0 || given % elements != 0)
      refuse(fmt::format("input '{}' has {} elements, expected a multiple of {}: the steps of the prompt, at least one",
                         base::shown(info.name), given, elements));
    step.insert(step.begin(), given / elements);
    input.shape = std::move(step);
  } else {
    if (input.shape.size() > info.shape.size())
      refuse(fmt::format("input '{}' has {} dimensions, expected at most {}", base::shown(info.name),
                         input.shape.size(), info.shape.size()));
    input.shape.insert(input.shape.begin(), info.shape.size() - input.shape.size(), 1);
  }
  input.tensor = json_tensor(info.name, info.dtype, input.shape, data);
  return input;
}

void read_parameters(const dom::object& parameters, GenerateRequest& request) {
  for (const dom::key_value_pair field : parameters) {
    if (field.key == "max_steps") {
      request.most_steps = whole_of(field.value, field.key);
      if (request.most_steps < 1) refuse("'max_steps' is below 1");
    } else if (field.key == "binary_data_output" || !read_request_parameter(field, request.request)) {
      refuse(fmt::format(
          "there is no parameter '{}': max_steps, timeout, priority, routing_key, sequence_id, sequence_start and "
          "sequence_end are known here",
          base::shown(field.key)));
    }
  }
}

}  // namespace

Shape step_shape(const TensorInfo& info) {
  Shape shape = info.shape;
  std::ranges::replace_if(shape, [](std::int64_t size) { return size < 0; }, 1);
  return shape;
}

GenerateRequest decode_generate(std::string_view body, std::span<const GenerateField> fields) {
  if (body.empty()) refuse("the request is empty, expected a JSON object");
  dom::parser parser;
  GenerateRequest request;
  const dom::element root = parse_json(parser, body, kMostDepth);
  for (const dom::key_value_pair field : object_of(root, "the request")) {
    const auto found = std::ranges::find(fields, field.key, [](const GenerateField& f) { return f.info.name; });
    if (found != fields.end()) request.request.inputs.push_back(input_of(*found, field.value));
    else if (field.key == "id") request.request.id = text_of(field.value, field.key);
    else if (field.key == "parameters") read_parameters(object_of(field.value, field.key), request);
    else refuse(fmt::format("the model has no input '{}'", base::shown(field.key)));
  }
  return request;
}

}  // namespace tessera::serve
