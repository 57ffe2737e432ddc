// Folds shapes that nodes compute from names of dimensions: shapes that turn out to be numbers become constants,
// Reshape copies the dimensions that it keeps, an Expand to the shape of its operand is removed, and results get the
// dimensions that were computed for them.
#include <algorithm>

#include "base/error.h"
#include "ops/core/infer.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/shape_contents.h"
#include "passes/replacements.h"

namespace tessera::passes {
namespace {

using ir::Dim;
using ir::Dims;
using ir::NodeId;
using ir::ValueId;
using Elements = std::vector<ShapeElement>;

class ShapeFolder {
 public:
  ShapeFolder(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), context_(context), replacements_(graph_) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    if (std::ranges::none_of(order, [&](NodeId id) { return graph_.node(id).op == "Shape"; })) return std::move(graph_);
    for (const NodeId id : order) {
      replacements_.apply_to(graph_.node(id));
      ops::infer_node_in_place(graph_, id);
      const std::string& op = graph_.node(id).op;
      if (op == "Reshape") reshape(id);
      else if (op == "Expand") expand(id);
      else if (op == "ConstantOfShape") refine(id, contents_.of(graph_, graph_.node(id).inputs[0]));
      else if (op == "Range") range(id);
      contents_.learn(graph_, graph_.node(id));
      fold(id);
    }
    graph_.remove_dead_and_compact();
    return folded_ ? fold_constants(std::move(graph_), context_) : std::move(graph_);  // what computes with shapes
  }

 private:
  void fold(NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (node.outputs.size() != 1 || !node.outputs[0].valid()) return;
    const ValueId value = node.outputs[0];
    std::optional<Tensor> tensor = contents_.tensor_of(graph_, value);
    if (!tensor) return;
    graph_.become_constant(value, *std::move(tensor));
    folded_ = true;
  }

  // Refines the dimensions of the node's result; dimensions known from `elements` take precedence over names in a file.
  void refine(NodeId id, const std::optional<Elements>& elements) {
    if (!elements) return;
    std::optional<Dims>& dims = graph_.value(graph_.node(id).outputs[0]).type.dims;
    if (!dims) dims = Dims(elements->size());
    if (dims->size() != elements->size()) return;
    for (std::size_t i = 0; i < dims->size(); ++i) {
      if (const Dim dim = (*elements)[i].dim(); !(*dims)[i].is_known() && !dim.is_unknown()) (*dims)[i] = dim;
    }
  }

  void reshape(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const std::optional<Elements> request = contents_.of(graph_, node.inputs[1]);
    const Dims* dims = dims_of(graph_, node.inputs[0]);
    if (!request || graph_.is_constant(node.inputs[1])) return;
    const auto allow_zero = node.attributes.find("allowzero");
    const bool zero_is_zero = allow_zero != node.attributes.end() && std::get<std::int64_t>(allow_zero->second) != 0;
    if (zero_is_zero && std::ranges::any_of(*request, [](const ShapeElement& each) { return each.number == 0; }))
      return;
    std::vector<std::int64_t> target;
    Elements result;
    bool infers = false;
    for (std::size_t i = 0; i < request->size(); ++i) {
      const ShapeElement& each = (*request)[i];
      const Dim own = dims != nullptr && i < dims->size() ? (*dims)[i] : Dim();
      result.push_back(each.number == 0 ? ShapeElement::of(own) : each);
      const bool copies = !each.number && each.dim().surely_equals(own);
      target.push_back(each.number ? *each.number : copies ? 0 : -1);
      infers = infers || (!each.number && !copies);
    }
    refine(id, result);
    // An omitted dimension (-1) follows from the number of elements, but not while another dimension may be zero.
    if (std::ranges::count(target, -1) > 1 || (infers && std::ranges::find(target, 0) != target.end())) return;
    const auto length = static_cast<std::int64_t>(target.size());
    graph_.node(id).inputs[1] = graph_.add_constant(Tensor::from<std::int64_t>({length}, target));
    graph_.node(id).attributes.erase("allowzero");
    ops::infer_node_in_place(graph_, id);
  }

  void expand(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const std::optional<Elements> request = contents_.of(graph_, node.inputs[1]);
    const Dims* dims = dims_of(graph_, node.inputs[0]);
    if (!request || dims == nullptr) return;
    const std::size_t rank = std::max(dims->size(), request->size());
    Elements result(rank);
    bool same = dims->size() == rank;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::size_t behind = rank - 1 - i;
      const Dim own = behind < dims->size() ? (*dims)[dims->size() - 1 - behind] : Dim(1),
                wanted = behind < request->size() ? (*request)[request->size() - 1 - behind].dim() : Dim(1);
      const bool keeps = wanted.surely_equals(1) || wanted.surely_equals(own);
      same = same && keeps;
      result[i] = ShapeElement::of(keeps ? own : own.surely_equals(1) || wanted.is_known() ? wanted : Dim());
    }
    refine(id, result);
    if (same) replacements_.replace(graph_.node(id).outputs[0], graph_.node(id).inputs[0]);
  }

  // A Range 0, 1 … up to a dimension.
  void range(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const auto start = contents_.of(graph_, node.inputs[0]), limit = contents_.of(graph_, node.inputs[1]),
               step = contents_.of(graph_, node.inputs[2]);
    if (start && limit && step && (*start)[0].number == 0 && (*step)[0].number == 1) refine(id, limit);
  }

  ir::Graph graph_;
  const PassContext& context_;
  Replacements replacements_;
  ShapeContents contents_;
  bool folded_ = false;
};

}  // namespace

ir::Graph fold_shape_arithmetic(ir::Graph graph, const PassContext& context) {
  return ShapeFolder(std::move(graph), context).run();
}

}  // namespace tessera::passes
