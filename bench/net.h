// Nets for benchmarks that run a model with one picture or sequence.
#pragma once

#include <memory>
#include <string>

#include "ir/graph.h"
#include "models/models.h"
#include "tessera/model.h"

namespace tessera::bench {

// A net of models.h with a batch of one, 128 tokens or 100 time steps; or an ONNX file. Throws Error as both do.
inline Model net_of_one(const std::string& name) {
  if (name.ends_with(".onnx")) return Model::load(name);
  models::BuildOptions options;
  for (const models::ModelEntry& entry : models::all_models()) {
    if (entry.name != name) continue;
    options.dims["batch"] = 1;
    if (entry.dims.find("seq") != std::string_view::npos) options.dims["seq"] = 128;
    if (entry.dims.find("time") != std::string_view::npos) options.dims["time"] = 100;
  }
  return Model(std::make_shared<ir::Graph>(models::build_model(name, options)));
}

}  // namespace tessera::bench
