// Samples that are computed by a function of the caller.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/data/dataset.h"

namespace tessera::train {

// Returns the fields of sample `index` by name. Called from several threads at once. An exception counts as an error of
// that sample alone.
using SampleCallback = std::function<std::map<std::string, Tensor>(std::int64_t index)>;

// A data set of `size` samples. Every sample must have these fields with these types and shapes (without the batch
// dimension); otherwise reading it fails. `source` names the data in messages. Throws Error(invalid_argument) for an
// empty function, no fields, fields of strings or a negative size.
std::unique_ptr<Dataset> make_callback_dataset(std::vector<Field> fields, std::int64_t size, SampleCallback callback,
                                               std::string source = "callback");

}  // namespace tessera::train
