// The model that a benchmark is given by name: an .onnx or .tsr file, or a net of `tessera new` for a batch of 1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "models/models.h"
#include "runtime/session/assumed_dims.h"
#include "tessera/model.h"

namespace tessera::bench {

// `dims`: sizes of symbolic dimensions of a file; those that are not named are assumed.
inline Model model_of(const std::string& name, const std::map<std::string, std::int64_t>& dims) {
  if (name.find('.') == std::string::npos)
    return Model(std::make_shared<const ir::Graph>(models::build_model(name, {.dims = {{"batch", 1}}})));
  const Model model = Model::load(name);
  return runtime::assume_dims(dims.empty() ? model : model.with_dims(dims)).model;
}

}  // namespace tessera::bench
