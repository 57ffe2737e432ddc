// The role of a constant in a net: exporters state whether it is a parameter, and training follows them. Roles live in
// the graph's metadata under the constant's name, so that they survive copies of the graph; copy_role copies the role
// to a constant of another name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace tessera::ir {

enum class ConstantRole : std::uint8_t {
  unmarked,   // nothing was said: an initializer of a file, or a constant that a program made
  parameter,  // the exporter says so
  buffer,     // the exporter says that it belongs to the net, but is no parameter
  literal,    // it is written where it is used: the output of a Constant node, or an attribute of an older operator
  computed,   // Tessera computed it from constants of which none is a parameter
};

ConstantRole role_of(const Graph& graph, ValueId constant);
void set_role(Graph& graph, ValueId constant, ConstantRole role);
// Gives `to` the role of `from`, unless it has one of its own.
void copy_role(Graph& graph, ValueId from, ValueId to);

// Whether any constant of the graph has a role.
bool has_roles(const Graph& graph);

// Whether a key of a graph's metadata is a role.
bool is_role_key(std::string_view key);

// Roles as files state them, by the names that torch.export gives kinds of inputs: PARAMETER, BUFFER and
// CONSTANT_TENSOR (a literal or a computed constant). An unknown name gives `unmarked`; an unmarked constant has no
// name.
ConstantRole role_of_kind(std::string_view kind);
std::optional<std::string> kind_of_role(ConstantRole role);

}  // namespace tessera::ir
