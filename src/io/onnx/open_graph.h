// A graph during its import: names stay unique, and every node's output types are inferred as it is added, so that
// upgrades of old operator versions can use ranks and element types.
//
// Declared shapes of computed values are not trusted, because exporters write false ones. They do not enter the graph;
// a declaration that contradicts the inferred shape is recorded (FalseShapes).
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace tessera::io {

// Whether neither the file nor inference knows anything about a value of this type.
inline bool says_nothing(const ir::ValueType& type) {
  return type.is_tensor() && type.dtype == DType::undefined;
}

// Values whose declared shape differs from the real one, with one sentence per value. A hostile model may have any
// number of them: a few are kept, the others only counted.
class FalseShapes {
 public:
  void add(const std::string& value, const ir::ValueType& declared, const ir::ValueType& found);
  std::size_t count() const { return count_; }
  // One sentence per value that was kept, and at the end the number of the others.
  std::vector<std::string> sentences() const;

 private:
  std::vector<std::string> kept_;
  std::size_t count_ = 0;
};

class OpenGraph {
 public:
  // `noted` receives the false shapes and must outlive this object. Null, for packages, whose graphs Tessera wrote:
  // declarations are trusted like inferred types, and the inference of the whole graph refuses contradictions.
  explicit OpenGraph(FalseShapes* noted = nullptr) : false_shapes_(noted) {}

  ir::Graph graph;

  // Takes the name; false when it is taken already.
  bool reserve(const std::string& name) { return names_.insert(name).second; }
  // `wanted`, or `wanted_N` when that is taken; takes it.
  std::string unique_name(const std::string& wanted);

  // Declared type of a value that a node will produce. Its kind and element type are checked against what inference
  // finds if it is an output, and taken where inference finds none.
  void declare(const std::string& name, ir::ValueType type, bool is_output);
  // The declared type of the value, if it may be true; else a type that says nothing.
  ir::ValueType declared(ir::ValueId value) const;
  // The rank of a value, inferred or else declared.
  std::optional<std::int64_t> rank(ir::ValueId value) const;

  // Records that the import depended on the value of this constant, so that the result does not hold for another value.
  void note_read(ir::ValueId constant) { read_.insert(constant.index); }
  bool was_read(ir::ValueId constant) const { return read_.contains(constant.index); }

  // A value to be produced by a node; its name must have been reserved by the caller.
  ir::ValueId add_value(const std::string& name);
  // A constant with a name derived from `hint`. One of floats is a literal (ir/constant_role.h).
  ir::ValueId add_constant(Tensor tensor, const std::string& hint);
  // Appends the node and infers its outputs. Errors of inference are left to the inference of the whole graph, which
  // comes after all unsupported operators have been listed.
  void add_node(ir::Node node);
  // Adds a node with one output, named after `hint`.
  ir::ValueId add_op(std::string op, std::vector<ir::ValueId> inputs, ir::Attributes attributes,
                     const std::string& hint);

 private:
  struct Declared {
    ir::ValueType type;
    bool is_output;
  };
  void settle(ir::ValueId value, const ir::ValueType& found);

  FalseShapes* false_shapes_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::int32_t> read_;
  std::unordered_map<std::string, Declared> declared_;
  std::unordered_map<std::int32_t, const Declared*> declared_of_;  // by value
  std::int64_t next_suffix_ = 1;
};

}  // namespace tessera::io
