// Arithmetic with f16 and bf16 becomes arithmetic with f32, where the device has no kernels for halves: operands are
// cast once, results stay f32 from node to node, and only what leaves as a half is rounded to one. Casts that mixed
// precision put around a normalisation or a softmax go with it. Where the user asks for bf16, recurrent layers and
// attention of bf16 stay that the device has kernels for, as lower_precision makes them.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/bf16_kernel.h"
#include "passes/replacements.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

bool is_half(DType type) {
  return type == DType::f16 || type == DType::bf16;
}

// Attributes that say an element type: what is written with them is meant.
constexpr std::array<std::string_view, 6> kTypeAttributes{"to",        "dtype",     "output_dtype", "output_datatype",
                                                          "precision", "precisions"};
// Whose shape or integers depend on how halves are rounded within stay as they are.
constexpr std::array<std::string_view, 3> kLeft{"Range", "OneHot", "QuantizeLinear"};

// Operators that copy elements do so in 16 bits as well, unless the elements are wide already; so does the pooling of
// bf16 that lower_precision makes.
bool stays_half(const ops::OpDef& op) {
  return op.has(ops::Trait::moves) || op.name == "tessera::ChannelsLastMaxPool";
}

template <std::size_t n>
bool is_among(std::string_view name, const std::array<std::string_view, n>& list) {
  return std::ranges::find(list, name) != list.end();
}

class Widener {
 public:
  Widener(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), context_(context), builder_(graph_) {}

  ir::Graph run() {
    if (!context_.computes_float16_in_float32) return std::move(graph_);
    const auto rule = [&](NodeId id) {
      if (graph_.node(id).op == "Cast") cast(id);
      else if (can_be_wide(graph_.node(id))) widen(id);
      return std::exchange(changed_, false);
    };
    if (!rewrite_each(graph_, rule)) return std::move(graph_);
    return fold_constants(remove_no_ops(std::move(graph_), context_), context_);  // weights are cast once
  }

 private:
  DType dtype(ValueId value) const { return value.valid() ? graph_.value(value).type.dtype : DType::undefined; }

  // The model's own casts end or begin what is wide.
  void cast(NodeId id) {
    const ir::Node node = graph_.node(id);
    const ValueId from = node.inputs[0], to = node.outputs[0];
    if (!to.valid()) return;
    if (dtype(from) == DType::f32 && is_half(dtype(to))) {
      wide_.emplace(to, from);
      unrounded_.insert(to);
    } else if (is_half(dtype(from)) && dtype(to) == DType::f32) {
      const auto [known, is_new] = wide_.try_emplace(from, to);
      // A value that the model itself rounded is read as it was rounded.
      if (!is_new && rounded_.contains(from)) put_operator(graph_, id, "Identity", {known->second});
    }
  }

  bool stays_rounded(const ir::Node& node) const {
    if (context_.precision != DType::bf16 || (!is_recurrent(node) && !is_attention(node))) return false;
    const std::span operands = std::span(node.inputs).first(std::min(kAttentionOperands, node.inputs.size()));
    return std::ranges::all_of(operands, [&](ValueId operand) { return dtype(operand) == DType::bf16; }) &&
           has_bf16_kernel(graph_, node, context_);
  }

  bool can_be_wide(const ir::Node& node) const {
    const ops::OpDef& op = ops::op_of(node);
    if (stays_rounded(node) || op.has(ops::Trait::keeps_storage)) return false;
    if (!op.deterministic || !ir::subgraphs_of(node).empty() || is_among(node.op, kLeft)) return false;
    if (std::ranges::any_of(node.attributes,
                            [](const auto& attribute) { return is_among(attribute.first, kTypeAttributes); }))
      return false;
    // Statistics in halves.
    const auto stash = node.attributes.find("stash_type");
    if (stash != node.attributes.end() &&
        std::get<std::int64_t>(stash->second) != static_cast<std::int64_t>(DType::f32))
      return false;
    const auto takes = [](const std::vector<ops::Parameter>& parameters, std::size_t i) {
      return parameters[std::min(i, parameters.size() - 1)].types.contains(DType::f32);
    };
    bool any = false, any_wide = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_half(dtype(node.inputs[i]))) continue;
      if (!takes(op.inputs, i)) return false;
      any = true;
      any_wide = any_wide || wide_.contains(node.inputs[i]);
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid() && (!graph_.value(node.outputs[i]).type.is_tensor() ||
                                      (is_half(dtype(node.outputs[i])) && !takes(op.outputs, i))))
        return false;
    }
    return any && (any_wide || !stays_half(op));
  }

  ValueId wide(ValueId half) {
    const auto [known, is_new] = wide_.try_emplace(half);
    if (is_new) known->second = builder_.cast(half, DType::f32);
    return known->second;
  }

  // With the rounding to a half that may be left out elsewhere.
  ValueId exact(ValueId half) {
    if (!unrounded_.contains(half)) return wide(half);
    const auto [known, is_new] = exact_.try_emplace(half);
    if (is_new) known->second = builder_.cast(half, DType::f32);
    return known->second;
  }

  void widen(NodeId id) {
    ir::Node node = graph_.node(id);
    const bool jumps = has_trait(node, ops::Trait::discontinuous);  // between neighbouring numbers
    for (ValueId& input : node.inputs) {
      if (is_half(dtype(input))) input = jumps ? exact(input) : wide(input);
    }
    std::vector<std::pair<ValueId, ValueId>> halves;  // and what they are rounded from
    for (ValueId& output : node.outputs) {
      if (!is_half(dtype(output))) continue;
      ir::ValueType type = graph_.value(output).type;
      type.dtype = DType::f32;
      const ValueId result = graph_.add_value(graph_.fresh_name("value"), std::move(type));
      halves.emplace_back(output, result);
      wide_.emplace(output, result);
      rounded_.insert(output);
      unrounded_.insert(output);
      output = result;
    }
    graph_.replace_node(id, std::move(node));
    for (const auto& [half, result] : halves) {
      graph_.add_node(
          {"Cast", "", {result}, {half}, {{"to", static_cast<std::int64_t>(graph_.value(half).type.dtype)}}, 0});
    }
    changed_ = true;
  }

  ir::Graph graph_;
  const PassContext& context_;
  ops::GraphBuilder builder_;
  std::map<ValueId, ValueId> wide_, exact_;  // by half
  std::set<ValueId> unrounded_;              // halves that are read wider than they are
  std::set<ValueId> rounded_;                // halves that nodes here give
  bool changed_ = false;
};

}  // namespace

ir::Graph compute_float16_in_float32(ir::Graph graph, const PassContext& context) {
  return Widener(std::move(graph), context).run();
}

}  // namespace tessera::passes
