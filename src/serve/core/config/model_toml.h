// Parts of a model's config.toml that become parts of Triton's configuration. Functions throw Error(invalid_argument)
// for values of another kind.
#pragma once

#include <string>

#include "io/toml_table.h"
#include "serve/core/config/model_settings.h"

namespace tessera::serve {

// [sequence] with [sequence.control], the inputs that are told something, and [sequence.state], outputs by the inputs
// of the next step.
void read_sequence(io::TomlTable table, inference::ModelSequenceBatching& rules, const std::string& where);
// [warmup.NAME.inputs] with INPUT = "zero", "random" or a file's name, or { data = …, shape = … }.
void read_warm_up(const std::string& name, io::TomlTable table, inference::ModelWarmup& warm_up,
                  const std::string& where);

}  // namespace tessera::serve
