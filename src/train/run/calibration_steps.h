// Training steps that `tessera calibrate` measures, so that the kernels of backward passes and updates are predicted as
// well as those of inference.
#pragma once

#include <functional>
#include <vector>

#include "tessera/model.h"

namespace tessera::train {

// One makes one step: small nets of sizes that are no model's of model_table.cpp, with every shape known, which differ
// in layers, widths, batch and optimiser. Made one by one, because each holds its weights.
std::vector<std::function<Model()>> calibration_steps();

}  // namespace tessera::train
