// The inputs of bodies (of If, Loop, Scan and SequenceMap): their types, and captured values.
#pragma once

#include <cstdint>
#include <vector>

#include "io/onnx/importer.h"
#include "ir/graph.h"

namespace tessera::io {

// Removes captures that no subgraph of the node uses: those of subgraphs that were left out, and of inputs without
// meaning in the operators' present form.
void drop_unused_captures(ir::Node& node);

// The initial types of the formal inputs of the node's body, with only those ranks that hold for every iteration. The
// file may leave them open, or declare false shapes.
std::vector<ir::ValueType> flowing_into_body(const ir::Graph& graph, const ir::Node& node,
                                             const std::vector<Importer::ResolvedAttribute>& attributes,
                                             std::int64_t version);

}  // namespace tessera::io
