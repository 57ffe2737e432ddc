// Merges consecutive operators that change only a shape, an order or an element type: reshapes of reshapes, transposes
// of transposes (also with reshapes between them), casts of lossless casts, reductions of reductions; and reductions
// and lookups of one row with a reshape behind them that restores or removes dimensions. Sequences without effect are
// removed.
#include <algorithm>
#include <array>
#include <optional>

#include "ops/op_table.h"
#include "ops/rows/reduction.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"

namespace tessera::passes {
namespace {

using ir::Dims;
using ir::NodeId;
using ir::ValueId;

bool changes_shape_only(const ir::Node& node) {
  return ops::op_of(node).view;
}

// Whether each value of type `from` can be represented in type `to`.
bool is_lossless(DType from, DType to) {
  const auto among = [&](std::initializer_list<DType> types) { return std::ranges::find(types, to) != types.end(); };
  switch (from) {
    case DType::f16:
    case DType::bf16:
      return among({DType::f32, DType::f64});
    case DType::f32:
      return among({DType::f64});
    case DType::i8:
      return among({DType::i16, DType::i32, DType::i64, DType::f16, DType::f32, DType::f64});
    case DType::u8:
      return among(
          {DType::u16, DType::i16, DType::u32, DType::i32, DType::u64, DType::i64, DType::f16, DType::f32, DType::f64});
    case DType::i16:
      return among({DType::i32, DType::i64, DType::f32, DType::f64});
    case DType::u16:
      return among({DType::u32, DType::i32, DType::u64, DType::i64, DType::f32, DType::f64});
    case DType::i32:
      return among({DType::i64, DType::f64});
    case DType::u32:
      return among({DType::u64, DType::i64, DType::f64});
    case DType::boolean:
      return among({DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::f32, DType::f64});
    default:
      return false;
  }
}

class MovementMerger {
 public:
  explicit MovementMerger(ir::Graph graph)
      : graph_(std::move(graph)), replacements_(graph_), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      ir::Node& node = graph_.node(id);
      replacements_.apply_to(node);
      if (changes_shape_only(node)) reshape(id);
      else if (node.op == "Transpose") transpose(id);
      else if (node.op == "Cast") cast(id);
      else if (has_trait(node, ops::Trait::reduction)) reduce_again(id);
    }
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  const ir::Node* producer(ValueId value) const {
    return value.valid() && graph_.value(value).origin == ir::Origin::node ? &graph_.node(graph_.value(value).producer)
                                                                           : nullptr;
  }
  bool has_one_use(ValueId value) const {
    const auto index = static_cast<std::size_t>(value.index);
    return index < uses_.size() && uses_[index].size() == 1 && !replacements_.is_result(value);
  }

  // --- shapes
  void reshape(NodeId id) {
    const ValueId result = graph_.node(id).outputs[0];
    // Follows the whole chain: if the shape at its start is that of the result, nothing has moved.
    ValueId source = graph_.node(id).inputs[0];
    if (is_back_at(id, source) && replacements_.replace(result, source)) return;
    for (const ir::Node* node = producer(source); node != nullptr && changes_shape_only(*node);
         node = producer(source)) {
      source = node->inputs[0];
      if (is_back_at(id, source) && replacements_.replace(result, source)) return;
    }
    if (reduce(id) || gather(id)) return;
    if (const std::optional<ValueId> swapped = transposed_in_batches(graph_, result))
      return put_operator(graph_, id, "Transpose", {*swapped}, {{"perm", std::vector<std::int64_t>{0, 1, 3, 2}}});
    const ir::Node *outer = &graph_.node(id), *inner = producer(outer->inputs[0]);
    if (inner == nullptr || !changes_shape_only(*inner)) return;
    if (const ValueId shape = shape_from(*outer); shape.valid())
      put_operator(graph_, id, "Reshape", {inner->inputs[0], shape});
  }

  bool is_back_at(NodeId id, ValueId source) const {
    const ir::Node& node = graph_.node(id);
    return same_dims(graph_, source, node.outputs[0]) ||
           (node.op == "Reshape" && is_shape_of(graph_, node.inputs[1], source));
  }

  // The constant shape to which the node reshapes any tensor with these elements; an invalid value if there is none.
  ValueId shape_from(const ir::Node& node) {
    const Tensor* given = node.op == "Reshape" ? graph_.constant(node.inputs[1]) : nullptr;
    const bool has_bytes = given != nullptr && (given->has_data() || given->elements() == 0);
    // A zero would copy a size from a shape that is no longer there.
    if (has_bytes && std::ranges::find(given->values<std::int64_t>(), 0) == given->values<std::int64_t>().end())
      return node.inputs[1];
    const Dims* dims = dims_of(graph_, node.outputs[0]);
    if (dims == nullptr || std::ranges::count_if(*dims, [](const ir::Dim& dim) { return !dim.is_known(); }) > 1)
      return {};
    std::vector<std::int64_t> sizes;
    for (const ir::Dim& dim : *dims) sizes.push_back(dim.is_known() ? dim.value() : -1);
    if (std::ranges::find(sizes, 0) != sizes.end()) return {};
    const Shape shape{static_cast<std::int64_t>(sizes.size())};
    return graph_.add_constant(Tensor::from<std::int64_t>(shape, std::span<const std::int64_t>(sizes)));
  }

  // Merges a reduction with a reshape behind it that restores or removes its reduced dimensions.
  bool reduce(NodeId id) {
    const ir::Node& outer = graph_.node(id);
    const ir::Node* inner = producer(outer.inputs[0]);
    if (inner == nullptr || !has_trait(*inner, ops::Trait::reduction) || !has_one_use(outer.inputs[0])) return false;
    const auto axes = reduced_axes(graph_, *inner);
    const Dims *from = dims_of(graph_, inner->inputs[0]), *to = dims_of(graph_, outer.outputs[0]);
    if (!axes || axes->empty() || from == nullptr || to == nullptr) return false;
    const bool keeps = keeps_dimensions(*inner);
    if (!surely_equal(*to, ops::reduced_dims(*from, *axes, !keeps))) return false;
    ir::Attributes attributes = inner->attributes;
    attributes.insert_or_assign("keepdims", std::int64_t{keeps ? 0 : 1});
    put_operator(graph_, id, inner->op, inner->inputs, std::move(attributes));
    return true;
  }

  // Merges reductions of the same kind along different axes: x.mean(3).mean(2).
  void reduce_again(NodeId id) {
    const ir::Node &outer = graph_.node(id), *inner = producer_of(graph_, outer.inputs[0], outer.op);
    if (inner == nullptr || !has_one_use(outer.inputs[0]) || !has_trait(outer, ops::Trait::nests)) return;
    // A mean of integers is rounded each time.
    if (outer.op == "ReduceMean" && !is_float(graph_.value(outer.outputs[0]).type.dtype)) return;
    const auto first = reduced_axes(graph_, *inner), second = reduced_axes(graph_, outer);
    const Dims* from = dims_of(graph_, inner->inputs[0]);
    const bool keeps = keeps_dimensions(outer);
    if (!first || !second || first->empty() || second->empty() || from == nullptr || keeps != keeps_dimensions(*inner))
      return;
    std::vector<std::int64_t> axes = *first;
    std::int64_t left = 0;  // axes that the first leaves, so far
    for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(from->size()); ++axis) {
      const bool gone = std::ranges::find(*first, axis) != first->end();
      if (!gone && std::ranges::find(*second, keeps ? axis : left) != second->end()) axes.push_back(axis);
      left += gone ? 0 : 1;
    }
    std::ranges::sort(axes);
    const Shape count{static_cast<std::int64_t>(axes.size())};
    const ValueId all = graph_.add_constant(Tensor::from<std::int64_t>(count, std::span<const std::int64_t>(axes)));
    put_operator(graph_, id, outer.op, {inner->inputs[0], all}, {{"keepdims", std::int64_t{keeps ? 1 : 0}}});
  }
  static bool keeps_dimensions(const ir::Node& reduce) {
    const auto given = reduce.attributes.find("keepdims");
    return given == reduce.attributes.end() || std::get<std::int64_t>(given->second) != 0;
  }

  // Merges a Gather of one index with a reshape behind it that restores or removes its axis.
  bool gather(NodeId id) {
    const ir::Node &outer = graph_.node(id), *inner = producer_of(graph_, outer.inputs[0], "Gather");
    const Tensor* index =
        inner != nullptr && has_one_use(outer.inputs[0]) ? graph_.constant(inner->inputs[1]) : nullptr;
    if (index == nullptr || index->elements() != 1 || index->rank() > 1) return false;
    const Dims *from = dims_of(graph_, inner->inputs[0]), *to = dims_of(graph_, outer.outputs[0]);
    if (from == nullptr || to == nullptr) return false;
    const std::int64_t axis = ops::normalise_axis(ops::AttributeReader(*inner, ops::op_of(*inner)).integer("axis"),
                                                  static_cast<std::int64_t>(from->size()));
    if (!surely_equal(*to, ops::reduced_dims(*from, std::array{axis}, index->rank() == 0))) return false;
    const ValueId other = graph_.add_constant(index->reshaped(index->rank() == 0 ? Shape{1} : Shape{}));
    put_operator(graph_, id, "Gather", {inner->inputs[0], other}, inner->attributes);
    return true;
  }

  // --- order
  void transpose(NodeId id) {
    const ir::Node &outer = graph_.node(id), *inner = producer_of(graph_, outer.inputs[0], "Transpose");
    const Dims* dims = inner == nullptr ? nullptr : dims_of(graph_, inner->inputs[0]);
    if (dims == nullptr) return;
    const std::vector<std::int64_t> first = permutation_of(*inner, dims->size()),
                                    second = permutation_of(outer, dims->size());
    std::vector<std::int64_t> both;
    for (const std::int64_t axis : second) both.push_back(first[static_cast<std::size_t>(axis)]);
    const ValueId x = inner->inputs[0];
    if (std::ranges::is_sorted(both) && replacements_.replace(outer.outputs[0], x)) return;
    put_operator(graph_, id, "Transpose", {x}, {{"perm", std::move(both)}});
  }

  // --- element types
  void cast(NodeId id) {
    const ir::Node &outer = graph_.node(id), *inner = producer_of(graph_, outer.inputs[0], "Cast");
    if (inner == nullptr) return;
    const ValueId x = inner->inputs[0];
    const DType from = graph_.value(x).type.dtype, between = graph_.value(outer.inputs[0]).type.dtype;
    if (!is_lossless(from, between)) return;
    if (graph_.value(outer.outputs[0]).type.dtype == from && replacements_.replace(outer.outputs[0], x)) return;
    put_operator(graph_, id, "Cast", {x}, outer.attributes);
  }

  ir::Graph graph_;
  Replacements replacements_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

ir::Graph merge_movement(ir::Graph graph, const PassContext&) {
  return MovementMerger(std::move(graph)).run();
}

}  // namespace tessera::passes
