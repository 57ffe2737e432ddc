// The tables of a training's configuration, for files that hold more than these.
#pragma once

#include "io/toml_table.h"
#include "tessera/train.h"

namespace tessera::train {

// Reads the tables that docs/training.md lists from a file; others are left to the caller, who checks that all were
// read. Throws Error(invalid_argument).
TrainingConfig read_training_config(io::TomlTable& root);

// Throws Error(invalid_argument) for a number that is not finite or out of range, naming its key. Options whose range
// depends on others, or on the net, are checked where they are used.
void check_config(const TrainingConfig& config);

}  // namespace tessera::train
