// Separates the weights from a serialised ONNX model before it is parsed, so that they are neither copied nor count
// towards the 2 GiB limit of the protobuf library.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera::io {

struct SplitModel {
  // A serialised ModelProto without the raw_data of its graph's initializers.
  std::string structure;
  // For each initializer of the graph, in order: its raw_data within the given bytes, or nothing if it has none.
  std::vector<std::optional<std::span<const std::byte>>> raw_data;
};

// Throws Error(invalid_model) that says at which byte the encoding breaks, Error(over_budget) when the structure alone
// has 2 GiB or more. Only the path to the initializers is checked; the rest is left to the parser.
SplitModel split_model(std::span<const std::byte> bytes);

}  // namespace tessera::io
