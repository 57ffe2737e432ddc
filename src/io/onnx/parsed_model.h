// A parsed model file, with the data of its weights left in place.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "onnx.pb.h"
#include "tessera/model_limits.h"

namespace tessera::io {

struct ParsedModel {
  tessera_onnx::ModelProto model;  // without the raw_data of the graph's initializers
  // For each initializer of the graph, in order: its raw_data within the parsed bytes, or nothing if it has none.
  std::vector<std::optional<std::span<const std::byte>>> raw_data;
};

// Throws Error: invalid_model (empty, truncated, corrupt, or nested deeper than the limits allow), over_budget (more
// memory than they allow), invalid_argument (invalid limits).
ParsedModel parse_model(std::span<const std::byte> bytes, const ModelLimits& limits);

}  // namespace tessera::io
