// Replaces a product of one-hot rows with a constant matrix, as JAX and TensorFlow export embeddings, by a Gather of
// the matrix's rows. An index outside of the matrix selects a row of zeros: indices are clamped to rows of zeros that
// are appended to the matrix.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/core/infer.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr double kLargestDepth = 0x1p31;  // rows of any matrix that fits memory
// Tables that are indexed from both ends contain their rows twice.
constexpr std::int64_t kLargestDoubleTable = std::int64_t{1} << 20;  // bytes

struct OneHot {
  ValueId indices;  // the shape of the rows without their last axis, or with 1 for it
  bool has_last_axis;
  bool counts_from_end;  // -1 is the last row
  std::int64_t size;
};

class Replacer {
 public:
  Replacer(ir::Graph graph, const PassContext& context) : graph_(std::move(graph)), context_(context) {}

  ir::Graph run() {
    rewrite_each(graph_, [&](NodeId id) { return graph_.node(id).op == "MatMul" && replace(id); });
    return std::move(graph_);
  }

 private:
  // Replaces the MatMul if its left operand consists of one-hot rows; returns whether it did.
  bool replace(NodeId id) {
    const ir::Node node = graph_.node(id);
    const Tensor* matrix = graph_.constant(node.inputs[1]);
    if (matrix == nullptr || matrix->dtype() != DType::f32 || matrix->rank() != 2 || !matrix->has_data()) return false;
    const std::optional<OneHot> rows = one_hot(node.inputs[0]);
    if (!rows || rows->size != matrix->shape()[0] || rows->size == 0) return false;
    context_.note_weighing();
    // Products of zero and infinity are not zero, so all weights must be finite.
    if (!std::ranges::all_of(matrix->values<float>(), [](float number) { return std::isfinite(number); })) return false;
    if (rows->counts_from_end && matrix->bytes() > kLargestDoubleTable) return false;

    ValueId indices = rows->indices;
    const DType dtype = graph_.value(indices).type.dtype;
    if (rows->has_last_axis)
      indices = add("Squeeze", {indices, graph_.add_constant(Tensor::from<std::int64_t>({1}, {-1}))});
    // From the end, the first index outside of the table selects the row behind the zeros of indices from the start.
    indices = add("Max", {indices, scalar(dtype, rows->counts_from_end ? -rows->size - 1 : -1)});
    indices = add("Min", {indices, scalar(dtype, rows->size)});
    put_operator(graph_, id, "Gather", {graph_.add_constant(table(*matrix, rows->counts_from_end)), indices},
                 {{"axis", std::int64_t{0}}});
    return true;
  }

  // The rows, a row of zeros for indices after the last one, one for indices before the first one, and the rows again
  // if indices also count from the end.
  static Tensor table(const Tensor& matrix, bool twice) {
    const std::int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
    Tensor result(DType::f32, {(twice ? 2 * rows : rows) + 2, columns});
    auto* to = result.mutable_data<float>();
    std::fill_n(to, result.elements(), 0.0f);
    std::copy_n(matrix.data<float>(), rows * columns, to);
    if (twice) std::copy_n(matrix.data<float>(), rows * columns, to + (rows + 2) * columns);
    return result;
  }

  std::optional<OneHot> one_hot(ValueId value) const {
    if (const ir::Node* node = producer_of(graph_, value, "OneHot")) return of_operator(*node);
    const ir::Node* cast = producer_of(graph_, value, "Cast");
    const ir::Node* equal = cast == nullptr ? nullptr : producer_of(graph_, cast->inputs[0], "Equal");
    if (equal == nullptr || graph_.value(value).type.dtype != DType::f32) return std::nullopt;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::optional<std::int64_t> size = count_of(equal->inputs[1 - i]);
      const ir::Dims* dims = dims_of(graph_, equal->inputs[i]);
      if (!size || dims == nullptr || dims->size() < graph_.constant(equal->inputs[1 - i])->shape().size() ||
          !dims->back().surely_equals(1))
        continue;
      if (is_index(equal->inputs[i])) return OneHot{equal->inputs[i], true, false, *size};
    }
    return std::nullopt;
  }

  // A OneHot operator along the last axis with zeros and ones.
  std::optional<OneHot> of_operator(const ir::Node& node) const {
    const auto axis = node.attributes.find("axis");
    const ir::Dims* dims = dims_of(graph_, node.inputs[0]);
    if (dims == nullptr || !is_index(node.inputs[0])) return std::nullopt;
    if (axis != node.attributes.end() && std::get<std::int64_t>(axis->second) != -1 &&
        std::get<std::int64_t>(axis->second) != static_cast<std::int64_t>(dims->size()))
      return std::nullopt;
    const std::optional<double> depth = scalar_of(graph_, node.inputs[1]);
    const Tensor* values = graph_.constant(node.inputs[2]);
    if (!depth || !(*depth >= 1 && *depth <= kLargestDepth)) return std::nullopt;  // no number neither
    if (values == nullptr || !values->has_data() || values->dtype() != DType::f32 || values->elements() != 2 ||
        values->values<float>()[0] != 0 || values->values<float>()[1] != 1)
      return std::nullopt;
    return OneHot{node.inputs[0], false, true, static_cast<std::int64_t>(*depth)};
  }

  bool is_index(ValueId value) const {
    const DType dtype = graph_.value(value).type.dtype;
    return dtype == DType::i32 || dtype == DType::i64;
  }

  // The length n of a constant 0, 1, … n - 1 along its last axis.
  std::optional<std::int64_t> count_of(ValueId value) const {
    const Tensor* constant = graph_.constant(value);
    if (constant == nullptr || !constant->has_data() || constant->rank() == 0 ||
        constant->shape().back() != constant->elements())
      return std::nullopt;
    const auto counts = [](const auto& numbers) {
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] != static_cast<std::remove_cvref_t<decltype(numbers[i])>>(i)) return false;
      }
      return true;
    };
    const bool fits = constant->dtype() == DType::i32
                          ? counts(constant->values<std::int32_t>())
                          : constant->dtype() == DType::i64 && counts(constant->values<std::int64_t>());
    return fits ? std::optional(constant->elements()) : std::nullopt;
  }

  ValueId scalar(DType dtype, std::int64_t number) {
    return graph_.add_constant(dtype == DType::i32 ? Tensor::scalar(static_cast<std::int32_t>(number))
                                                   : Tensor::scalar(number));
  }
  ValueId add(std::string op, std::vector<ValueId> inputs) {
    const ValueId result = graph_.add_op(std::move(op), std::move(inputs));
    ops::infer_node_in_place(graph_, graph_.value(result).producer);
    return result;
  }

  ir::Graph graph_;
  const PassContext& context_;
};

}  // namespace

ir::Graph look_up_one_hot(ir::Graph graph, const PassContext& context) {
  return Replacer(std::move(graph), context).run();
}

}  // namespace tessera::passes
