// Checks of a model's settings, whichever file they come from.
#pragma once

#include <string>

#include "serve/core/config/model_settings.h"

namespace tessera::serve {

// Reads Tessera's own settings, which stand among the parameters of Triton's configuration; the others go to
// ModelSettings::ignored. Throws Error(invalid_argument).
void read_parameters(ModelSettings& settings, const std::string& where);
// Throws Error: invalid_argument for numbers out of range and settings that contradict each other, unsupported for what
// this server does not do.
void check_settings(const ModelSettings& settings, const std::string& where);

}  // namespace tessera::serve
