#include "base/threads/outside_demand.h"

namespace tessera::base {

std::atomic<OutsideDemand*> outside_demand{nullptr};

}  // namespace tessera::base
