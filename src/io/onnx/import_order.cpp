// Captures of graphs, and the order of nodes.
#include <algorithm>
#include <queue>
#include <unordered_set>

#include "base/error.h"
#include "io/onnx/importer.h"

namespace tessera::io {

using tessera_onnx::GraphProto;
using tessera_onnx::NodeProto;

// The names that the node reads: its inputs and the values that its subgraphs capture, in the order of first use.
Importer::Names Importer::names_used(const NodeProto& node) {
  Names names;
  for (const std::string& input : node.input()) {
    if (!input.empty()) names.push_back(input);
  }
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) {
      const Names& inner = free_names(attribute.g());
      names.insert(names.end(), inner.begin(), inner.end());
    }
  }
  return names;
}

const Importer::Names& Importer::free_names(const GraphProto& proto) {
  if (const auto found = free_names_.find(&proto); found != free_names_.end()) return found->second;
  std::unordered_set<std::string> known;
  for (const auto& input : proto.input()) known.insert(input.name());
  for (const auto& initializer : proto.initializer()) known.insert(initializer.name());
  for (const auto& initializer : proto.sparse_initializer()) known.insert(initializer.values().name());
  for (const NodeProto& node : proto.node()) known.insert(node.output().begin(), node.output().end());
  Names names;
  auto use = [&](const std::string& name) {
    if (known.insert(name).second) names.push_back(name);
  };
  for (const NodeProto& node : proto.node()) {
    for (const std::string& name : names_used(node)) use(name);
  }
  for (const auto& output : proto.output()) use(output.name());
  return free_names_.emplace(&proto, std::move(names)).first->second;
}

// Kahn's algorithm, taking ready nodes by their place in the file, so that a sorted list stays as it is.
std::vector<const NodeProto*> Importer::sorted(const Nodes& nodes) {
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& output : nodes[i].output()) {
      if (output.empty()) continue;
      const auto [first, inserted] = producer.emplace(output, i);
      require(inserted, ErrorKind::invalid_model, "value '{}' has two producers: {} and {}", shown(output),
              describe(nodes[first->second]), describe(nodes[i]));
    }
  }
  std::vector<std::vector<int>> users(static_cast<std::size_t>(nodes.size()));
  std::vector<int> missing(static_cast<std::size_t>(nodes.size()), 0);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : names_used(nodes[i])) {
      const auto found = producer.find(name);
      if (found == producer.end()) continue;
      users[static_cast<std::size_t>(found->second)].push_back(i);
      ++missing[static_cast<std::size_t>(i)];
    }
    if (missing[static_cast<std::size_t>(i)] == 0) ready.push(i);
  }
  std::vector<const NodeProto*> order;
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    order.push_back(&nodes[next]);
    for (int user : users[static_cast<std::size_t>(next)]) {
      if (--missing[static_cast<std::size_t>(user)] == 0) ready.push(user);
    }
  }
  for (int i = 0; i < nodes.size(); ++i) {
    require(missing[static_cast<std::size_t>(i)] == 0, ErrorKind::invalid_model, "the graph has a cycle through {}",
            describe(nodes[i]));
  }
  return order;
}

}  // namespace tessera::io
