// Values of a JSON text that a client sent, with errors that name the field. Functions throw Failure(bad_request).
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/protocol/inference.h"

namespace tessera::serve {

[[noreturn]] void refuse(const std::string& message);

// Parses the text, which is nested at most `max_depth` deep. The parser owns the result. Throws Failure(unavailable)
// where memory is short.
simdjson::dom::element parse_json(simdjson::dom::parser& parser, std::string_view json, std::int64_t max_depth);

// `what` is the name of the field.
std::string text_of(const simdjson::dom::element& element, std::string_view what);
std::int64_t whole_of(const simdjson::dom::element& element, std::string_view what);
bool bool_of(const simdjson::dom::element& element, std::string_view what);
simdjson::dom::object object_of(const simdjson::dom::element& element, std::string_view what);
simdjson::dom::array array_of(const simdjson::dom::element& element, std::string_view what);
Shape shape_of(const simdjson::dom::element& element);

// The shape of nested arrays; empty for a number, text or boolean. `name` is the input's. Throws Failure(bad_request)
// for arrays of different lengths or depths side by side.
Shape nested_shape(const std::string& name, const simdjson::dom::element& data);
// The elements of a number, text or boolean, or of nested arrays in row-major order. Their number must be that of the
// shape; the nesting does not matter.
Tensor json_tensor(const std::string& name, DType dtype, const Shape& shape, const simdjson::dom::element& data);

// Reads a parameter of a request for inference (timeout, priority, routing_key, sequence_id …). Returns false for one
// of another name.
bool read_request_parameter(const simdjson::dom::key_value_pair& field, InferenceRequest& request);

}  // namespace tessera::serve
