// Data sets that read each sample from their source once and then keep it in decoded form.
#pragma once

#include <filesystem>
#include <memory>

#include "train/data/dataset.h"

namespace tessera::train {

// Keeps samples in memory, up to `max_bytes`; further samples are read from their source each time.
std::shared_ptr<Dataset> cache_in_memory(std::shared_ptr<const Dataset> data, std::int64_t max_bytes);

// Keeps samples in an unnamed file in `folder`, which disappears with the process. Throws Error(io) if the folder has
// too little space for all samples, or cannot be written to.
std::shared_ptr<Dataset> cache_on_disk(std::shared_ptr<const Dataset> data, const std::filesystem::path& folder);

}  // namespace tessera::train
