// The section of a pruning's page that shows how the metric depends on each layer's sparsity.
#pragma once

#include <string>

#include "tessera/prune.h"

namespace tessera::compress {

// A plot with a curve per layer, of which the most sensitive are coloured and named in a legend, and a table.
std::string sensitivity_section(const PruneSensitivity& sensitivity);

}  // namespace tessera::compress
