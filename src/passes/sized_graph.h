// A model's graph with the types and the folded constants that it has for the sizes of one run, which is moved from
// sizes to sizes: only what depends on a size that changed is inferred and computed again.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "passes/pass.h"

namespace tessera::passes {

// Not thread-safe.
class SizedGraph {
 public:
  // `model` outlives it, and its values keep their ids. Types of its values are as inference leaves them.
  explicit SizedGraph(const ir::Graph& model) : model_(model) {}

  // Gives the graph the types that follow from those of the inputs, and folds as fold_constants does, without removing
  // anything. Returns false where that is not the same work for all sizes: folding comes near its budget, fails, or
  // meets other nodes than it did. The graph is unknown then, and after an error. Throws what inference throws.
  bool resize(std::span<const ir::ValueType> inputs, const PassContext& context);
  void forget() { known_ = false; }

  const ir::Graph& graph() const { return graph_; }
  // For each node of the model in order: whether it is a composite that the device has a kernel for.
  const std::vector<char>& kept_composites() const { return kept_; }

 private:
  bool make(std::span<const ir::ValueType> inputs, const PassContext& context);
  bool update(std::span<const ir::ValueType> inputs, const PassContext& context);
  bool update_node(ir::NodeId id, const PassContext& context);
  bool fold_again(ir::NodeId id, const PassContext& context);
  bool keeps(ir::NodeId id, const PassContext& context) const;

  const ir::Graph& model_;
  bool known_ = false;
  ir::Graph graph_;
  std::vector<char> kept_;
  std::vector<char> changed_;  // by value
  FoldingBudget most_;         // that an update may fold
  FoldingBudget left_;         // of it
};

}  // namespace tessera::passes
