// Which operator set version a node needs, when it is written.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace tessera::io {

// The lowest version of the operator's domain, at least 17 in the default one, in which the node means the same: its
// attributes, inputs and element types exist there. Newer versions of most operators only admit more element types, and
// programs that do not know the newest version should still load what is written.
std::int64_t form_version(const ir::Graph& graph, const ir::Node& node);

}  // namespace tessera::io
