// Bodies of inference requests over HTTP: JSON, with tensors in it or as bytes behind it (the binary tensor data
// extension of the Open Inference Protocol). Bodies may be anything: every size is checked before memory is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/protocol/inference.h"

namespace tessera::serve {

struct DecodeLimits {
  std::int64_t max_json_depth = 64;
  std::int64_t max_tensors = 1024;  // inputs, and outputs
};

// Of a body whose first `json_bytes` are JSON, or all of them without that number. Model and version stay empty. With
// an owner of the body, tensors may be views of it, as in decode_elements. Throws Failure(bad_request).
InferenceRequest decode_request(std::string_view body, std::optional<std::size_t> json_bytes,
                                const DecodeLimits& limits = {}, const std::shared_ptr<const void>& owner = nullptr);

// Elements of a fixed size as they lie in memory, or of BYTES each with its length in 4 bytes before it, little-endian.
// With an owner, the tensor is a view of bytes that lie at a multiple of 64, as in memory of its own; otherwise a copy.
// Throws Failure(bad_request), naming the input, where the number of bytes is not that of the shape.
Tensor decode_elements(const std::string& name, DType dtype, const Shape& shape, std::string_view bytes,
                       const std::shared_ptr<const void>& owner = nullptr);

// The bytes that decode_elements reads; appended.
void append_elements(const Tensor& tensor, std::string& bytes);
// Their number.
std::int64_t encoded_bytes(const Tensor& tensor);

// The element type. Throws Failure(bad_request) for an unknown name.
DType checked_datatype(const std::string& name, std::string_view datatype);
// The number of elements. Throws Failure(bad_request) for negative or too many dimensions and for overflow.
std::int64_t checked_elements(const std::string& name, const Shape& shape);

}  // namespace tessera::serve
