// Constants of a graph that callers may give another value: ONNX calls an initialiser that is a graph input too an
// overridable initialiser, and its value a default.
//
// The graph's metadata name them, so that copies of the graph keep them. They are treated as constants until a caller
// asks for them to be inputs, which must happen before passes have computed with their values.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace tessera::ir {

using OverridableConstants = std::map<std::string, ValueType, std::less<>>;  // by name, with their declared types

// The key of the metadata begins so.
inline constexpr std::string_view kOverridable = "overridable:";

void set_overridable(Graph& graph, const std::string& name, const ValueType& type);
// The overridable constants that the graph still has as constants.
OverridableConstants overridable_constants(const Graph& graph);
// Forgets which constants are overridable. Must be called before something computes with their values.
void forget_overridable(Graph& graph);
// Makes these constants inputs, behind the existing ones. Types that may follow from their values are forgotten and
// must be inferred anew. Throws Error(invalid_argument) for a name that overridable_constants() does not have.
Graph with_inputs(Graph graph, std::span<const std::string> names);

}  // namespace tessera::ir
