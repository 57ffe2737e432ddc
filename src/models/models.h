// Graph builders of well-known nets with seeded random weights, in the decomposed ONNX form that exporters write
// (NCHW).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace tessera::models {

struct BuildOptions {
  // Sizes by name: of dimensions ("batch", "seq") and of layers ("width", "classes"). A dimension that is not given
  // stays symbolic if the net allows it; any other size takes its default.
  std::map<std::string, std::int64_t> dims;
  std::uint64_t seed = 1;    // of the weights
  bool fill_weights = true;  // false: weights have a shape but no bytes, for counting and planning only
};

struct ModelEntry {
  std::string_view name;     // "resnet50"
  std::string_view summary;  // one line for people
  std::string_view dims;     // names of the sizes that may be given: "batch, seq"
  ir::Graph (*build)(const BuildOptions&);
};

// Every net, in the order of model_table.cpp.
std::span<const ModelEntry> all_models();

// Types are inferred. Throws Error(invalid_argument) listing the names when there is no such net, and for unknown or
// impossible dims.
ir::Graph build_model(std::string_view name, const BuildOptions& options = {});

}  // namespace tessera::models
