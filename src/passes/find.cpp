#include "passes/find.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/half.h"
#include "ops/core/shape_arguments.h"
#include "ops/op_table.h"
#include "ops/rows/reduction.h"
#include "passes/rewriter.h"

namespace tessera::passes {

const ir::Node* producer_of(const ir::Graph& graph, ir::ValueId value, std::string_view op) {
  if (!value.valid() || graph.value(value).origin != ir::Origin::node) return nullptr;
  const ir::Node& node = graph.node(graph.value(value).producer);
  return node.op == op ? &node : nullptr;
}

ir::ValueId source_of(const ir::Graph& graph, ir::ValueId value) {
  while (value.valid()) {
    const ir::Node* identity = producer_of(graph, value, "Identity");
    if (identity == nullptr) break;
    value = identity->inputs[0];
  }
  return value;
}

bool has_trait(const ir::Node& node, ops::Trait trait) {
  return ops::op_of(node).has(trait);
}

std::int64_t integer_of(const ir::Node& node, const std::string& attribute, std::int64_t otherwise) {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? otherwise : std::get<std::int64_t>(found->second);
}

const ir::Dims* dims_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::ValueType& type = graph.value(value).type;
  return type.is_tensor() && type.dims ? &*type.dims : nullptr;
}

std::optional<double> number_of(const ir::Graph& graph, ir::ValueId value) {
  const Tensor* constant = graph.constant(value);
  return constant != nullptr && constant->dtype() == DType::f32 ? scalar_of(graph, value) : std::nullopt;
}

bool is_result(const ir::Graph& graph, ir::ValueId value) {
  const auto& variables = graph.variables();
  return graph.is_output(value) || std::any_of(variables.begin(), variables.end(),
                                               [&](const ir::Variable& variable) { return variable.update == value; });
}

std::vector<std::int64_t> permutation_of(const ir::Node& transpose, std::size_t rank) {
  if (const auto found = transpose.attributes.find("perm"); found != transpose.attributes.end())
    return std::get<std::vector<std::int64_t>>(found->second);
  std::vector<std::int64_t> reversed(rank);
  for (std::size_t i = 0; i < rank; ++i) reversed[i] = static_cast<std::int64_t>(rank - 1 - i);
  return reversed;
}

std::optional<ir::ValueId> transposed_in_batches(const ir::Graph& graph, ir::ValueId value) {
  const ir::Node* last = producer_of(graph, value, "Reshape");
  const ir::Node* transpose = last == nullptr ? nullptr : producer_of(graph, last->inputs[0], "Transpose");
  const ir::Node* first = transpose == nullptr ? nullptr : producer_of(graph, transpose->inputs[0], "Reshape");
  if (first == nullptr) return std::nullopt;
  const ir::Dims *from = dims_of(graph, first->inputs[0]), *between = dims_of(graph, first->outputs[0]),
                 *to = dims_of(graph, value);
  if (from == nullptr || between == nullptr || to == nullptr || from->size() != 4 || between->size() != 3 ||
      to->size() != 4)
    return std::nullopt;
  const bool swaps = permutation_of(*transpose, 3) == std::vector<std::int64_t>{0, 2, 1};
  const auto same = [&](std::size_t a, std::size_t b) { return (*from)[a].surely_equals((*to)[b]); };
  const bool kept = (*from)[2].surely_equals((*between)[1]) && (*from)[3].surely_equals((*between)[2]);
  return swaps && kept && same(0, 0) && same(1, 1) && same(2, 3) && same(3, 2) ? std::optional(first->inputs[0])
                                                                               : std::nullopt;
}

std::optional<double> scalar_of(const ir::Graph& graph, ir::ValueId value) {
  const Tensor* constant = graph.constant(value);
  if (constant == nullptr || !constant->has_data() || constant->elements() != 1) return std::nullopt;
  switch (constant->dtype()) {
    case DType::f32:
      return *constant->data<float>();
    case DType::f64:
      return *constant->data<double>();
    case DType::f16:
      return base::to_float(*constant->data<f16_t>());
    case DType::bf16:
      return base::to_float(*constant->data<bf16_t>());
    case DType::i32:
      return *constant->data<std::int32_t>();
    case DType::i64:
      return static_cast<double>(*constant->data<std::int64_t>());
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<std::int64_t>> reduced_axes(const ir::Graph& graph, const ir::Node& reduce) {
  const ir::Dims* dims = dims_of(graph, reduce.inputs[0]);
  const bool given = reduce.inputs.size() > 1 && reduce.inputs[1].valid();
  const Tensor* axes = given ? graph.constant(reduce.inputs[1]) : nullptr;
  if (dims == nullptr || (given && (axes == nullptr || (!axes->has_data() && axes->elements() > 0))))
    return std::nullopt;
  const bool noop = ops::AttributeReader(reduce, ops::op_of(reduce)).integer("noop_with_empty_axes") != 0;
  return if_legal([&] {
    return ops::reduction_axes(axes == nullptr ? std::span<const std::int64_t>() : axes->values<std::int64_t>(),
                               static_cast<std::int64_t>(dims->size()), noop);
  });
}

bool is_closed(const ir::Graph& graph, const std::vector<std::vector<ir::NodeId>>& uses,
               const std::vector<ir::NodeId>& nodes, ir::NodeId last) {
  const auto inside = [&](ir::NodeId id) { return id == last || std::ranges::find(nodes, id) != nodes.end(); };
  return std::ranges::all_of(nodes, [&](ir::NodeId id) {
    return id == last || std::ranges::all_of(graph.node(id).outputs, [&](ir::ValueId output) {
             if (!output.valid()) return true;
             const auto index = static_cast<std::size_t>(output.index);
             return index < uses.size() && !is_result(graph, output) && std::ranges::all_of(uses[index], inside);
           });
  });
}

bool surely_equal(const ir::Dims& a, const ir::Dims& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const ir::Dim& x, const ir::Dim& y) { return x.surely_equals(y); });
}

bool same_dims(const ir::Graph& graph, ir::ValueId a, ir::ValueId b) {
  const ir::Dims *x = dims_of(graph, a), *y = dims_of(graph, b);
  return x != nullptr && y != nullptr && surely_equal(*x, *y);
}

bool is_shape_of(const ir::Graph& graph, ir::ValueId shape, ir::ValueId x) {
  const ir::Node* node = producer_of(graph, shape, "Shape");
  return node != nullptr && node->inputs[0] == x && !node->attributes.contains("start") &&
         !node->attributes.contains("end");
}

bool is_statistic(const ir::Graph& graph, ir::ValueId value, ir::ValueId x, const std::vector<std::int64_t>& axes) {
  const ir::Dims *own = dims_of(graph, value), *dims = dims_of(graph, x);
  return own != nullptr && dims != nullptr && surely_equal(*own, ops::reduced_dims(*dims, axes, true));
}

bool normalises_rows(const ir::Graph& graph, const ir::Node& node) {
  const ir::Dims* dims = dims_of(graph, node.inputs[0]);
  if (dims == nullptr || !node.outputs[0].valid() || graph.value(node.inputs[0]).type.dtype != DType::f32 ||
      graph.value(node.outputs[0]).type.dtype != DType::f32)
    return false;
  if (std::any_of(node.outputs.begin() + 1, node.outputs.end(), [](ir::ValueId output) { return output.valid(); }))
    return false;
  const bool by_constants = std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ir::ValueId input) {
    const Tensor* constant = graph.constant(input);
    return constant != nullptr && constant->shape().size() == 1 && dims->back().surely_equals(constant->shape()[0]);
  });
  const auto axis = node.attributes.find("axis"), stash = node.attributes.find("stash_type");
  const std::int64_t at = axis == node.attributes.end() ? -1 : std::get<std::int64_t>(axis->second);
  return by_constants && (at == -1 || at + 1 == static_cast<std::int64_t>(dims->size())) &&
         (stash == node.attributes.end() || std::get<std::int64_t>(stash->second) == 1);
}

namespace {

template <typename T>
bool all_are(const Tensor& tensor, double number) {
  const std::span<const T> values = tensor.values<T>();
  return std::ranges::all_of(values, [&](T value) {
    if constexpr (std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>) return base::to_float(value) == number;
    else return static_cast<double>(value) == number;
  });
}

}  // namespace

bool is_filled_with(const ir::Graph& graph, ir::ValueId value, double number) {
  const Tensor* constant = graph.constant(value);
  if (constant == nullptr || !constant->has_data() || constant->elements() == 0) return false;
  switch (constant->dtype()) {
    case DType::f32:
      return all_are<float>(*constant, number);
    case DType::f64:
      return all_are<double>(*constant, number);
    case DType::f16:
      return all_are<f16_t>(*constant, number);
    case DType::bf16:
      return all_are<bf16_t>(*constant, number);
    case DType::i32:
      return all_are<std::int32_t>(*constant, number);
    case DType::i64:
      return all_are<std::int64_t>(*constant, number);
    default:
      return false;
  }
}

}  // namespace tessera::passes
