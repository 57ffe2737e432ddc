#include "report/inspect/value_pairs.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "ops/element_wise/fused_activation.h"
#include "ops/op_table.h"

namespace tessera::report {
namespace {

// Suffixes that quantisers append to the name of a value; those of dequantised values come first.
constexpr std::array<std::string_view, 9> kSuffixes = {
    "_DequantizeLinear_Output", "_DequantizeLinear", "_dequantized",    "_dequantize",
    "_QuantizeLinear_Output",   "_quantized",        "_QuantizeLinear", "_quantize",
    "_QuantizeLinear_Input"};

// Operators with a quantised result, and the index of the input that is its scale; the zero point is the next input.
struct QuantisingOperator {
  std::string_view op;
  std::size_t scale;
};
constexpr std::array<QuantisingOperator, 14> kQuantising = {{{"QuantizeLinear", 1},
                                                             {"QLinearConv", 6},
                                                             {"QLinearMatMul", 6},
                                                             {"com.microsoft::QuantizeLinear", 1},
                                                             {"com.microsoft::QLinearConv", 6},
                                                             {"com.microsoft::QLinearAdd", 6},
                                                             {"com.microsoft::QLinearMul", 6},
                                                             {"com.microsoft::QGemm", 7},
                                                             {"com.microsoft::QLinearConcat", 0},
                                                             {"com.microsoft::QLinearLeakyRelu", 3},
                                                             {"com.microsoft::QLinearSigmoid", 3},
                                                             {"com.microsoft::QLinearSoftmax", 3},
                                                             {"com.microsoft::QLinearAveragePool", 3},
                                                             {"com.microsoft::QLinearGlobalAveragePool", 3}}};
// The most operators that move elements between a value and its producer; readable models do not have more.
constexpr int kMostMoves = 64;

bool is_activation(const ir::Node& node) {
  return node.op == "PRelu" || ops::find_activation_form(node.op) != nullptr;
}

// The values of a model by name, with their producers and readers.
class Values {
 public:
  explicit Values(const ir::Graph& graph) : graph_(graph), uses_(graph.compute_uses()) {
    for (const ir::NodeId node : graph.order()) {
      for (const ir::ValueId output : graph.node(node).outputs) {
        if (output.valid()) values_.emplace(graph.value(output).name, output);
      }
    }
  }

  const ir::Graph& graph() const { return graph_; }
  std::optional<ir::ValueId> find(const std::string& name) const {
    const auto found = values_.find(name);
    return found != values_.end() ? std::optional(found->second) : std::nullopt;
  }
  const std::string& name(ir::ValueId id) const { return graph_.value(id).name; }
  const ir::Node* maker(ir::ValueId id) const {
    return graph_.value(id).producer.valid() ? &graph_.node(graph_.value(id).producer) : nullptr;
  }

  bool is_quantised(ir::ValueId id) const { return quantisation_of(graph_, id).has_value(); }
  // The value that the readers of `id` get: its rounded form, if all of them read that.
  ir::ValueId rounded(ir::ValueId id) const {
    ir::ValueId quantised = is_quantised(id) ? id : ir::ValueId{};
    if (!quantised.valid()) quantised = sole_output(id, "QuantizeLinear");
    if (!quantised.valid()) return id;
    const ir::ValueId real = sole_output(quantised, "DequantizeLinear");
    return real.valid() ? real : quantised;
  }
  // The result of the activation that is the only reader of the value; invalid if there is none.
  ir::ValueId activated(ir::ValueId id) const {
    const auto& readers = uses_[static_cast<std::size_t>(id.index)];
    if (readers.size() != 1 || graph_.is_output(id)) return {};
    const ir::Node& node = graph_.node(readers[0]);
    return is_activation(node) && !node.inputs.empty() && node.inputs[0] == id ? node.outputs[0] : ir::ValueId{};
  }
  // Whether the node that makes the value ends with an activation.
  bool ends_with_activation(ir::ValueId id) const {
    const ir::Node* node = maker(id);
    if (node == nullptr) return false;
    const auto found = node->attributes.find("activation");
    const std::string* activation =
        found != node->attributes.end() ? std::get_if<std::string>(&found->second) : nullptr;
    return activation != nullptr && !activation->empty() && *activation != "none";
  }
  PairedValue paired(ir::ValueId id) const { return {name(id), is_quantised(id)}; }

 private:
  // The output of the first reader, if all readers apply that operator to the value; else invalid.
  ir::ValueId sole_output(ir::ValueId id, std::string_view op) const {
    const auto& readers = uses_[static_cast<std::size_t>(id.index)];
    const bool all = !readers.empty() && std::ranges::all_of(readers, [&](ir::NodeId reader) {
      return graph_.node(reader).op == op && graph_.node(reader).inputs[0] == id;
    });
    return all ? graph_.node(readers[0]).outputs[0] : ir::ValueId{};
  }

  const ir::Graph& graph_;
  const std::vector<std::vector<ir::NodeId>> uses_;
  std::map<std::string, ir::ValueId, std::less<>> values_;
};

// The other model's value of that name, with or without a suffix.
std::optional<ir::ValueId> counterpart(const std::string& name, const Values& other) {
  if (const auto same = other.find(name)) return same;
  for (const std::string_view suffix : kSuffixes) {
    if (const auto found = other.find(name + std::string(suffix))) return found;
  }
  for (const std::string_view suffix : kSuffixes) {
    if (!name.ends_with(suffix)) continue;
    if (const auto found = other.find(name.substr(0, name.size() - suffix.size()))) return found;
  }
  return std::nullopt;
}

class Pairing {
 public:
  Pairing(const ir::Graph& a, const ir::Graph& b) : a_(a), b_(b) {}

  ValuePairs run() {
    for (const ir::NodeId node : a_.graph().order()) {
      for (const ir::ValueId value : a_.graph().node(node).outputs) {
        if (value.valid()) pair(value);
      }
    }
    return std::move(result_);
  }

 private:
  void pair(ir::ValueId a) {
    const auto found = counterpart(a_.name(a), b_);
    if (!found) return pair_after_activation(a);
    // The name belongs to the value before the activation in one model, and after it in the other; the pair is made
    // when the activation's result is visited.
    if (is_before_fused(a_, a, b_, *found)) return;
    if (is_before_fused(b_, *found, a_, a)) return add(a, b_.activated(*found));
    add(a, *found);
  }

  // Handles the result of an activation without a counterpart: it is paired with the other model's value of the name
  // before the activation, if that includes the activation.
  void pair_after_activation(ir::ValueId a) {
    const ir::Node* node = a_.maker(a);
    if (node == nullptr || !is_activation(*node) || node->inputs.empty() || a_.activated(node->inputs[0]) != a) return;
    const auto found = counterpart(a_.name(node->inputs[0]), b_);
    if (found && is_before_fused(a_, node->inputs[0], b_, *found)) add(a, *found);
  }

  // Whether an activation is the only reader of `value`, and its result is missing in the other model because `twin`
  // includes the activation.
  static bool is_before_fused(const Values& own, ir::ValueId value, const Values& other, ir::ValueId twin) {
    const ir::ValueId after = own.activated(value);
    if (!after.valid() || counterpart(own.name(after), other) || other.activated(twin).valid()) return false;
    const bool rounds = other.rounded(twin) != twin || other.is_quantised(twin);
    return other.ends_with_activation(twin) || (rounds && !own.ends_with_activation(value));
  }

  void add(ir::ValueId a, ir::ValueId b) {
    const bool a_rounds = a_.rounded(a) != a || is_dequantised(a_, a) || a_.is_quantised(a),
               b_rounds = b_.rounded(b) != b || is_dequantised(b_, b) || b_.is_quantised(b);
    if (a_rounds != b_rounds) {
      result_.quantised = true;
      if (a_rounds) a = a_.rounded(a);
      else b = b_.rounded(b);
    } else if (a_.name(a) != b_.name(b) && a_.is_quantised(a) != b_.is_quantised(b)) {
      a = a_.rounded(a);
      b = b_.rounded(b);
    }
    ValuePair pair{a_.paired(a), b_.paired(b)};
    // If both are integers, they are compared as integers.
    if (pair.a.dequantised && pair.b.dequantised) pair.a.dequantised = pair.b.dequantised = false;
    if (seen_.emplace(pair.a.name, pair.b.name).second) result_.pairs.push_back(std::move(pair));
  }

  static bool is_dequantised(const Values& values, ir::ValueId id) {
    const ir::Node* node = values.maker(id);
    return node != nullptr && node->op == "DequantizeLinear";
  }

  const Values a_, b_;
  std::set<std::pair<std::string, std::string>> seen_;
  ValuePairs result_;
};

}  // namespace

std::optional<Quantisation> quantisation_of(const ir::Graph& graph, ir::ValueId value) {
  for (int moves = 0; moves <= kMostMoves; ++moves) {
    if (!graph.value(value).producer.valid()) return std::nullopt;
    const ir::Node& node = graph.node(graph.value(value).producer);
    const bool keeps_elements = ops::op_of(node).has(ops::Trait::rearranges) || node.op == "MaxPool";
    if (keeps_elements && !node.inputs.empty() && node.inputs[0].valid() && value == node.outputs[0]) {
      value = node.inputs[0];
      continue;
    }
    const auto known = std::ranges::find(kQuantising, node.op, &QuantisingOperator::op);
    if (known == kQuantising.end() || node.inputs.size() <= known->scale) return std::nullopt;
    Quantisation quantisation{node.inputs[known->scale], {}, {}};
    if (node.formal_inputs() > known->scale + 1) quantisation.zero = node.inputs[known->scale + 1];
    for (const char* name : {"axis", "block_size"}) {
      if (const auto found = node.attributes.find(name); node.op == "QuantizeLinear" && found != node.attributes.end())
        quantisation.attributes.emplace(*found);
    }
    // If elements move, per-channel scales would have to move too.
    const std::optional<Shape> scales = graph.value(quantisation.scale).type.shape();
    if (moves > 0 && (!scales || element_count(*scales) != 1)) return std::nullopt;
    return quantisation;
  }
  return std::nullopt;
}

ValuePairs pair_values(const ir::Graph& a, const ir::Graph& b) {
  return Pairing(a, b).run();
}

}  // namespace tessera::report
