// Requests that a version of a model answers before it is ready: Triton's model_warmup.
#pragma once

#include <filesystem>

#include "serve/core/models/servable.h"

namespace tessera::serve {

// Sends the requests of the model's configuration one after the other, `count` times each, and forgets that they were
// counted. Random elements are the same each time: numbers of 0 to 1, whole numbers of 0 or 1, texts of 8 letters.
// Files lie in the folder `warmup` of `folder` and hold elements as the protocol's binary data do. Throws
// Error(invalid_argument) for a request that the model refuses or fails, naming it; Error as File does for a file that
// cannot be read.
void run_warm_up(Servable& model, const std::filesystem::path& folder);

}  // namespace tessera::serve
