// Merges constants with the same bytes, unless one is a weight and the other is known not to be one, and nodes that
// compute the same: equal operator, attributes and inputs (in any order where the order does not matter). Random nodes
// and nodes with subgraphs stay.
#include <algorithm>
#include <bit>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "ir/constant_role.h"
#include "ir/equal.h"
#include "ops/op_table.h"
#include "passes/pass.h"
#include "passes/replacements.h"

namespace tessera::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

std::size_t combined(std::size_t seed, std::size_t hash) {
  return seed ^ (hash + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2));
}

std::size_t hash_of_bytes(const Tensor& tensor, std::size_t begin, std::size_t end) {
  return std::hash<std::string_view>()({static_cast<const char*>(tensor.raw()) + begin, end - begin});
}

std::size_t hash_of_storage(const Tensor& tensor) {
  return std::hash<const void*>()(tensor.storage());
}

// A hash of type, shape and the bytes at both ends: different weights nearly always differ there, so that the pages of
// their files need not be read.
std::size_t quick_hash(const Tensor& tensor) {
  constexpr std::size_t kSample = 256;
  const auto bytes = static_cast<std::size_t>(tensor.bytes());
  std::size_t hash = combined(static_cast<std::size_t>(tensor.dtype()), bytes);
  for (const std::int64_t size : tensor.shape()) hash = combined(hash, static_cast<std::size_t>(size));
  hash = combined(hash, hash_of_bytes(tensor, 0, std::min(kSample, bytes)));
  return combined(hash, hash_of_bytes(tensor, bytes - std::min(kSample, bytes), bytes));
}

class DuplicateMerger {
 public:
  explicit DuplicateMerger(ir::Graph graph) : graph_(std::move(graph)), replacements_(graph_) {}

  ir::Graph run() {
    merge_constants();
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) merge_node(id);
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  // --- constants
  // A deferred constant is only equal to others of the same storage; comparing more would compute its elements.
  void merge_constants() {
    std::unordered_map<std::size_t, std::vector<ValueId>> alike;
    for (std::size_t i = 0; i < graph_.value_count(); ++i) {
      const ValueId id{static_cast<std::int32_t>(i)};
      const Tensor* constant = graph_.constant(id);
      const bool has_bytes = constant != nullptr && constant->has_data() && constant->dtype() != DType::string;
      if (has_bytes) alike[constant->is_deferred() ? hash_of_storage(*constant) : quick_hash(*constant)].push_back(id);
    }
    for (const auto& [hash, group] : alike) {
      if (group.size() > 1) merge_alike(group);
    }
  }

  void merge_alike(const std::vector<ValueId>& group) {
    std::unordered_map<std::size_t, std::vector<ValueId>> kept;  // by the hash of all bytes
    for (const ValueId id : group) {
      const Tensor& constant = *graph_.constant(id);
      const bool deferred = constant.is_deferred();
      std::vector<ValueId>& candidates =
          kept[deferred ? hash_of_storage(constant)
                        : hash_of_bytes(constant, 0, static_cast<std::size_t>(constant.bytes()))];
      const auto same = std::ranges::find_if(candidates, [&](ValueId other) {
        const Tensor& held = *graph_.constant(other);
        return held.dtype() == constant.dtype() && held.shape() == constant.shape() && is_as_trainable(id, other) &&
               (held.shares_storage_with(constant) || (!deferred && !held.is_deferred() && identical(held, constant)));
      });
      if (same == candidates.end() || !replacements_.replace(id, *same)) candidates.push_back(id);
    }
  }

  // A weight and a constant that is not one stay separate: training would change both.
  bool is_as_trainable(ValueId a, ValueId b) const {
    if (!is_float(graph_.constant(a)->dtype()) || !ir::has_roles(graph_)) return true;
    const auto is_weight = [&](ValueId id) {
      const ir::ConstantRole role = ir::role_of(graph_, id);
      return role == ir::ConstantRole::unmarked || role == ir::ConstantRole::parameter;
    };
    return is_weight(a) == is_weight(b);
  }

  // --- nodes
  static std::size_t hash_of(const ir::Node& node) {
    std::size_t hash = std::hash<std::string>()(node.op);
    for (const ValueId input : node.inputs) hash = combined(hash, static_cast<std::size_t>(input.index));
    for (const auto& [name, attribute] : node.attributes)
      hash = combined(combined(hash, std::hash<std::string>()(name)), hash_of(attribute));
    return hash;
  }
  // The hash of numbers and texts; other attributes are only compared.
  static std::size_t hash_of(const ir::Attribute& attribute) {
    if (const auto* integer = std::get_if<std::int64_t>(&attribute)) return static_cast<std::size_t>(*integer);
    if (const auto* real = std::get_if<float>(&attribute)) return std::bit_cast<std::uint32_t>(*real);
    if (const auto* text = std::get_if<std::string>(&attribute)) return std::hash<std::string>()(*text);
    std::size_t hash = attribute.index();
    if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute)) {
      for (const std::int64_t each : *integers) hash = combined(hash, static_cast<std::size_t>(each));
    } else if (const auto* reals = std::get_if<std::vector<float>>(&attribute)) {
      for (const float each : *reals) hash = combined(hash, std::bit_cast<std::uint32_t>(each));
    } else if (const auto* tensor = std::get_if<Tensor>(&attribute);
               tensor != nullptr && tensor->has_data() && tensor->dtype() != DType::string) {
      hash = combined(hash, quick_hash(*tensor));
    }
    return hash;
  }

  void merge_node(NodeId id) {
    ir::Node& node = graph_.node(id);
    replacements_.apply_to(node);
    if (node.inputs.empty() || !ops::op_of(node).deterministic || !ir::subgraphs_of(node).empty()) return;
    ir::Node key = normalised(node);
    std::vector<NodeId>& candidates = nodes_[hash_of(key)];
    for (const NodeId candidate : candidates) {
      const ir::Node other = normalised(graph_.node(candidate));
      if (other.op != key.op || other.inputs != key.inputs || !give_alike(id, candidate) ||
          !ir::equal_attributes(other.attributes, key.attributes))
        continue;
      return merge(id, candidate);
    }
    candidates.push_back(id);
  }

  // A canonical form of the node's computation: without attributes that have their default, inputs in order where their
  // order has no effect.
  static ir::Node normalised(const ir::Node& node) {
    ir::Node key{node.op, "", node.inputs, {}, node.attributes, 0};
    for (const ops::AttributeSpec& spec : ops::op_of(node).attributes) {
      const auto given = key.attributes.find(spec.name);
      if (given == key.attributes.end() || !spec.default_value) continue;
      if (ir::equal_attributes({{given->first, given->second}}, {{given->first, *spec.default_value}}))
        key.attributes.erase(given);
    }
    while (!key.inputs.empty() && !key.inputs.back().valid()) key.inputs.pop_back();
    if (ops::op_of(node).has(ops::Trait::commutative)) std::ranges::sort(key.inputs);
    return key;
  }

  // The number of outputs of a Split, for example, is part of what it computes.
  bool give_alike(NodeId a, NodeId b) const {
    const auto& outputs = ops::op_of(graph_.node(a)).outputs;
    const bool any_number = !outputs.empty() && outputs.back().option == ops::variadic;
    return !any_number || graph_.node(a).outputs.size() == graph_.node(b).outputs.size();
  }

  // Replaces uses of the node's outputs by those of the first node. A result of the graph keeps its name: it becomes a
  // copy of the first node's, unless a copy would cost as much as the node or the node has several outputs.
  void merge(NodeId id, NodeId first) {
    const std::vector<ValueId> outputs = graph_.node(id).outputs;
    if (std::ranges::any_of(outputs,
                            [&](ValueId output) { return output.valid() && replacements_.is_result(output); })) {
      const bool is_cheap = ops::op_of(graph_.node(id)).view || graph_.node(id).op == "Identity";
      if (is_cheap || outputs.size() != 1) return;
      return graph_.replace_node(
          id, ir::Node{"Identity", graph_.node(id).name, {graph_.node(first).outputs[0]}, outputs, {}, 0});
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].valid()) continue;
      const std::vector<ValueId>& given = graph_.node(first).outputs;
      if (i >= given.size() || !given[i].valid()) {
        graph_.want_output(first, i);
        graph_.value(graph_.node(first).outputs[i]).type = graph_.value(outputs[i]).type;
      }
      replacements_.replace(outputs[i], graph_.node(first).outputs[i]);
    }
  }

  ir::Graph graph_;
  Replacements replacements_;
  std::unordered_map<std::size_t, std::vector<NodeId>> nodes_;
};

}  // namespace

ir::Graph merge_duplicates(ir::Graph graph, const PassContext&) {
  return DuplicateMerger(std::move(graph)).run();
}

}  // namespace tessera::passes
