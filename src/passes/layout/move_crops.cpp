// Moves crops towards the inputs: where only part of a result is used, only that part, and the data that it needs, is
// computed. A crop is a Slice with positive steps or a Gather of constant indices; several crops of one value move as
// their common bounding box. A move is made only if the nodes concerned become no slower by the cost model
// (cost/machine.h).
#include <algorithm>
#include <set>

#include "ops/core/node_operands.h"
#include "ops/core/shape_arguments.h"
#include "ops/op_table.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/patterns/crop_rules.h"
#include "passes/rewriter.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

class CropMover {
 public:
  CropMover(ir::Graph graph, const PassContext& context)
      : graph_(std::move(graph)), builder_(graph_), context_(context) {
    for (const std::vector<NodeId>& users : graph_.compute_uses()) uses_.emplace_back(users.begin(), users.end());
  }

  ir::Graph run() {
    // Visits in reverse order: all crops of a value have moved there before the value's node is visited.
    const auto rule = [&](NodeId id) {
      move(id);
      return std::exchange(moved_, false);
    };
    if (!rewrite_each(graph_, rule, Visit::backwards)) return std::move(graph_);
    return fold_constants(remove_no_ops(std::move(graph_), context_), context_);  // weights may be cropped now
  }

 private:
  struct User {
    NodeId node;
    Crop crop;
    std::vector<std::int64_t> indices = {};  // of a Gather, counted from the start

    bool takes_all_of(const Crop& other) const {
      return indices.empty() && std::ranges::equal(crop, other, [](const auto& a, const auto& b) {
               return a.first == b.first && a.second.start == b.second.start && a.second.count == b.second.count &&
                      a.second.step == b.second.step;
             });
    }
  };

  std::set<NodeId>& uses(ValueId value) {
    if (uses_.size() <= static_cast<std::size_t>(value.index)) uses_.resize(static_cast<std::size_t>(value.index) + 1);
    return uses_[static_cast<std::size_t>(value.index)];
  }

  // The crop that a Slice takes of a value with these dimensions; nothing where bounds are not constant.
  std::optional<Crop> slice_crop(const ir::Node& node, const ir::Dims& dims) const {
    const std::optional<ops::SliceRequest> request = slice_request_of(graph_, node);
    if (!request) return std::nullopt;
    Crop crop;
    for (std::size_t i = 0; i < request->axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(request->axes[i]);
      if (!dims[axis].is_known()) return std::nullopt;
      const ops::SliceRange range =
          ops::slice_range(dims[axis].value(), request->starts[i], request->ends[i], request->steps[i]);
      if (range.step < 1 || range.count < 1) return std::nullopt;
      if (range.count < dims[axis].value()) crop.emplace(axis, range);
    }
    return crop;
  }

  // The bounding box of the elements that a Gather takes.
  std::optional<User> gather_user(NodeId id, const ir::Dims& dims) const {
    const ir::Node& node = graph_.node(id);
    std::optional<std::vector<std::int64_t>> indices = constant_integers(graph_, node, 1);
    const auto axis = static_cast<std::size_t>(ops::normalise_axis(
        ops::AttributeReader(node, ops::op_of(node)).integer("axis"), static_cast<std::int64_t>(dims.size())));
    if (!indices || indices->empty() || !dims[axis].is_known()) return std::nullopt;
    const std::int64_t size = dims[axis].value();
    for (std::int64_t& index : *indices) index += index < 0 ? size : 0;
    const auto [low, high] = std::ranges::minmax(*indices);
    if (low < 0 || high >= size) return std::nullopt;
    return User{id, high - low + 1 < size ? Crop{{axis, {low, 1, high - low + 1}}} : Crop{}, std::move(*indices)};
  }

  std::optional<User> slice_user(NodeId id, const ir::Dims& dims) const {
    const std::optional<Crop> crop = slice_crop(graph_.node(id), dims);
    return crop ? std::optional(User{id, *crop}) : std::nullopt;
  }

  // The users of a value, if each of them takes a crop of it.
  std::optional<std::vector<User>> croppers(ValueId value, const ir::Dims& dims) {
    std::vector<User> users;
    for (const NodeId id : uses(value)) {
      const ir::Node& node = graph_.node(id);
      if ((node.op != "Slice" && node.op != "Gather") || node.inputs[0] != value ||
          std::ranges::count(node.inputs, value) != 1 || !node.outputs[0].valid())
        return std::nullopt;
      std::optional<User> user = node.op == "Slice" ? slice_user(id, dims) : gather_user(id, dims);
      if (!user) return std::nullopt;
      users.push_back(std::move(*user));
    }
    return users;
  }

  // The smallest box that contains all crops; a single crop keeps its steps.
  static Crop common_crop(const std::vector<User>& users) {
    Crop common = users[0].crop;
    if (users.size() == 1) return common;
    std::erase_if(common, [&](const auto& each) {
      return std::ranges::any_of(users, [&](const User& user) { return !user.crop.contains(each.first); });
    });
    for (auto& [axis, range] : common) {
      std::int64_t low = range.start, high = low;
      for (const User& user : users) {
        const ops::SliceRange& own = user.crop.at(axis);
        low = std::min(low, own.start);
        high = std::max(high, own.start + (own.count - 1) * own.step + 1);
      }
      range = {low, 1, high - low};
    }
    return common;
  }

  // The cost of a node as bytes from memory that take equally long; a symbolic dimension counts as 1.
  double cost(NodeId id) const {
    const ir::Node& node = graph_.node(id);
    const ops::NodeOperands operands(graph_, node, [&](ValueId value) {
      ops::TensorType type;
      if (dims_of(graph_, value) == nullptr) return type;
      type.dtype = graph_.value(value).type.dtype;
      for (const ir::Dim& dim : *dims_of(graph_, value)) type.shape.push_back(dim.is_known() ? dim.value() : 1);
      return type;
    });
    return context_.machine.bytes_from_memory(ops::cost_of(operands.view(node)));
  }

  bool is_folded(NodeId id) const {
    return !context_.leaves_out("fold_constants") && std::ranges::all_of(graph_.node(id).inputs, [&](ValueId input) {
      return !input.valid() || graph_.is_constant(input);
    });
  }

  // Whether the added nodes cost no more than the node and the users that they replace.
  bool pays(NodeId id, const std::vector<User>& users, const Crop& crop, const std::vector<NodeId>& added) const {
    double before = cost(id), after = 0;
    for (const User& user : users) {
      before += cost(user.node);
      if (!user.takes_all_of(crop)) after += cost(user.node);
    }
    for (const NodeId each : added) after += is_folded(each) ? 0 : cost(each);
    return after <= before;
  }

  void move(NodeId id) {
    const ir::Node node = graph_.node(id);
    if (node.outputs.size() != 1 || !node.outputs[0].valid() || !ir::subgraphs_of(node).empty() ||
        is_result(graph_, node.outputs[0]))
      return;
    const ValueId result = node.outputs[0];
    if (dims_of(graph_, result) == nullptr || uses(result).empty()) return;
    const ir::Dims dims = *dims_of(graph_, result);
    const std::optional<std::vector<User>> users = croppers(result, dims);
    if (!users) return;
    Crop crop = common_crop(*users);
    std::erase_if(crop, [&](const auto& each) { return each.second.count == dims[each.first].value(); });
    if (crop.empty()) return;

    const std::size_t before = graph_.order().size();
    std::optional<ValueId> cropped = cropped_result(builder_, node, crop);
    const std::vector<NodeId> added(graph_.order().begin() + static_cast<std::ptrdiff_t>(before), graph_.order().end());
    if (cropped) context_.note_weighing();
    if (!cropped || !pays(id, *users, crop, added)) {
      for (auto each = added.rbegin(); each != added.rend(); ++each) graph_.remove_node(*each);
      return;
    }
    for (const NodeId each : added) note_inputs(each);
    NodeId replaced;
    if (!added.empty() && graph_.node(added.back()).outputs[0] == *cropped)
      replaced = replace_a_user(*users, crop, added.back());
    if (replaced.valid()) cropped = graph_.node(added.back()).outputs[0];
    for (const User& user : *users) {
      if (user.node != replaced) take(user, *cropped, crop);
    }
    for (const ValueId input : node.inputs) {
      if (input.valid()) uses(input).erase(id);
    }
    graph_.remove_node(id);
    moved_ = true;
  }

  void note_inputs(NodeId id) {
    for (const ValueId input : graph_.node(id).inputs) {
      if (input.valid()) uses(input).insert(id);
    }
  }

  // Removes a Slice that takes exactly the crop: the node that computes the crop produces its value, which keeps its
  // name. Returns the Slice, if there is one.
  NodeId replace_a_user(const std::vector<User>& users, const Crop& crop, NodeId maker) {
    const auto user = std::ranges::find_if(users, [&](const User& each) { return each.takes_all_of(crop); });
    if (user == users.end()) return {};
    ir::Node node = graph_.node(maker);
    node.outputs = graph_.node(user->node).outputs;
    graph_.remove_node(user->node);
    graph_.replace_node(maker, std::move(node));
    return user->node;
  }

  // Makes the user read the cropped value instead of the whole one. Equal values under two names are merged later.
  void take(const User& user, ValueId value, const Crop& crop) {
    ir::Node node = graph_.node(user.node);
    if (user.indices.empty()) {
      Crop rest;
      for (auto [axis, range] : user.crop) {
        const auto outer = crop.find(axis);
        if (outer != crop.end() && outer->second.step == range.step && outer->second.count == range.count) continue;
        if (outer != crop.end()) range.start -= outer->second.start;
        rest.emplace(axis, range);
      }
      if (rest.empty()) node = {"Identity", node.name, {value}, node.outputs, {}, 0};
      else node.inputs = slice_inputs(builder_, value, rest);
    } else {
      Tensor indices(DType::i64, graph_.constant(node.inputs[1])->shape());
      std::ranges::transform(user.indices, indices.mutable_data<std::int64_t>(),
                             [&](std::int64_t index) { return index - crop.begin()->second.start; });
      node.inputs = {value, builder_.constant(std::move(indices))};
    }
    graph_.replace_node(user.node, std::move(node));
    note_inputs(user.node);
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  const PassContext& context_;
  std::vector<std::set<NodeId>> uses_;  // by value
  bool moved_ = false;
};

}  // namespace

ir::Graph move_crops(ir::Graph graph, const PassContext& context) {
  return CropMover(std::move(graph), context).run();
}

}  // namespace tessera::passes
