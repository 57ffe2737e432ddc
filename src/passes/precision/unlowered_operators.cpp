#include "passes/precision/unlowered_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "passes/patterns/quantised_operands.h"

namespace tessera::passes {
namespace {

constexpr std::array<std::string_view, 3> kProducts{"Conv", "MatMul", "Gemm"};
constexpr std::array<std::string_view, 2> kOthers{"Add", "Relu"};

bool is_among(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

class Finder {
 public:
  explicit Finder(const ir::Graph& graph) : graph_(graph), uses_(graph.compute_uses()) {}

  std::vector<std::string> run() const {
    std::vector<std::string> found;
    for (const ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      if (node.op == "QuantizeLinear" || node.op == "DequantizeLinear") continue;
      const bool reads = std::ranges::any_of(node.inputs, [&](ir::ValueId input) {
        return is_dequantised(input) && !graph_.is_constant(maker(input)->inputs[0]);
      });
      if (reads) found.push_back(fmt::format("{}: {}", ir::describe(node), reason(node)));
    }
    return found;
  }

 private:
  const ir::Node* maker(ir::ValueId value) const {
    return value.valid() && graph_.value(value).origin == ir::Origin::node ? &graph_.node(graph_.value(value).producer)
                                                                           : nullptr;
  }
  bool is_dequantised(ir::ValueId value) const {
    const ir::Node* node = maker(value);
    return node != nullptr && node->op == "DequantizeLinear";
  }
  bool is_quantised_again(const ir::Node& node) const {
    return std::ranges::any_of(node.outputs, [&](ir::ValueId output) {
      return output.valid() && std::ranges::any_of(uses_[static_cast<std::size_t>(output.index)], [&](ir::NodeId user) {
               return graph_.node(user).op == "QuantizeLinear";
             });
    });
  }

  std::string reason(const ir::Node& node) const {
    if (is_among(kProducts, node.op)) {
      if (!is_dequantised(node.inputs[0])) return "its data is not quantised";
      const ir::ValueId weights = node.inputs[1];
      if (!is_dequantised(weights) && !graph_.is_constant(weights)) return "its weights are not constants";
      return "its scales, zero points or attributes fit no integer kernel";
    }
    if (!is_among(kOthers, node.op) && !moves_quantised(node)) return fmt::format("{} has no integer form", node.op);
    if (!std::ranges::all_of(node.inputs, [&](ir::ValueId input) {
          return !input.valid() || graph_.is_constant(input) || is_dequantised(input);
        }))
      return "not all of its operands are quantised";
    if (!is_quantised_again(node)) return "its result is not quantised again";
    return "the scales before and behind it fit no integer kernel";
  }

  const ir::Graph& graph_;
  const std::vector<std::vector<ir::NodeId>> uses_;
};

}  // namespace

std::vector<std::string> unlowered_operators(const ir::Graph& graph) {
  return Finder(graph).run();
}

}  // namespace tessera::passes
