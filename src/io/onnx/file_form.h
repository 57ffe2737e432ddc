// A graph as an ONNX file states it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tessera::io {

struct FileForm {
  ir::Graph graph;  // with operators in the forms of these versions, and names for outputs that must have one
  std::map<std::string, std::int64_t> versions;  // by domain; of the default domain always
  std::vector<std::string> raised_by;  // operators and element types for which a version is higher than the graph's own
};

// The version of the operator set that the graph was read from, 0 if it is not known. The default domain is "".
std::int64_t own_version(const ir::Graph& graph, const std::string& domain);

// Throws Error(invalid_argument) for a version of the default domain that cannot be written.
void check_opset(std::int64_t opset);

// `opset`: the version of the default domain. Nothing: the graph's own, or the lowest above it that has all operators;
// of graphs without one, 17 or the lowest above it that has all operators as they are. Throws Error(unsupported) that
// lists all operators without a form at the version asked for, and the lowest version that has all. Throws
// Error(invalid_argument) for a version that cannot be written.
FileForm file_form(const ir::Graph& graph, std::optional<std::int64_t> opset);

// The graph with its operators in their newest forms and no more outputs than it has, and the lowest versions in which
// these forms mean the same, of the default domain at least 17: for readers that are ours.
FileForm newest_form(const ir::Graph& graph);

}  // namespace tessera::io
