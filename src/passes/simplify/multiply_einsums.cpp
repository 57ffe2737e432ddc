// Replaces an Einsum of operands of known sizes by sums, products of matrices and transposes, for which devices have
// fast kernels. Multiplies two operands at a time, first those whose product is smallest.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "ops/products/einsum.h"
#include "passes/pass.h"
#include "passes/rewriter.h"
#include "passes/simplify/decompose_composites.h"

namespace tessera::passes {
namespace {

// The indices of an equation: letters by their codes, followed by dimensions of an ellipsis, counted from the last.
using Indices = std::vector<std::int64_t>;
constexpr std::int64_t kEllipsis = 128;

bool holds(const Indices& indices, std::int64_t index) {
  return std::ranges::find(indices, index) != indices.end();
}

// The most elements of an intermediate value, in multiples of the largest of the operands and the result.
constexpr std::int64_t kMostBetween = 4;
constexpr std::size_t kMostOperands = 16;

// A value and the index of each of its axes. Axes of one element are left out.
struct Factor {
  ops::Term value;
  Indices indices;
};

class EinsumProduct {
 public:
  EinsumProduct(ops::GraphBuilder& builder, const ops::EinsumEquation& equation, std::vector<Shape> shapes)
      : builder_(builder),
        equation_(equation),
        shapes_(std::move(shapes)),
        sizes_(ops::einsum_sizes(equation, shapes_)) {}

  // Nothing where a size is zero, or where intermediate values of more than two operands would be far larger than the
  // operands and the result.
  std::optional<ir::ValueId> build(std::span<const ir::ValueId> inputs) {
    const Shape shape = ops::einsum_output_shape(equation_, sizes_);
    const Indices result_indices = indices_of(equation_.output, shape);
    std::vector<Factor> factors;
    std::int64_t largest = element_count(shape);
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      if (element_count(shapes_[i]) == 0) return {};
      largest = std::max(largest, element_count(shapes_[i]));
      const Indices indices = indices_of(equation_.inputs[i], shapes_[i]);
      const ops::Term x(builder_, inputs[i]);
      factors.push_back(diagonal({indices.size() == shapes_[i].size() ? x : reshaped(x, dims_of(indices)), indices}));
    }
    while (factors.size() > 1) {
      const auto [first, second] = smallest_pair(factors, result_indices);
      const Factor a = factors[first], b = factors[second];
      factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(second));
      factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(first));
      output_ = factors.empty() ? result_indices : kept_of(a, b, factors, result_indices);
      if (!factors.empty() && elements_of(output_) / kMostBetween > largest) return {};
      factors.push_back(product(without_own(a, b.indices), without_own(b, a.indices)));
    }
    output_ = result_indices;
    const Factor result = in_order(without_own(factors[0], {}), output_);
    return (output_.size() == shape.size() ? result.value : reshaped(result.value, shape)).id();
  }

 private:
  Indices indices_of(const std::string& term, const Shape& shape) const {
    Indices all;
    for (const char c : term) {
      if (c != '.') {
        all.push_back(c);
        continue;
      }
      const std::size_t hidden = shape.size() + 1 - term.size();
      for (std::size_t k = 0; k < hidden; ++k) all.push_back(kEllipsis + static_cast<std::int64_t>(hidden - 1 - k));
    }
    Indices indices;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (shape[i] != 1) indices.push_back(all[i]);
    }
    return indices;
  }

  std::int64_t size_of(std::int64_t index) const {
    if (index < kEllipsis) return sizes_.letter[static_cast<std::size_t>(index)];
    return sizes_.ellipsis[sizes_.ellipsis.size() - 1 - static_cast<std::size_t>(index - kEllipsis)];
  }

  Shape dims_of(const Indices& indices) const {
    Shape shape;
    for (const std::int64_t index : indices) shape.push_back(size_of(index));
    return shape;
  }

  static ops::Term reshaped(ops::Term x, const Shape& shape) {
    return x.combine("Reshape", {x.integers({shape.begin(), shape.end()})});
  }

  // The diagonal of an index that runs over two adjacent axes: the elements at which both positions agree, taken as one
  // axis with a stride.
  Factor diagonal(Factor factor) const {
    for (std::size_t i = 0; i < factor.indices.size();) {
      const std::int64_t index = factor.indices[i];
      if (std::ranges::count(factor.indices, index) == 1) {
        ++i;
        continue;
      }
      const std::int64_t size = size_of(index);
      Indices rest;
      std::vector<std::int64_t> order, twice;
      for (std::size_t k = 0; k < factor.indices.size(); ++k) {
        const bool is_taken = factor.indices[k] == index && twice.size() < 2;
        (is_taken ? twice : order).push_back(static_cast<std::int64_t>(k));
        if (!is_taken) rest.push_back(factor.indices[k]);
      }
      const auto axis = static_cast<std::int64_t>(rest.size());
      order.insert(order.end(), twice.begin(), twice.end());
      Shape joined = dims_of(rest);
      joined.push_back(size * size);
      const ops::Term x = reshaped(factor.value.combine("Transpose", {}, {{"perm", order}}), joined);
      rest.push_back(index);
      factor = {
          x.combine("Slice", {x.integers({0}), x.integers({size * size}), x.integers({axis}), x.integers({size + 1})}),
          rest};
      i = 0;
    }
    return factor;
  }

  // The indices that the product of two of several operands must keep: those of other operands and of the result.
  static Indices kept_of(const Factor& a, const Factor& b, const std::vector<Factor>& others, const Indices& result) {
    const auto is_needed = [&](std::int64_t index) {
      return holds(result, index) ||
             std::ranges::any_of(others, [&](const Factor& other) { return holds(other.indices, index); });
    };
    Indices kept;
    for (const Factor* factor : {&a, &b}) {
      for (const std::int64_t index : factor->indices) {
        if (is_needed(index) && !holds(kept, index)) kept.push_back(index);
      }
    }
    return kept;
  }

  // The two factors whose product has the fewest elements.
  std::pair<std::size_t, std::size_t> smallest_pair(const std::vector<Factor>& factors, const Indices& result) const {
    std::pair<std::size_t, std::size_t> best{0, 1};
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; factors.size() > 2 && i < factors.size(); ++i) {
      for (std::size_t k = i + 1; k < factors.size(); ++k) {
        std::vector<Factor> others = factors;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(k));
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        const std::int64_t elements = elements_of(kept_of(factors[i], factors[k], others, result));
        if (elements < fewest) best = {i, k}, fewest = elements;
      }
    }
    return best;
  }

  // Saturates: the indices of different operands together may have more elements than any tensor.
  std::int64_t elements_of(const Indices& indices) const {
    double elements = 1;
    for (const std::int64_t index : indices) elements *= static_cast<double>(size_of(index));
    return elements < 0x1p62 ? static_cast<std::int64_t>(elements) : std::numeric_limits<std::int64_t>::max();
  }

  // The factor summed over the indices that neither the other operand nor the result has.
  Factor without_own(Factor factor, const Indices& other) const {
    Indices kept;
    std::vector<std::int64_t> summed;
    for (std::size_t i = 0; i < factor.indices.size(); ++i) {
      const std::int64_t index = factor.indices[i];
      if (holds(other, index) || holds(output_, index)) kept.push_back(index);
      else summed.push_back(static_cast<std::int64_t>(i));
    }
    if (summed.empty()) return factor;
    return {factor.value.combine("ReduceSum", {factor.value.integers(summed)}, {{"keepdims", std::int64_t{0}}}), kept};
  }

  static Factor in_order(const Factor& factor, const Indices& order) {
    if (factor.indices == order) return factor;
    std::vector<std::int64_t> places;
    for (const std::int64_t index : order) {
      const auto at = std::ranges::find(factor.indices, index);
      places.push_back(at - factor.indices.begin());
    }
    return {factor.value.combine("Transpose", {}, {{"perm", places}}), order};
  }

  // The factor with its axes in the order of the result, and axes of one element for missing indices.
  ops::Term spread(const Factor& factor) const {
    Indices own;
    Shape shape;
    for (const std::int64_t index : output_) {
      const bool has = holds(factor.indices, index);
      if (has) own.push_back(index);
      shape.push_back(has ? size_of(index) : 1);
    }
    const ops::Term value = in_order(factor, own).value;
    return own.size() == output_.size() ? value : reshaped(value, shape);
  }

  // The factor as a batch of matrices, whose rows and columns each merge their indices into one axis.
  ops::Term matrices(const Factor& factor, const Indices& batch, const Indices& rows, const Indices& columns) const {
    Indices order = batch;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    const ops::Term value = in_order(factor, order).value;
    if (rows.size() == 1 && columns.size() == 1) return value;
    Shape shape = dims_of(batch);
    shape.push_back(element_count(dims_of(rows)));
    shape.push_back(element_count(dims_of(columns)));
    return reshaped(value, shape);
  }

  Factor product(const Factor& a, const Factor& b) const {
    Indices batch, of_a, of_b, summed;
    for (const std::int64_t index : output_) {
      const bool in_a = holds(a.indices, index);
      (in_a && holds(b.indices, index) ? batch : in_a ? of_a : of_b).push_back(index);
    }
    for (const std::int64_t index : a.indices) {
      if (!holds(output_, index)) summed.push_back(index);
    }
    if (summed.empty()) return {spread(a).combine("Mul", {spread(b)}), output_};
    // Puts the result's last index last in the product, if possible.
    if (!of_a.empty() && output_.back() == of_a.back()) return multiplied(b, a, batch, of_b, of_a, summed);
    return multiplied(a, b, batch, of_a, of_b, summed);
  }

  Factor multiplied(const Factor& a, const Factor& b, const Indices& batch, const Indices& rows, const Indices& columns,
                    const Indices& summed) const {
    const ops::Term value = matrices(a, batch, rows, summed).combine("MatMul", {matrices(b, batch, summed, columns)});
    Indices indices = batch;
    indices.insert(indices.end(), rows.begin(), rows.end());
    indices.insert(indices.end(), columns.begin(), columns.end());
    if (rows.size() == 1 && columns.size() == 1) return {value, indices};
    return {reshaped(value, dims_of(indices)), indices};
  }

  ops::GraphBuilder& builder_;
  const ops::EinsumEquation& equation_;
  std::vector<Shape> shapes_;
  ops::EinsumSizes sizes_;
  Indices output_;
};

constexpr ops::TypeSet kMultiplied{DType::f16, DType::f32, DType::f64, DType::i32, DType::i64, DType::u32, DType::u64};

std::optional<ir::ValueId> product_of(ops::GraphBuilder& builder, const ir::Node& node) {
  if (node.inputs.size() > kMostOperands || !kMultiplied.contains(builder.dtype(node.inputs[0]))) return {};
  std::vector<Shape> shapes;
  for (const ir::ValueId input : node.inputs) {
    const std::optional<Shape> shape = builder.type(input).shape();
    if (!shape) return {};
    shapes.push_back(*shape);
  }
  const ops::AttributeReader attributes(node, ops::op_of(node));
  const ops::EinsumEquation equation = ops::parse_einsum(attributes.text("equation"), shapes.size());
  return EinsumProduct(builder, equation, std::move(shapes)).build(node.inputs);
}

}  // namespace

ir::Graph multiply_einsums(ir::Graph graph, const PassContext& context) {
  rewrite_each(graph, [&](ir::NodeId id) {
    if (graph.node(id).op != "Einsum") return false;
    context.note_weighing();
    ops::infer_node_in_place(graph, id);
    const ir::Node node = graph.node(id);
    if (context.keeps_composite && context.keeps_composite(graph, node)) return false;
    ops::GraphBuilder builder(graph);
    builder.set_name_prefix(node.name.empty() ? "" : node.name + "/");
    const auto result = if_legal([&] { return product_of(builder, node); }).value_or(std::nullopt);
    return result && carry_results(graph, id, {{*result}});
  });
  return graph;
}

}  // namespace tessera::passes
