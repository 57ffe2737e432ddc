// All operators Tessera knows.
#pragma once

#include <span>
#include <string_view>

#include "ops/core/op.h"

namespace tessera::ops {

// Every operator, family by family.
std::span<const OpDef* const> all_ops();
// Null when unknown. `name` as in ir::Node::op.
const OpDef* find_op(std::string_view name);
// Throws Error(unsupported).
const OpDef& op_of(const ir::Node& node);

}  // namespace tessera::ops
