// The part of a pruning's page that shows what each layer costs by its sparsity.
#pragma once

#include <string>

#include "tessera/prune.h"

namespace tessera::compress {

// A curve for each layer, of which the most sensitive have colours and names in a legend, and a table.
std::string sensitivity_section(const PruneSensitivity& sensitivity);

}  // namespace tessera::compress
