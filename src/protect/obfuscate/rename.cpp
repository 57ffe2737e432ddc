// Names without meaning.
#include <set>

#include "io/package.h"
#include "ir/text.h"
#include "ops/op_table.h"
#include "protect/obfuscate/passes.h"

namespace tessera::protect {
namespace {

// Tensors and graphs would make the table of symbols large, and stay with the node.
bool can_be_held(const ir::Attribute& attribute) {
  switch (ir::kind_of(attribute)) {
    case ir::AttributeKind::tensor:
    case ir::AttributeKind::tensors:
    case ir::AttributeKind::graph:
    case ir::AttributeKind::type:
      return false;
    default:
      return true;
  }
}

class Renamer {
 public:
  explicit Renamer(Obfuscation& state) : state_(state) {}

  void rename(ir::Graph& graph) {
    graph.name.clear();
    for (const ir::NodeId id : graph.order()) rename_node(graph, id);
    std::set<std::int32_t> kept;
    for (const auto* ids : {&graph.inputs(), &graph.outputs()}) {
      for (const ir::ValueId id : *ids) kept.insert(id.index);
    }
    for (const ir::Variable& variable : graph.variables()) kept.insert({variable.read.index, variable.update.index});
    for (std::size_t i = 0; i < graph.value_count(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      if (!kept.contains(index)) graph.value({index}).name = "_" + state_.dice.word();
    }
  }

 private:
  void rename_node(ir::Graph& graph, ir::NodeId id) {
    ir::Node& node = graph.node(id);
    node.name.clear();
    if (!ir::subgraphs_of(node).empty()) return rename_branches(node);
    ir::Attributes held, stays;
    for (auto& [name, attribute] : node.attributes) (can_be_held(attribute) ? held : stays).emplace(name, attribute);
    node.op = symbol_for(node.op, held);
    node.attributes = std::move(stays);
  }

  // Control flow keeps its operators, which the executor runs itself.
  void rename_branches(ir::Node& node) {
    for (const auto& [name, subgraph] : ir::subgraphs_of(node)) {
      ir::Graph copy = *subgraph;
      rename(copy);
      node.attributes[name] = std::make_shared<const ir::Graph>(std::move(copy));
    }
  }

  // A symbol stands for one to three nodes, whatever their number, so that numbers of nodes tell nothing.
  std::string symbol_for(const std::string& op, const ir::Attributes& held) {
    constexpr int kMostUses = 3;
    Open& open = open_[op + ir::print(held)];
    if (open.uses == 0 || open.uses >= kMostUses || state_.dice.chance(0.5)) {
      open = {std::string(ops::kSymbolPrefix) + state_.dice.word(), 0};
      state_.symbols.symbols.push_back({open.name, op, held});
    }
    ++open.uses;
    return open.name;
  }

  struct Open {
    std::string name;
    int uses = 0;
  };
  Obfuscation& state_;
  std::map<std::string, Open> open_;  // the newest symbol by what it stands for
};

}  // namespace

std::string Dice::word() {
  return fmt::format("{:016x}", next());
}

ir::Graph rename(ir::Graph graph, Obfuscation& state) {
  graph.remove_dead_and_compact();
  Renamer(state).rename(graph);
  state.symbols.id = state.dice.word() + state.dice.word();
  state.symbols.salt = state.dice.next();
  graph.metadata = {{std::string(io::kObfuscatedMark), state.symbols.id}};
  return graph;
}

}  // namespace tessera::protect
