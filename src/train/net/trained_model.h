#pragma once

#include <map>
#include <string>

#include "tessera/model.h"

namespace tessera::train {

// The model with new values for these constants, by name. Other constants, and all metadata, are kept.
Model with_weights(const Model& model, const std::map<std::string, Tensor>& weights);

}  // namespace tessera::train
