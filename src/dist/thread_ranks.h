// Ranks that are threads of one process.
#pragma once

#include <memory>
#include <vector>

#include "base/communicator.h"

namespace tessera::dist {

// The members of a group of `size` ranks, by rank, for use in different threads. An exchange is carried out by the rank
// that begins it last. When one is stopped, so are the others.
std::vector<std::shared_ptr<base::Communicator>> make_thread_ranks(int size);

}  // namespace tessera::dist
