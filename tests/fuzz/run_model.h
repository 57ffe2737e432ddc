// Running a model that may be anything.
#pragma once

#include <cstddef>
#include <span>

#include "tessera/session.h"

namespace tessera::fuzz {

// Runs the model with made-up inputs on the cpu device and (by a bit of the input's hash) also on the reference, within
// limits of time and memory, and compares the types of the outputs. `input`: what the model was read from.
void run_on_devices(const Model& model, std::span<const std::byte> input);

}  // namespace tessera::fuzz
