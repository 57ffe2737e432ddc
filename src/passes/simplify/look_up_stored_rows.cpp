// Gathers rows from a large table of 8-bit or 16-bit numbers before widening them, where the model widens the whole
// table to f32 and scales it: the table keeps its stored type; a widened one would take up to four times its size.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr auto kF32 = static_cast<std::int64_t>(DType::f32);

class RowLookupMover {
 public:
  // Tables that take at most `small_bytes` as f32 are widened once instead.
  RowLookupMover(ir::Graph graph, std::int64_t small_bytes) : graph_(std::move(graph)), small_bytes_(small_bytes) {}

  ir::Graph run() {
    rewrite_each(graph_, [&](NodeId id) { return graph_.node(id).op == "Gather" && move(id); });
    return std::move(graph_);
  }

 private:
  bool move(NodeId id) {
    const ir::Node gather = graph_.node(id);
    if (integer_of(gather, "axis", 0) != 0 || !find_table(gather.inputs[0])) return false;
    indices_ = gather.inputs[1];
    ValueId rows = widened_rows();
    for (; !steps_.empty(); steps_.pop_back()) {
      ir::Node step = steps_.back();
      const std::size_t other = graph_.is_constant(step.inputs[0]) ? 0 : 1;
      step.inputs[1 - other] = rows;
      step.inputs[other] = rows_of_operand(step.inputs[other]);
      rows = graph_.add_op(step.op, step.inputs, step.attributes);
    }
    put_operator(graph_, id, "Identity", {rows});
    return true;
  }

  // Sets table_, widening_, and steps_, the arithmetic between the widening and `value`, in reverse order.
  bool find_table(ValueId value) {
    steps_.clear();
    while (!graph_.is_constant(value)) {
      if (graph_.value(value).origin != ir::Origin::node) return false;
      const ir::Node& node = graph_.node(graph_.value(value).producer);
      if (node.op == "Cast" || node.op == "DequantizeLinear") {
        widening_ = node;
        if (!graph_.is_constant(node.inputs[0])) return false;
        table_ = *graph_.constant(node.inputs[0]);
        return is_stored_table() &&
               std::ranges::all_of(steps_, [&](const ir::Node& step) { return is_by_row_or_column(step); });
      }
      if (node.op != "Mul" && node.op != "Add" && node.op != "Sub") return false;
      if (graph_.is_constant(node.inputs[0]) == graph_.is_constant(node.inputs[1])) return false;
      steps_.push_back(node);
      value = node.inputs[graph_.is_constant(node.inputs[0]) ? 1 : 0];
    }
    return false;
  }

  bool is_stored_table() const {
    const DType type = table_.dtype();
    const bool is_byte = type == DType::i8 || type == DType::u8;
    if (table_.rank() != 2 || static_cast<std::int64_t>(sizeof(float)) * table_.elements() <= small_bytes_ ||
        !table_.has_data())
      return false;
    if (widening_.op == "Cast")
      return (is_byte || type == DType::f16 || type == DType::bf16) && integer_of(widening_, "to", 0) == kF32;
    const Tensor *scale = graph_.constant(widening_.inputs[1]),
                 *zero = has_zero_point() ? graph_.constant(widening_.inputs[2]) : nullptr;
    if (!is_byte || scale == nullptr || !scale->has_data() || scale->dtype() != DType::f32 ||
        integer_of(widening_, "block_size", 0) != 0 || integer_of(widening_, "output_dtype", kF32) > kF32)
      return false;
    if (has_zero_point() && (zero == nullptr || !zero->has_data() || zero->elements() != scale->elements()))
      return false;
    const std::int64_t axis = integer_of(widening_, "axis", 1);
    return scale->elements() == 1 || (scale->rank() == 1 && axis >= -2 && axis <= 1 &&
                                      scale->elements() == table_.shape()[static_cast<std::size_t>(axis_of_scales())]);
  }

  bool has_zero_point() const { return widening_.inputs.size() > 2 && widening_.inputs[2].valid(); }
  std::int64_t axis_of_scales() const {
    const std::int64_t axis = integer_of(widening_, "axis", 1);
    return axis == 0 || axis == -2 ? 0 : 1;
  }

  // Whether the constant operand broadcasts to the table without making it larger.
  bool is_by_row_or_column(const ir::Node& step) const {
    const Tensor* operand = graph_.constant(step.inputs[graph_.is_constant(step.inputs[0]) ? 0 : 1]);
    if (operand->dtype() != DType::f32 || !operand->has_data() || operand->rank() > 2) return false;
    const auto [rows, columns] = as_matrix(*operand);
    return (rows == 1 || rows == table_.shape()[0]) && (columns == 1 || columns == table_.shape()[1]);
  }
  static std::pair<std::int64_t, std::int64_t> as_matrix(const Tensor& operand) {
    const Shape& shape = operand.shape();
    return {shape.size() == 2 ? shape[0] : 1, shape.empty() ? 1 : shape.back()};
  }

  ValueId add(std::string op, std::vector<ValueId> inputs, ir::Attributes attributes = {}) {
    return graph_.add_op(std::move(op), std::move(inputs), std::move(attributes));
  }
  ValueId rows_of(const Tensor& table) {
    return add("Gather", {graph_.add_constant(table), indices_}, {{"axis", std::int64_t{0}}});
  }
  ValueId floats(ValueId value) { return add("Cast", {value}, {{"to", kF32}}); }

  // The operand for the gathered rows.
  ValueId rows_of_operand(ValueId value) {
    const Tensor operand = *graph_.constant(value);
    const auto [rows, columns] = as_matrix(operand);
    return rows == 1 ? graph_.add_constant(operand.reshaped({columns})) : rows_of(operand);
  }

  ValueId widened_rows() {
    const ValueId rows = rows_of(table_);
    if (widening_.op == "Cast") return floats(rows);
    const Tensor scale = *graph_.constant(widening_.inputs[1]);
    const std::optional<Tensor> zero =
        has_zero_point() ? std::optional(*graph_.constant(widening_.inputs[2])) : std::nullopt;
    if (scale.elements() != 1 && axis_of_scales() == 0) {
      const Shape column{table_.shape()[0], 1};
      const ValueId numbers = zero ? add("Sub", {floats(rows), floats(rows_of(zero->reshaped(column)))}) : floats(rows);
      return add("Mul", {numbers, rows_of(scale.reshaped(column))});
    }
    // One scale for all, or one per column, which is the last axis of the rows too.
    const Shape shape = scale.elements() == 1 ? Shape{} : scale.shape();
    std::vector<ValueId> inputs{rows, graph_.add_constant(scale.reshaped(shape))};
    if (zero) inputs.push_back(graph_.add_constant(zero->reshaped(shape)));
    return add("DequantizeLinear", std::move(inputs), {{"axis", std::int64_t{-1}}});
  }

  ir::Graph graph_;
  const std::int64_t small_bytes_;
  Tensor table_;       // as stored
  ir::Node widening_;  // Cast or DequantizeLinear
  std::vector<ir::Node> steps_;
  ValueId indices_;
};

}  // namespace

ir::Graph look_up_stored_rows(ir::Graph graph, const PassContext& context) {
  return RowLookupMover(std::move(graph), context.machine.near_cache_bytes).run();
}

}  // namespace tessera::passes
