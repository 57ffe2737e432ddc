// The tables of a training's configuration, for files that hold more than these.
#pragma once

#include "io/toml_table.h"
#include "tessera/train.h"

namespace tessera::train {

// Reads the tables that docs/training.md lists from a file; others are left to the caller, who checks that all were
// read. Throws Error(invalid_argument).
TrainingConfig read_training_config(io::TomlTable& root);

}  // namespace tessera::train
