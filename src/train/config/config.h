// Reads the tables of a training's configuration, also from files that hold further tables.
#pragma once

#include "io/toml_table.h"
#include "tessera/train.h"

namespace tessera::train {

// Reads the tables that docs/training.md lists. Other tables are left to the caller, who checks that everything was
// read. Throws Error(invalid_argument).
TrainingConfig read_training_config(io::TomlTable& root);

// Throws Error(invalid_argument), which names the key, for a number that is not finite or out of range. Options whose
// range depends on others, or on the net, are checked where they are used.
void check_config(const TrainingConfig& config);

}  // namespace tessera::train
