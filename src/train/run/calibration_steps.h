// Training steps that `tessera calibrate` measures, so that the kernels of backward passes and updates are predicted as
// well as those of inference.
#pragma once

#include <functional>
#include <vector>

#include "tessera/model.h"

namespace tessera::train {

// Functions that each make one step: small nets with known shapes, of sizes that no model of model_table.cpp has, which
// differ in layers, widths, batch and optimiser. They are made one at a time, because each holds its weights.
std::vector<std::function<Model()>> calibration_steps();

}  // namespace tessera::train
