// Replaces operators for which the device has no kernel of its own by simpler ones: Mean, ReduceLogSumExp,
// LpNormalization, MeanVarianceNormalization and LRN. They are not composites because they have a reference kernel too;
// the replacement computes in floats, so intermediate values may overflow as they do in other programs. Runs after the
// passes that recognise these operators.
#include <algorithm>
#include <optional>

#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "passes/pass.h"
#include "passes/simplify/decompose_composites.h"

namespace tessera::passes {
namespace {

using ops::Term;

// A node with its inputs as terms.
struct SpeltNode {
  ops::GraphBuilder& builder;
  const ir::Node& node;
  ops::AttributeReader attributes;

  Term input(std::size_t i) const { return {builder, node.inputs[i]}; }
  bool has_input(std::size_t i) const { return i < node.inputs.size() && node.inputs[i].valid(); }
  // The axes of input 0, counted from the front; nothing where its rank is not known.
  std::optional<std::vector<std::int64_t>> axes_of(std::vector<std::int64_t> axes) const {
    const ir::Dims* dims = builder.dims(node.inputs[0]);
    if (dims == nullptr) return {};
    for (std::int64_t& axis : axes) axis = ops::normalise_axis(axis, static_cast<std::int64_t>(dims->size()));
    return axes;
  }
};

std::optional<Term> mean(const SpeltNode& n) {
  Term sum = n.input(0);
  for (std::size_t i = 1; i < n.node.inputs.size(); ++i) sum = sum + n.input(i);
  return n.node.inputs.size() == 1 ? sum : sum / static_cast<double>(n.node.inputs.size());
}

// largest + log(sum exp(x - largest)), where an infinite largest is not subtracted.
std::optional<Term> log_sum_exp(const SpeltNode& n) {
  const Term x = n.input(0);
  std::vector<Term> axes;
  if (n.has_input(1)) axes.push_back(n.input(1));
  const ir::Attributes attributes = {{"noop_with_empty_axes", n.attributes.integer("noop_with_empty_axes")}};
  const Term largest = x.combine("ReduceMax", axes, attributes);
  const Term shift = largest.apply("IsInf").choose(largest.number(0), largest);
  const Term sum = (x - shift).apply("Exp").combine("ReduceSum", axes, attributes).apply("Log") + shift;
  if (n.attributes.integer("keepdims") != 0) return sum;
  // Empty axes may stand for all or for none.
  if (n.attributes.integer("noop_with_empty_axes") != 0) return {};
  return sum.combine("Squeeze", axes);
}

// 0 where the norm is 0.
std::optional<Term> lp_normalization(const SpeltNode& n) {
  const auto axes = n.axes_of({n.attributes.integer("axis")});
  if (!axes) return {};
  const Term x = n.input(0);
  const Term norm = x.combine(n.attributes.integer("p") == 1 ? "ReduceL1" : "ReduceL2", {x.integers(*axes)});
  return norm.equals(norm.number(0)).choose(x.number(0), x / norm);
}

std::optional<Term> mean_variance_normalization(const SpeltNode& n) {
  const auto axes = n.axes_of(n.attributes.integers("axes"));
  if (!axes) return {};
  const Term x = n.input(0), centred = x - x.mean(*axes);
  return centred / ((centred * centred).mean(*axes).apply("Sqrt") + 1e-9);
}

// The mean of the squares of neighbouring channels is a pooling window over them, padding included.
std::optional<Term> lrn(const SpeltNode& n) {
  const ir::Dims* dims = n.builder.dims(n.node.inputs[0]);
  if (dims == nullptr || dims->size() < 3 || !(*dims)[1].is_known()) return {};
  const std::int64_t size = n.attributes.integer("size"), before = (size - 1) / 2, channels = (*dims)[1].value();
  const Term x = n.input(0);
  const Term planes = (x * x).combine("Reshape", {x.integers({0, 1, channels, -1})});
  const Term squares =
      planes.apply("AveragePool", {{"kernel_shape", std::vector<std::int64_t>{size, 1}},
                                   {"pads", std::vector<std::int64_t>{before, 0, size - 1 - before, 0}},
                                   {"count_include_pad", std::int64_t{1}}});
  const Term base =
      squares * static_cast<double>(n.attributes.real("alpha")) + static_cast<double>(n.attributes.real("bias"));
  const Term factor = base.combine("Pow", {base.number(-static_cast<double>(n.attributes.real("beta")))});
  return x * factor.reshape_like(x);
}

using Spelling = std::optional<Term> (*)(const SpeltNode&);
struct SpeltOperator {
  std::string_view op;
  Spelling spell;
};
constexpr SpeltOperator kSpelt[] = {{"Mean", mean},
                                    {"ReduceLogSumExp", log_sum_exp},
                                    {"LpNormalization", lp_normalization},
                                    {"MeanVarianceNormalization", mean_variance_normalization},
                                    {"LRN", lrn}};

}  // namespace

ir::Graph spell_out(ir::Graph graph, const PassContext& context) {
  bool changed = false;
  const std::vector<ir::NodeId> order = graph.order();  // spellings add to the graph's own
  for (const ir::NodeId id : order) {
    const auto* spelt = std::ranges::find(kSpelt, std::string_view(graph.node(id).op), &SpeltOperator::op);
    if (spelt == std::end(kSpelt)) continue;
    ops::infer_node_in_place(graph, id);
    const ir::Node node = graph.node(id);
    const DType type = graph.value(node.inputs[0]).type.dtype;
    if (type != DType::f32 && type != DType::f64) continue;
    if (context.keeps_composite && context.keeps_composite(graph, node)) continue;
    ops::GraphBuilder builder(graph);
    builder.set_name_prefix(node.name.empty() ? "" : node.name + "/");
    const std::optional<Term> result = spelt->spell({builder, node, ops::AttributeReader(node, ops::op_of(node))});
    changed = (result && carry_results(graph, id, {{result->id()}})) || changed;
  }
  if (!changed) return graph;
  graph.sort_topologically();
  graph.remove_dead_and_compact();
  return graph;
}

}  // namespace tessera::passes
