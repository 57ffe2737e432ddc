// Lowers layers to bfloat16 where the user asked for that precision. Convolutions and products with a matrix of weights
// round their data and weights to it (ops/products/rounded_product.h) and accumulate in float32; weights may be
// variables, which are rounded in each run. A result that only such layers read, possibly behind movements, is stored
// in bfloat16: layers that multiply it read the same numbers from half the memory, and for layers that add it the lower
// precision was asked for. Depthwise convolutions are bound by memory and gain only where their data is stored in
// bfloat16 anyway. Attention between such layers reads and writes bfloat16, multiplies it, and rounds the weights by
// which it multiplies values. LSTM and GRU become the same layers on bfloat16: the kernel rounds the operands of
// products and the results, and keeps sums, gates and the states of a run in float32. A value that several layers would
// round is rounded once. Everything else stays unchanged.
#include <algorithm>
#include <map>
#include <set>

#include "ops/core/builder.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/bf16_kernel.h"
#include "passes/patterns/deferred_constants.h"
#include "passes/patterns/linear_form.h"
#include "tessera/dtype.h"

namespace tessera::passes {
namespace {

bool is_layer(const ir::Node& node) {
  return node.op == "tessera::ChannelsLastConv" || node.op == "tessera::Linear";
}
// Whether the node returns elements of its data unchanged and has kernels for bfloat16.
bool moves(const ir::Node& node) {
  return ops::op_of(node).view || node.op == "tessera::ChannelsLastMaxPool" || node.op == "Concat" ||
         node.op == "Transpose";
}

// The inputs of a movement or of attention that carry data.
std::span<const ir::ValueId> data_of(const ir::Node& node) {
  const std::size_t count = node.op == "Concat" ? node.inputs.size() : is_attention(node) ? kAttentionOperands : 1;
  return std::span(node.inputs).first(std::min(count, node.inputs.size()));
}

bool is_rounded(const ir::Node& node) {
  return is_layer(node) && node.attributes.contains("precision");
}

std::int64_t groups_of(const ir::Node& node) {
  const auto group = node.attributes.find("group");
  return group == node.attributes.end() ? 1 : std::get<std::int64_t>(group->second);
}

// Whether groups are wide enough: kernels for groups compute many outputs of one group at once.
bool has_wide_groups(const ir::Graph& graph, const ir::Node& node) {
  constexpr std::int64_t kFewOutputs = 8;
  const std::optional<Shape> weights = graph.value(node.inputs[1]).type.shape();
  const std::int64_t groups = groups_of(node);
  if (!weights || weights->empty() || groups < 1) return false;
  return groups == 1 || (*weights)[0] / groups >= kFewOutputs;
}

bool is_depthwise(const ir::Graph& graph, const ir::Node& node) {
  const Tensor* weights = node.op == "tessera::ChannelsLastConv" ? graph.constant(node.inputs[1]) : nullptr;
  return weights != nullptr && weights->shape().size() > 1 && weights->shape()[1] == 1 &&
         weights->shape()[0] == groups_of(node);
}

class Rounder {
 public:
  Rounder(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), context_(context), order_(graph_.order()), uses_(graph_.compute_uses()) {}

  ir::Graph run() && {
    for (const ir::NodeId id : order_) {
      ir::Node layer = as_linear(graph_, graph_.node(id)).value_or(graph_.node(id));
      if (is_layer(layer) && has_wide_groups(graph_, layer)) round(id, std::move(layer));
      else if (is_recurrent(layer) && is_float(layer) && !carries_sums(layer) &&
               has_bf16_kernel(graph_, layer, context_))
        recurrent_.insert(id);
    }
    for (const ir::NodeId id : order_) {
      if (can_attend(graph_.node(id))) attends_.insert(id);
    }
    std::vector<bool> stored = stored_rounded(true);
    for (const ir::NodeId id : order_) {
      const ir::Node& node = graph_.node(id);
      if (is_layer(node) && !is_rounded(node) && is_depthwise(graph_, node) && stored[index(node.inputs[0])])
        round(id, node);
    }
    stored = stored_rounded(false);
    for (const ir::NodeId id : order_) {
      ir::Node& node = graph_.node(id);
      if (!result_of(node).valid() || !stored[index(node.outputs[0])]) continue;
      if (is_rounded(node)) node.attributes.insert_or_assign("output_dtype", static_cast<std::int64_t>(DType::bf16));
      graph_.value(node.outputs[0]).type.dtype = DType::bf16;
    }
    for (const ir::NodeId id : recurrent_) round_recurrent(id);
    for (std::size_t i = 0; i < uses_.size(); ++i) round_once(ir::ValueId{static_cast<std::int32_t>(i)});
    graph_.sort_topologically();
    if (!recurrent_.empty()) graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  void round(ir::NodeId id, ir::Node layer) {
    if (graph_.value(layer.inputs[1]).type.dtype != DType::f32) return;
    layer.attributes.insert_or_assign("precision", std::string("bf16"));
    if (context_.keeps_composite(graph_, layer)) graph_.replace_node(id, std::move(layer));
  }

  // Whether the device has a kernel for this attention with operands and result in bfloat16.
  bool can_attend(const ir::Node& node) const {
    return is_attention(node) &&
           std::ranges::all_of(
               data_of(node),
               [&](ir::ValueId value) { return value.valid() && graph_.value(value).type.dtype == DType::f32; }) &&
           has_bf16_kernel(graph_, node, context_);
  }

  // Rounds a float32 value that several layers read as data only once.
  void round_once(ir::ValueId value) {
    const ir::ValueType& type = graph_.value(value).type;
    if (type.dtype != DType::f32 || !type.is_tensor() || !type.shape().has_value() || graph_.constant(value) != nullptr)
      return;
    std::vector<ir::NodeId> layers;
    for (const ir::NodeId user : uses_[index(value)]) {
      const ir::Node& node = graph_.node(user);
      if (node.op == "Cast" && result_of(node).valid() && graph_.value(node.outputs[0]).type.dtype == DType::bf16)
        rounded_.try_emplace(value, node.outputs[0]);
      if (is_rounded(node) && !is_depthwise(graph_, node) && std::ranges::count(node.inputs, value) == 1 &&
          node.inputs[0] == value)
        layers.push_back(user);
    }
    if (layers.size() + rounded_.count(value) < 2) return;
    for (const ir::NodeId layer : layers) graph_.node(layer).inputs[0] = rounded(value);
  }

  // Whether a state that accumulates over the steps of a run is an input and an output: the cell of an LSTM, the hidden
  // state of a GRU. Rounded between runs of few steps, it would not change any more.
  bool carries_sums(const ir::Node& node) const {
    const std::size_t initial = node.op == "LSTM" ? 6 : 5, last = node.op == "LSTM" ? 2 : 1;
    const auto is_used = [&](ir::ValueId value) {
      return value.valid() && (!uses_[index(value)].empty() || is_result(graph_, value));
    };
    return node.inputs.size() > initial && node.inputs[initial].valid() && !graph_.is_constant(node.inputs[initial]) &&
           node.outputs.size() > last && is_used(node.outputs[last]);
  }

  bool is_float(const ir::Node& node) const {
    return !node.inputs.empty() && node.inputs[0].valid() && graph_.value(node.inputs[0]).type.dtype == DType::f32;
  }

  // Replaces a float32 layer by one of bfloat16, whose results are widened unless they are stored in bfloat16.
  void round_recurrent(ir::NodeId id) {
    ir::Node node = graph_.node(id);
    for (ir::ValueId& input : node.inputs) {
      if (input.valid()) input = rounded(input);
    }
    std::vector<ir::Node> casts;
    for (ir::ValueId& output : node.outputs) {
      if (!output.valid() || graph_.value(output).type.dtype == DType::bf16) continue;
      const ir::ValueId wide = output;
      output = {};
      if (uses_[index(wide)].empty() && !is_result(graph_, wide)) continue;
      ir::ValueType type = graph_.value(wide).type;
      type.dtype = DType::bf16;
      output = graph_.add_value(graph_.fresh_name("value"), std::move(type));
      casts.push_back({"Cast", "", {output}, {wide}, {{"to", static_cast<std::int64_t>(DType::f32)}}, 0});
    }
    graph_.replace_node(id, std::move(node));
    for (ir::Node& cast : casts) graph_.add_node(std::move(cast));
  }

  // The value in bfloat16: itself, a constant or a Cast.
  ir::ValueId rounded(ir::ValueId value) {
    if (graph_.value(value).type.dtype != DType::f32) return value;
    const auto [known, is_new] = rounded_.try_emplace(value);
    if (!is_new) return known->second;
    const Tensor* constant = graph_.constant(value);
    return known->second = constant != nullptr ? graph_.add_constant(rounded_to_bf16(*constant))
                                               : ops::GraphBuilder(graph_).cast(value, DType::bf16);
  }

  static ir::ValueId result_of(const ir::Node& node) { return node.outputs.empty() ? ir::ValueId{} : node.outputs[0]; }
  static std::size_t index(ir::ValueId value) { return static_cast<std::size_t>(value.index); }
  bool rounds(const ir::Node& node, bool depthwise) const {
    return is_rounded(node) || (depthwise && is_layer(node) && is_depthwise(graph_, node));
  }

  // Whether the node's result has the storage type of its data.
  bool passes_on(ir::NodeId id) const { return moves(graph_.node(id)) || attends_.contains(id); }

  // The values, possibly behind movements, that rounding layers compute and that only rounding layers read: as data, or
  // as addend of a convolution. `depthwise`: count depthwise layers too, which would then round.
  std::vector<bool> stored_rounded(bool depthwise) const {
    std::vector<bool> stored(graph_.value_count());
    for (const ir::NodeId id : order_) {
      const ir::Node& node = graph_.node(id);
      const bool candidate = rounds(node, depthwise) || recurrent_.contains(id) || passes_on(id);
      if (candidate && result_of(node).valid() && !is_result(graph_, node.outputs[0]) &&
          !uses_[index(node.outputs[0])].empty())
        stored[index(node.outputs[0])] = true;
    }
    const auto takes = [&](ir::NodeId id, ir::ValueId value) {
      if (recurrent_.contains(id)) return true;
      const ir::Node& user = graph_.node(id);
      if (attends_.contains(id) &&
          std::find(user.inputs.begin() + kAttentionOperands, user.inputs.end(), value) != user.inputs.end())
        return false;
      if (passes_on(id)) return result_of(user).valid() && stored[index(user.outputs[0])];
      if (!rounds(user, depthwise)) return false;
      const std::size_t addend = user.op == "tessera::ChannelsLastConv" ? 3 : 0;
      for (std::size_t i = 0; i < user.inputs.size(); ++i) {
        if (user.inputs[i] == value && i != 0 && i != addend) return false;
      }
      return true;
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (const ir::NodeId id : order_) {
        const ir::Node& node = graph_.node(id);
        const ir::ValueId value = result_of(node);
        if (!value.valid() || !stored[index(value)]) continue;
        const std::vector<ir::NodeId>& users = uses_[index(value)];
        const bool read = std::ranges::all_of(users, [&](ir::NodeId user) { return takes(user, value); });
        const bool made = !passes_on(id) ||
                          std::ranges::all_of(data_of(node), [&](ir::ValueId input) { return stored[index(input)]; });
        if (read && made) continue;
        stored[index(value)] = false;
        changed = true;
      }
    }
    return stored;
  }

  ir::Graph graph_;
  const PassContext& context_;
  std::vector<ir::NodeId> order_;
  std::vector<std::vector<ir::NodeId>> uses_;
  std::set<ir::NodeId> attends_;    // attention that may become bfloat16
  std::set<ir::NodeId> recurrent_;  // layers that become bfloat16
  std::map<ir::ValueId, ir::ValueId> rounded_;
};

}  // namespace

ir::Graph lower_precision(ir::Graph graph, const PassContext& context) {
  if (context.precision != DType::bf16 || !context.keeps_composite) return graph;
  context.note_weighing();
  return Rounder(std::move(graph), context).run();
}

}  // namespace tessera::passes
