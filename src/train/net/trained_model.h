#pragma once

#include <map>
#include <string>

#include "tessera/model.h"

namespace tessera::train {

// The model with other values of these constants, by name; the others, and all metadata, stay.
Model with_weights(const Model& model, const std::map<std::string, Tensor>& weights);

}  // namespace tessera::train
