// Converts a ModelProto to an ir::Graph.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "io/onnx/open_graph.h"
#include "io/onnx/reader.h"
#include "io/onnx/tensor_reader.h"
#include "onnx.pb.h"

namespace tessera::io {

// The features that the model uses and Tessera lacks, with the nodes that use them.
class UnsupportedList {
 public:
  void add(const std::string& what, const std::string& node);
  void merge(const UnsupportedList& other) { nodes_.insert(other.nodes_.begin(), other.nodes_.end()); }
  bool empty() const { return nodes_.empty(); }
  // Throws Error(unsupported) when anything is listed.
  void raise() const;

 private:
  std::map<std::string, std::vector<std::string>> nodes_;
};

ir::ValueType to_value_type(const tessera_onnx::TypeProto& proto);

class Importer {
 public:
  using RawData = std::vector<std::optional<std::span<const std::byte>>>;
  // An attribute of a node with references to a function's attributes resolved.
  struct ResolvedAttribute {
    std::string name;
    const tessera_onnx::AttributeProto* value;
  };

  // `raw_data`: of the graph's initializers, as split_model cut them out. All must outlive the importer.
  Importer(const tessera_onnx::ModelProto& model, const RawData& raw_data, TensorReader& tensors,
           const ReadOptions& options);

  // See read_model; without the final inference. Throws the list of everything unsupported.
  ir::Graph run();
  bool found_unsupported_operators() const { return !operators_.empty(); }
  const FalseShapes& false_shapes() const { return false_shapes_; }
  const std::vector<ir::ValueType>& declared_outputs() const { return declared_outputs_; }

 private:
  using Names = std::vector<std::string>;
  using Nodes = google::protobuf::RepeatedPtrField<tessera_onnx::NodeProto>;
  using Opsets = std::map<std::string, std::int64_t, std::less<>>;
  using Arguments = std::map<std::string, const tessera_onnx::AttributeProto*>;
  using FunctionKey = std::tuple<std::string, std::string, std::string>;  // domain, name, overload

  // The names visible to the nodes of one graph, subgraph or function body.
  struct Scope {
    OpenGraph* graph = nullptr;
    std::unordered_map<std::string, ir::ValueId> values;  // by name in the file; an invalid id: an absent argument
    const Opsets* opsets = nullptr;
    const Arguments* arguments = nullptr;                      // set in a function
    std::unordered_map<std::string, std::string> final_names;  // of a function's outputs, in its caller
    std::string prefix;                                        // for names inside a function
    std::int64_t depth = 0;
    bool in_function = false;
  };
  struct Captures {
    Names names;                   // as the subgraphs call them
    std::vector<ir::ValueId> ids;  // in the enclosing graph
    Names constants, absent;       // passed into the subgraphs that use them, not captured
  };

  // importer.cpp: the model and its graphs; constant_roles.cpp: what the file says of its initializers
  Opsets read_opsets(const google::protobuf::RepeatedPtrField<tessera_onnx::OperatorSetIdProto>& imports) const;
  void check_opsets(const Opsets& opsets);
  void read_metadata(ir::Graph& graph) const;
  void define_names(const tessera_onnx::GraphProto& proto, OpenGraph& graph) const;
  void declare_types(const tessera_onnx::GraphProto& proto, OpenGraph& graph);
  void note_overridable(const tessera_onnx::ValueInfoProto& input);
  void add_inputs(const tessera_onnx::GraphProto& proto, Scope& scope, bool is_subgraph);
  void describe_overridable(Scope& scope) const;
  bool may_be_overridden(const Scope& scope, ir::ValueId id) const;
  Tensor initial_value(const tessera_onnx::TensorProto& initializer, std::size_t index, bool is_subgraph);
  void add_initializers(const tessera_onnx::GraphProto& proto, Scope& scope, bool is_subgraph);
  static void mark_initializers(const tessera_onnx::GraphProto& proto, const Scope& scope);
  void add_outputs(const tessera_onnx::GraphProto& proto, Scope& scope);
  void restore_variables(Scope& scope);
  // `flowing`: types of what its first formal inputs get at first, as far as they are known.
  ir::SubgraphPointer subgraph(const tessera_onnx::GraphProto& proto, const Scope& outer, const Captures& captures,
                               const std::vector<ir::ValueType>& flowing);
  void let_flow_in(const std::vector<ir::ValueType>& flowing, OpenGraph& graph);
  FalseShapes* noted_shapes() { return options_.declared_shapes_are_true ? nullptr : &false_shapes_; }

  // import_order.cpp: which names a graph takes from around it, and an order in which every name is known before its
  // use
  const Names& free_names(const tessera_onnx::GraphProto& proto);
  std::vector<const tessera_onnx::NodeProto*> sorted(const Nodes& nodes);
  Names names_used(const tessera_onnx::NodeProto& node);

  // import_node.cpp
  void add_nodes(const Nodes& nodes, Scope& scope);
  void add_node(const tessera_onnx::NodeProto& proto, Scope& scope);
  void add_operator(const tessera_onnx::NodeProto& proto, const std::string& domain, Scope& scope);
  void add_constant(const tessera_onnx::NodeProto& proto, Scope& scope);
  void call_function(const tessera_onnx::NodeProto& proto, const tessera_onnx::FunctionProto& function, Scope& caller);
  Arguments read_arguments(const tessera_onnx::NodeProto& proto, const tessera_onnx::FunctionProto& function,
                           const Scope& caller);
  std::vector<ResolvedAttribute> resolve_attributes(const tessera_onnx::NodeProto& proto, const Scope& scope) const;
  Captures find_captures(const std::vector<ResolvedAttribute>& attributes, const Scope& scope);
  ir::Attribute to_attribute(const tessera_onnx::AttributeProto& proto, const Scope& scope, const Captures& captures,
                             const std::vector<ir::ValueType>& flowing);
  ir::ValueId resolve(const Scope& scope, const std::string& name) const;
  std::string final_name(Scope& scope, const std::string& name) const;
  ir::ValueId define(Scope& scope, const std::string& name) const;
  void count_node(const tessera_onnx::NodeProto& proto, const Scope& scope);
  void count_inlined_bytes(std::int64_t bytes);

  const tessera_onnx::ModelProto& model_;
  const RawData& raw_data_;
  TensorReader& tensors_;
  const ReadOptions& options_;
  Opsets opsets_;
  std::map<FunctionKey, const tessera_onnx::FunctionProto*> functions_;
  std::map<const tessera_onnx::FunctionProto*, Opsets> function_opsets_;
  std::vector<const tessera_onnx::FunctionProto*> calls_;  // the functions being inlined, outermost first
  std::unordered_map<const tessera_onnx::GraphProto*, Names> free_names_;
  std::map<std::string, std::string> variables_;  // name of the initializer -> name of the variable
  UnsupportedList unsupported_;                   // features
  UnsupportedList operators_;
  FalseShapes false_shapes_;
  std::vector<ir::ValueType> declared_outputs_;
  std::map<std::string, ir::ValueType> overridable_;  // by name: graph inputs that have an initializer
  std::int64_t inlined_nodes_ = 0, inlined_bytes_ = 0;
};

// "node 'name' (Op)", or by its first output.
std::string describe(const tessera_onnx::NodeProto& node);
// "'name'", or by its first output.
std::string short_name(const tessera_onnx::NodeProto& node);
// The kind of an attribute by its type, or in files before IR version 2 by the field that is set.
std::int32_t attribute_type(const tessera_onnx::AttributeProto& attribute);
// "" for both names of the default domain.
std::string canonical_domain(const std::string& domain);

}  // namespace tessera::io
