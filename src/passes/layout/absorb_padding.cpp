// Folds Pad into the padding of the convolution or pooling behind it: where Pad adds zeros before a convolution or an
// average, and before MaxPool where it adds the lowest value, which never is the maximum.
#include <algorithm>
#include <limits>
#include <optional>

#include "base/error.h"
#include "ops/core/shape_arguments.h"
#include "ops/movement/pad.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;
using Integers = std::vector<std::int64_t>;

// Padding of spatial axes in the order of the attribute: all beginnings, then all ends.
struct Padding {
  ValueId data;
  Integers amounts;
  double value = 0;
};

// The lowest value of the element type.
double lowest(DType type) {
  if (type == DType::u8) return 0;
  return type == DType::i8 ? -128 : -std::numeric_limits<double>::infinity();
}

class Absorber {
 public:
  explicit Absorber(ir::Graph graph) : graph_(std::move(graph)), uses_(graph_.compute_uses()) {}

  ir::Graph run() {
    rewrite_each(graph_, [&](NodeId id) {
      const std::string& op = graph_.node(id).op;
      if (op != "Conv" && op != "AveragePool" && op != "MaxPool") return false;
      const std::optional<Padding> padding = padded(graph_.node(id).inputs[0]);
      return padding && absorb(id, *padding);
    });
    return std::move(graph_);
  }

 private:
  std::optional<Padding> padded(ValueId value) const {
    const ir::Node* pad = producer_of(graph_, value, "Pad");
    if (pad == nullptr || is_result(graph_, value) || uses_[static_cast<std::size_t>(value.index)].size() != 1)
      return std::nullopt;
    const ir::Dims* dims = dims_of(graph_, pad->inputs[0]);
    const bool has_value = pad->inputs.size() > 2 && pad->inputs[2].valid(),
               has_axes = pad->inputs.size() > 3 && pad->inputs[3].valid();
    const Tensor *pads = graph_.constant(pad->inputs[1]), *axes = has_axes ? graph_.constant(pad->inputs[3]) : nullptr;
    const std::optional<double> number = has_value ? number_in(pad->inputs[2]) : std::optional(0.0);
    if (dims == nullptr || dims->size() < 3 || pads == nullptr || !pads->has_data() ||
        (has_axes && (axes == nullptr || !axes->has_data())) || !number)
      return std::nullopt;
    const auto found = if_legal([&]() -> std::optional<Padding> {
      if (ops::pad_mode(ops::AttributeReader(*pad, ops::op_of(*pad))) != ops::PadMode::constant) return std::nullopt;
      const auto chosen = axes == nullptr ? std::optional<Integers>() : std::optional(ops::integers_of(*axes));
      const ops::PadAmounts all =
          ops::pad_amounts(pads->values<std::int64_t>(), chosen, static_cast<std::int64_t>(dims->size()));
      for (std::size_t i = 0; i < dims->size(); ++i) {
        if (i < 2 ? all.begin[i] != 0 || all.end[i] != 0 : all.begin[i] < 0 || all.end[i] < 0) return std::nullopt;
      }
      Padding padding{pad->inputs[0], Integers(all.begin.begin() + 2, all.begin.end()), *number};
      padding.amounts.insert(padding.amounts.end(), all.end.begin() + 2, all.end.end());
      return padding;
    });
    return found.value_or(std::nullopt);
  }
  std::optional<double> number_in(ValueId value) const {
    const Tensor* constant = graph_.constant(value);
    if (constant == nullptr || !constant->has_data() || constant->elements() != 1) return std::nullopt;
    if (constant->dtype() == DType::u8) return *constant->data<std::uint8_t>();
    if (constant->dtype() == DType::i8) return *constant->data<std::int8_t>();
    return scalar_of(graph_, value);
  }

  bool absorb(NodeId id, const Padding& padding) {
    ir::Node node = graph_.node(id);
    const ops::AttributeReader reader(node, ops::op_of(node));
    const std::string& automatic = reader.text("auto_pad");
    const Integers own = reader.integers_or_empty("pads"), kernel = reader.integers_or_empty("kernel_shape");
    if ((automatic != "NOTSET" && automatic != "VALID") || (!own.empty() && own.size() != padding.amounts.size()))
      return false;
    Integers sum = padding.amounts;
    for (std::size_t i = 0; i < sum.size() && automatic == "NOTSET" && !own.empty(); ++i) sum[i] += own[i];
    const bool has_own = sum != padding.amounts;
    if (node.op == "Conv" ? padding.value != 0 : !fits_pooling(reader, padding, kernel, sum, has_own)) return false;
    if (node.op == "AveragePool") node.attributes.insert_or_assign("count_include_pad", std::int64_t{1});
    node.attributes.erase("auto_pad");
    node.attributes.insert_or_assign("pads", std::move(sum));
    node.inputs[0] = padding.data;
    graph_.replace_node(id, std::move(node));
    return true;
  }

  bool fits_pooling(const ops::AttributeReader& reader, const Padding& padding, const Integers& kernel,
                    const Integers& sum, bool has_own) const {
    const ir::Node& node = reader.node();
    const Integers dilations = reader.integers_or_empty("dilations");
    if (kernel.size() * 2 != sum.size() || reader.integer("ceil_mode") != 0) return false;
    // Every window must contain an element that is not padding.
    for (std::size_t i = 0; i < sum.size(); ++i) {
      if (sum[i] >= kernel[i % kernel.size()]) return false;
    }
    if (std::ranges::any_of(dilations, [](std::int64_t dilation) { return dilation != 1; })) return false;
    if (node.op == "AveragePool") return padding.value == 0 && (!has_own || reader.integer("count_include_pad") != 0);
    const bool wants_indices = node.outputs.size() > 1 && node.outputs[1].valid();
    return !wants_indices && is_at_least(padding.data, padding.value);
  }

  // Whether all elements of the value are at least the number.
  bool is_at_least(ValueId value, double number) const {
    if (number <= lowest(graph_.value(value).type.dtype)) return true;
    if (number > 0 || graph_.value(value).origin != ir::Origin::node) return false;
    const ir::Node& node = graph_.node(graph_.value(value).producer);
    if (has_trait(node, ops::Trait::non_negative)) return true;
    const std::optional<double> bound = node.op == "Clip" && node.inputs.size() > 1 && node.inputs[1].valid()
                                            ? scalar_of(graph_, node.inputs[1])
                                            : std::nullopt;
    return bound && *bound >= number &&
           (node.inputs.size() < 3 || !node.inputs[2].valid() ||
            scalar_of(graph_, node.inputs[2]).value_or(number - 1) >= number);
  }

  ir::Graph graph_;
  std::vector<std::vector<NodeId>> uses_;
};

}  // namespace

ir::Graph absorb_padding(ir::Graph graph, const PassContext&) {
  return Absorber(std::move(graph)).run();
}

}  // namespace tessera::passes
