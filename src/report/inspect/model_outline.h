// Shows the graph of a model file to people: nodes with attributes, inputs and outputs, where the inputs come from and
// where the outputs go, and weights with statistics.
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

// A graph, subgraph or function body of the file, and the meaning of the names in it.
struct OutlineScope {
  const io::OutlineGraph* graph = nullptr;
  OutlineScope* outer = nullptr;
  std::string title;  // "then_branch of #12"; empty for the model's own graph
  int depth = 0;
  std::unordered_map<std::string, ir::ValueType> types;
  std::unordered_map<std::string, Tensor> constants;  // initializers, and values of Constant nodes
  std::unordered_set<std::string> inputs, outputs;
  std::unordered_map<std::string, std::size_t> producers;  // indices of entries
  std::unordered_map<std::string, std::vector<std::size_t>>
      users;  // indices of entries, including those in subgraphs, for the names that this graph defines
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
  // `typed` is the graph that the reader made from the same file; it has the types that the file does not declare.
  ModelOutline(io::Outline outline, const ir::Graph& typed);

  // Nodes in the order of the file, each followed by those of its subgraphs, and those of functions at the end. The
  // first node has number 1.
  const std::vector<OutlineEntry>& entries() const { return entries_; }
  // Initializers and Constant nodes, including those of subgraphs.
  const std::vector<OutlineConstant>& constants() const { return constants_; }
  const io::Outline& outline() const { return outline_; }

  // The type of the value that a name refers to in a scope, open if it is not known; and its tensor, null unless it is
  // a constant.
  ir::ValueType type_of(const OutlineScope& scope, const std::string& name) const;
  const Tensor* constant(const OutlineScope& scope, const std::string& name) const;
  // Where the value comes from: "input", "constant", "#3 Conv 'conv1'", or "" if not known.
  std::string origin(const OutlineScope& scope, const std::string& name) const;
  // The readers of the value: nodes, and "output" for an output of the graph.
  std::vector<std::string> users(const OutlineScope& scope, const std::string& name) const;
  // "#3 Conv 'conv1'"
  std::string label(std::size_t entry) const;

  // The entries of nodes with that name, with an output of that name, or with that number ("#3"). Throws
  // Error(not_found) that lists the nearest names.
  std::vector<std::size_t> find(const std::string& name) const;

 private:
  OutlineScope& add_scope(const io::OutlineGraph& graph, const ir::Graph* typed, OutlineScope* outer,
                          std::string title);
  // `twin` is the node that the reader made from this one, or null.
  void add_node(OutlineScope& scope, const io::OutlineNode& node, const ir::Node* twin);
  void add_uses();

  io::Outline outline_;
  std::deque<OutlineScope> scopes_;
  std::vector<OutlineEntry> entries_;
  std::vector<OutlineConstant> constants_;
};

// All lines end with a newline and contain no characters that affect a terminal.
std::string nodes_text(const ModelOutline& model);
std::string weights_text(const ModelOutline& model);
// All about one node, with the values of constants of up to 100 elements. Throws as ModelOutline::find does.
std::string node_text(const ModelOutline& model, const std::string& name);

// A JSON object with the members "name", "doc_string", "inputs", "outputs", "nodes" and "weights", also for subgraphs;
// and "functions" if the model has any.
nlohmann::json outline_json(const ModelOutline& model);
// A list of the nodes of that name, as in outline_json, with a "producer" for each input and "users" for each output.
nlohmann::json node_json(const ModelOutline& model, const std::string& name);

}  // namespace tessera::report
