// Running a model with other values than its initialisers' own: see ir/overridable.h.
#pragma once

#include <string>
#include <vector>

#include "tessera/model.h"

namespace tessera::runtime {

// The model's inputs with a default, in the order of their names.
std::vector<ValueDescription> overridable_inputs(const Model& model);
// The model in which these are inputs that have to be given. Throws Error(invalid_argument) for a name that
// overridable_inputs() does not have, and as inference does for types that do not fit.
Model with_inputs(const Model& model, const std::vector<std::string>& names);

}  // namespace tessera::runtime
