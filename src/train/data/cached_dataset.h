// A data set whose samples are read from their source once and then kept as they were decoded.
#pragma once

#include <filesystem>
#include <memory>

#include "train/data/dataset.h"

namespace tessera::train {

// Keeps samples in memory, up to `max_bytes`; those that come later are read from their source each time.
std::shared_ptr<Dataset> cache_in_memory(std::shared_ptr<const Dataset> data, std::int64_t max_bytes);

// Keeps samples in a file without a name in `folder`, which is gone with the process. Throws Error(io) where the folder
// has no room for all of them or cannot be written.
std::shared_ptr<Dataset> cache_on_disk(std::shared_ptr<const Dataset> data, const std::filesystem::path& folder);

}  // namespace tessera::train
