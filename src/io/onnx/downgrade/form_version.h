// Finds the opset that a node needs when it is written.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace tessera::io {

// The lowest version of the operator's domain that has everything the node uses in its present form: the operator, its
// attributes, inputs, outputs and element types. Changes of meaning that affect none of these are ignored here
// (downgrade.h knows them).
std::int64_t form_version(const ir::Graph& graph, const ir::Node& node);

// The first version of the default domain that has the element type.
std::int64_t dtype_version(DType dtype);

// The last version of the operator's domain that has the operator.
std::int64_t last_version(const ir::Node& node);

// The IR version that came with a version of the default domain
// (https://github.com/onnx/onnx/blob/main/docs/Versioning.md, "Released Versions").
std::int64_t ir_version_of(std::int64_t opset);

}  // namespace tessera::io
