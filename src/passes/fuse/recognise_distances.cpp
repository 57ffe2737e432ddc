// Replaces a Scan that computes the squared distances of all rows of two matrices, as converters of nearest neighbours
// and Gaussian processes write it, by one operator where the device has a kernel for it: a Scan takes one step per row
// and writes all differences.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ops/core/control_flow.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::ValueId;

constexpr std::string_view kDistances = "tessera::SquaredDistances";

struct Operands {
  ValueId scanned, whole;
};

// Whether the Scan iterates forward over the first axis of its one scanned input, carries no state and has one output.
bool walks_over_rows(const ir::Node& node) {
  const ops::ScanPlan plan = ops::read_scan(ops::AttributeReader(node, ops::op_of(node)), node.formal_inputs());
  return plan.states == 0 && plan.scan_inputs == 1 && plan.scan_outputs == 1 && plan.input_axes[0] == 0 &&
         plan.output_axes[0] == 0 && !plan.input_backwards[0] && !plan.output_backwards[0] && node.captures == 1;
}

// The operands of a Scan whose body is ReduceSumSquare(whole - row, axis 1).
std::optional<Operands> operands_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != "Scan" || !walks_over_rows(node)) return {};
  const ir::Graph& body = *std::get<ir::SubgraphPointer>(node.attributes.at("body"));
  if (body.inputs().size() != 2 || body.outputs().size() != 1) return {};
  const ir::Node* sum = producer_of(body, source_of(body, body.outputs()[0]), "ReduceSumSquare");
  if (sum == nullptr || sum->inputs.size() != 2 || integer_of(*sum, "keepdims", 1) != 0) return {};
  const auto axes = constant_integers(body, *sum, 1);
  if (!axes || axes->size() != 1 || ((*axes)[0] != 1 && (*axes)[0] != -1)) return {};
  const ir::Node* difference = producer_of(body, source_of(body, sum->inputs[0]), "Sub");
  if (difference == nullptr) return {};
  ValueId left = source_of(body, difference->inputs[0]), right = source_of(body, difference->inputs[1]);
  const ValueId row = body.inputs()[0], captured = body.inputs()[1];
  if (!(left == captured && right == row) && !(left == row && right == captured)) return {};
  const Operands operands{node.inputs[0], node.inputs[1]};
  const ir::Dims *rows = dims_of(graph, operands.scanned), *whole = dims_of(graph, operands.whole);
  if (rows == nullptr || whole == nullptr || rows->size() != 2 || whole->size() != 2) return {};
  // If one operand has a single column, it is broadcast over the other, which gives other sums.
  if (!surely_equal({rows->back()}, {whole->back()})) return {};
  return operands;
}

// Removes a Transpose that alone reads the distances, by exchanging the operands. Returns whether it did.
bool absorb_transpose(ir::Graph& graph, ir::NodeId id, const std::vector<std::vector<ir::NodeId>>& uses) {
  const ir::Node& node = graph.node(id);
  if (node.op != "Transpose" || permutation_of(node, 2) != std::vector<std::int64_t>{1, 0}) return false;
  const ir::Node* distances = producer_of(graph, node.inputs[0], kDistances);
  if (distances == nullptr || is_result(graph, node.inputs[0]) ||
      uses[static_cast<std::size_t>(node.inputs[0].index)].size() != 1)
    return false;
  put_operator(graph, id, std::string(kDistances), {distances->inputs[1], distances->inputs[0]});
  return true;
}

}  // namespace

ir::Graph recognise_distances(ir::Graph graph, const PassContext& context) {
  if (!context.keeps_composite) return graph;
  const std::vector<std::vector<ir::NodeId>> uses = graph.compute_uses();
  bool changed = false;
  rewrite_each(graph, [&](ir::NodeId id) {
    if (changed && absorb_transpose(graph, id, uses)) return true;
    if (graph.node(id).op != "Scan") return false;
    const std::optional<Operands> operands = operands_of(graph, graph.node(id));
    if (!operands) return false;
    const ir::Node distances{std::string(kDistances), "", {operands->scanned, operands->whole},
                             graph.node(id).outputs,  {}, 0};
    if (!context.keeps_composite(graph, distances)) return false;
    put_operator(graph, id, distances.op, distances.inputs);
    return changed = true;
  });
  return graph;
}

}  // namespace tessera::passes
