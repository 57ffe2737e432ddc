// Converts a graph to the form of an ONNX file.
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

// Converts the graph to opset `opset` of the default domain. Nothing: the graph's own opset, or the lowest one above it
// that has all operators; for graphs without one, 17 or the lowest one above it that has all operators unchanged.
// Throws Error(unsupported) that lists all operators without a form in the opset asked for, and the lowest opset that
// has all of them. Throws Error(invalid_argument) for an opset that cannot be written.
FileForm file_form(const ir::Graph& graph, std::optional<std::int64_t> opset);

// The graph with its operators in their newest forms and without additional outputs, and the lowest versions in which
// these forms have the same meaning, at least 17 for the default domain: for Tessera's own reader.
FileForm newest_form(const ir::Graph& graph);

}  // namespace tessera::io
