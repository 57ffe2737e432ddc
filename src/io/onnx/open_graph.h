// A graph while it is being imported: names stay unique, and every node's output types are inferred as it is added, so
// that the rewriting of old operator versions can look at ranks and element types.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace tessera::io {

class OpenGraph {
 public:
  ir::Graph graph;

  // Takes the name; false when it was taken before.
  bool reserve(const std::string& name) { return names_.insert(name).second; }
  // `wanted`, or `wanted_N` when that is taken; takes it.
  std::string unique_name(const std::string& wanted);

  // Declared type of a value that a node will produce: what the file says, refined and checked by inference.
  void declare(const std::string& name, ir::ValueType type, bool is_output);

  // A value to be produced by a node; its name must have been reserved by the caller.
  ir::ValueId add_value(const std::string& name);
  // Constants with a name derived from `hint`.
  ir::ValueId add_constant(Tensor tensor, const std::string& hint);
  // Appends the node and infers its outputs. What inference finds wrong is left to the inference of the whole graph,
  // which comes after everything unsupported has been listed.
  void add_node(ir::Node node);
  // A node with one new output, named after `hint`.
  ir::ValueId add_op(std::string op, std::vector<ir::ValueId> inputs, ir::Attributes attributes,
                     const std::string& hint);

 private:
  struct Declared {
    ir::ValueType type;
    bool is_output;
  };
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, Declared> declared_;
  std::unordered_set<std::int32_t> outputs_;
  std::int64_t next_suffix_ = 1;
};

}  // namespace tessera::io
