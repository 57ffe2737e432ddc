// Which operator set version a node needs, when it is written.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace tessera::io {

// The lowest version of the operator's domain that has everything the node uses, as it stands: the operator, its
// attributes, inputs, outputs and element types. Changes of meaning that leave all of these as they are (downgrade.h
// knows them) are not looked at.
std::int64_t form_version(const ir::Graph& graph, const ir::Node& node);

// The first version of the default domain that has the element type at all.
std::int64_t dtype_version(DType dtype);

// The last version of the operator's domain that has the operator.
std::int64_t last_version(const ir::Node& node);

// The IR version that came with a version of the default domain
// (https://github.com/onnx/onnx/blob/main/docs/Versioning.md, "Released Versions").
std::int64_t ir_version_of(std::int64_t opset);

}  // namespace tessera::io
