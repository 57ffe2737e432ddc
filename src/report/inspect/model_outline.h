// The graph of a model file as people look at it: nodes with attributes, inputs and outputs and where these come from
// and go to; weights with statistics.
#pragma once

#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "io/onnx/outline.h"
#include "ir/graph.h"

namespace tessera::report {

// A graph, subgraph or function body of the file with what its names mean.
struct OutlineScope {
  const io::OutlineGraph* graph = nullptr;
  OutlineScope* outer = nullptr;
  std::string title;  // "then_branch of #12"; empty for the model's own graph
  int depth = 0;
  std::unordered_map<std::string, ir::ValueType> types;
  std::unordered_map<std::string, Tensor> constants;  // initializers, and values of Constant nodes
  std::unordered_set<std::string> inputs, outputs;
  std::unordered_map<std::string, std::size_t> producers;  // entries
  std::unordered_map<std::string, std::vector<std::size_t>>
      users;  // entries, those in subgraphs included, of the names that this graph defines
};

struct OutlineEntry {
  const io::OutlineNode* node;
  OutlineScope* scope;
};

struct OutlineConstant {
  const OutlineScope* scope;
  const std::string* name;
  const Tensor* tensor;
};

class ModelOutline {
 public:
  // `typed` is the graph that the reader made of the same file: it knows the types that the file does not declare.
  ModelOutline(io::Outline outline, const ir::Graph& typed);

  // Nodes in the order of the file, each followed by those of its subgraphs; those of functions last. The first has
  // number 1.
  const std::vector<OutlineEntry>& entries() const { return entries_; }
  // Initializers and Constant nodes, subgraphs included.
  const std::vector<OutlineConstant>& constants() const { return constants_; }
  const io::Outline& outline() const { return outline_; }

  // What a name means where it is used. The type is open where nobody knows it, the tensor null unless the name is a
  // constant.
  ir::ValueType type_of(const OutlineScope& scope, const std::string& name) const;
  const Tensor* constant(const OutlineScope& scope, const std::string& name) const;
  // "input", "constant", "#3 Conv 'conv1'", "" where nobody knows.
  std::string origin(const OutlineScope& scope, const std::string& name) const;
  // Likewise, of all who read it: nodes, and "output" for an output of the graph.
  std::vector<std::string> users(const OutlineScope& scope, const std::string& name) const;
  // "#3 Conv 'conv1'"
  std::string label(std::size_t entry) const;

  // Entries of nodes with that name, with an output of that name, or with that number ("#3"). Throws Error(not_found)
  // with the names that come nearest.
  std::vector<std::size_t> find(const std::string& name) const;

 private:
  OutlineScope& add_scope(const io::OutlineGraph& graph, const ir::Graph* typed, OutlineScope* outer,
                          std::string title);
  // `twin`: the node that the reader made of it, or null.
  void add_node(OutlineScope& scope, const io::OutlineNode& node, const ir::Node* twin);
  void add_uses();

  io::Outline outline_;
  std::deque<OutlineScope> scopes_;
  std::vector<OutlineEntry> entries_;
  std::vector<OutlineConstant> constants_;
};

// All lines end with a newline and are harmless on a terminal.
std::string nodes_text(const ModelOutline& model);
std::string weights_text(const ModelOutline& model);
// One node in full, with the values of constants of up to 100 elements. Throws as ModelOutline::find does.
std::string node_text(const ModelOutline& model, const std::string& name);

// {"name", "doc_string", "inputs", "outputs", "nodes", "weights"}, of subgraphs too; "functions" of a model that has
// some
nlohmann::json outline_json(const ModelOutline& model);
// A list of the nodes of that name as in outline_json, with "producer" of inputs and "users" of outputs.
nlohmann::json node_json(const ModelOutline& model, const std::string& name);

}  // namespace tessera::report
