// A pass turns a graph into an equal, better graph. One pass a file; pipeline.cpp alone holds the order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tessera::passes {

// Runs one node on constant inputs (an empty Value for an absent one) and returns its outputs. Handed in from above, so that
// passes know no backend. May throw Error.
using Evaluator = std::function<std::vector<Value>(const ir::Node&, std::span<const Value>)>;

struct PassContext {
  Evaluator evaluate;
  // Folding makes no constant larger than this, so that a small file cannot ask for a huge one.
  std::int64_t max_folded_bytes = std::int64_t{64} << 20;
};

struct Pass {
  std::string_view name;     // a verb: "fold_constants"
  std::string_view summary;  // one line for people
  ir::Graph (*run)(ir::Graph, const PassContext&);
};

ir::Graph differentiate(ir::Graph graph, const PassContext& context);
ir::Graph decompose_composites(ir::Graph graph, const PassContext& context);
ir::Graph fold_constants(ir::Graph graph, const PassContext& context);
ir::Graph remove_no_ops(ir::Graph graph, const PassContext& context);
ir::Graph sink_constants(ir::Graph graph, const PassContext& context);
ir::Graph inline_constant_branches(ir::Graph graph, const PassContext& context);

}  // namespace tessera::passes
