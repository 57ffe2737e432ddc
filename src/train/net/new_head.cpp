#include "train/net/new_head.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/numbers/philox.h"
#include "ops/core/infer.h"
#include "passes/find.h"
#include "train/net/layer_weights.h"

namespace tessera::train {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr std::uint64_t kHeadKey = 0x8CB92BA72F3D8DD7;

class HeadReplacer {
 public:
  HeadReplacer(ir::Graph graph, const std::string& output, std::int64_t classes, std::uint64_t seed)
      : graph_(std::move(graph)), classes_(classes), seed_(seed), output_(find_output(output)) {
    require(classes > 0, ErrorKind::invalid_argument, "model.classes is {}, expected at least 1", classes);
    for (const LayerWeight& each : layer_weights(graph_)) weights_.push_back(each);
  }

  NewHead replace() {
    find_layer();
    const ir::Node layer = graph_.node(layer_);
    const Tensor old = *graph_.constant(weight_.value);
    outputs_ = weight_.shape[static_cast<std::size_t>(weight_.output_axis)];
    const auto group = layer.attributes.find("group");
    require(group == layer.attributes.end() || std::get<std::int64_t>(group->second) == 1, ErrorKind::invalid_argument,
            "model.classes: the last layer '{}' is a convolution in groups, which has no other number of outputs",
            name_of_layer());
    const double bound = 1 / std::sqrt(static_cast<double>(old.elements() / std::max<std::int64_t>(1, outputs_)));
    replace_constant(layer_, weight_operand_, weight_.value, static_cast<std::size_t>(weight_.output_axis), bound, 0);
    if (layer.inputs.size() > 2 && layer.inputs[2].valid()) replace_bias(layer_, 2, bound);
    if (added_bias_) replace_bias(added_bias_->first, added_bias_->second, bound);
    follow_shapes();
    infer_again();
    const std::string description =
        fmt::format("the last layer '{}' (weight {}) has {} outputs in place of {}, with new weights", name_of_layer(),
                    weight_.name, classes_, outputs_);
    graph_.remove_dead_and_compact();
    return {std::move(graph_), description};
  }

 private:
  ValueId find_output(const std::string& name) const {
    std::string names;
    for (const ValueId id : graph_.outputs()) {
      if (graph_.value(id).name == name) return id;
      names += (names.empty() ? "'" : ", '") + graph_.value(id).name + "'";
    }
    require(name.empty() && graph_.outputs().size() == 1, ErrorKind::invalid_argument,
            "model.classes: say by loss.logits whose last layer is to be replaced; the net's outputs are {}", names);
    return graph_.outputs()[0];
  }

  std::string name_of_layer() const {
    const ir::Node& node = graph_.node(layer_);
    return node.name.empty() ? node.op : node.name;
  }

  // The weight of the node: its second operand, if that is a constant or made from one by Identity and Transpose.
  std::optional<LayerWeight> weight_of(NodeId id) const {
    const ir::Node& node = graph_.node(id);
    if (node.formal_inputs() < 2) return std::nullopt;
    const auto found = std::ranges::find(weights_, node.inputs[1], &LayerWeight::value);
    if (found != weights_.end()) return *found;
    if (node.op != "Gemm" && node.op != "MatMul") return std::nullopt;
    ValueId value = passes::source_of(graph_, node.inputs[1]);
    const ir::Node* transpose = passes::producer_of(graph_, value, "Transpose");
    if (transpose != nullptr) value = passes::source_of(graph_, transpose->inputs[0]);
    const Tensor* constant = graph_.constant(value);
    if (constant == nullptr || constant->dtype() != DType::f32 || constant->rank() != 2) return std::nullopt;
    const auto flag = node.attributes.find("transB");
    const bool inputs_last =
        (transpose != nullptr) != (flag != node.attributes.end() && std::get<std::int64_t>(flag->second) != 0);
    return LayerWeight{graph_.value(value).name, value, constant->shape(), inputs_last ? 1 : 0, inputs_last ? 0 : 1};
  }

  void find_layer() {
    ValueId value = output_;
    std::optional<std::pair<NodeId, std::size_t>> bias;
    while (true) {
      const ir::ValueInfo& info = graph_.value(value);
      require(info.origin == ir::Origin::node, ErrorKind::invalid_argument,
              "model.classes: the way back from the output '{}' ends at '{}' without a convolution or product whose "
              "weight is a constant",
              graph_.value(output_).name, info.name);
      path_.push_back(info.producer);
      if (const auto weight = weight_of(info.producer)) {
        layer_ = info.producer;
        weight_ = *weight;
        added_bias_ = bias;
        return;
      }
      const ir::Node& node = graph_.node(info.producer);
      std::vector<ValueId> computed;
      bias.reset();
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId source = node.inputs[i].valid() ? passes::source_of(graph_, node.inputs[i]) : ValueId{};
        if (!source.valid()) continue;
        const Tensor* constant = graph_.constant(source);
        if (constant == nullptr) computed.push_back(node.inputs[i]);
        else if (node.op == "Add" && constant->dtype() == DType::f32) bias = {info.producer, i};
      }
      require(
          computed.size() == 1, ErrorKind::invalid_argument,
          "model.classes: no single last layer leads to the output '{}': the node '{}' ({}) before it computes with "
          "{} values",
          graph_.value(output_).name, node.name, node.op, computed.size());
      value = computed[0];
    }
  }

  Tensor drawn(const Shape& shape, double bound, std::uint64_t stream) const {
    Tensor tensor(DType::f32, shape);
    base::Philox numbers(seed_ ^ kHeadKey, stream);
    for (float& value : std::span(tensor.mutable_data<float>(), static_cast<std::size_t>(tensor.elements())))
      value = static_cast<float>((2 * numbers.next_uniform() - 1) * bound);
    return tensor;
  }

  // Replaces the constant that the node reads, possibly through Identity and Transpose, by a drawn one with another
  // number of outputs. Other readers keep the old constant.
  void replace_constant(NodeId id, std::size_t operand, ValueId old, std::size_t axis, double bound,
                        std::uint64_t stream) {
    Shape shape = graph_.constant(old)->shape();
    shape[axis] = classes_;
    const std::string name = graph_.value(old).name;
    NodeId reader = id;
    while (graph_.node(reader).inputs[operand] != old) {  // walks from the layer to its constant
      const ValueId through = graph_.node(reader).inputs[operand];
      const ir::Node copy = graph_.node(graph_.value(through).producer);
      const ValueId fresh = graph_.add_op(copy.op, copy.inputs, copy.attributes);
      graph_.node(reader).inputs[operand] = fresh;
      reader = graph_.value(fresh).producer;
      operand = 0;
    }
    const auto uses = graph_.compute_uses();
    const std::function<bool(NodeId)> is_live = [&](NodeId node) {
      return std::ranges::any_of(graph_.node(node).outputs, [&](ValueId each) {
        return each.valid() &&
               (graph_.is_output(each) || std::ranges::any_of(uses[static_cast<std::size_t>(each.index)], is_live));
      });
    };
    const bool is_shared = std::ranges::any_of(uses[static_cast<std::size_t>(old.index)],
                                               [&](NodeId user) { return user != reader && is_live(user); });
    if (!is_shared) graph_.value(old).name = graph_.fresh_name(name);
    graph_.node(reader).inputs[operand] =
        graph_.add_constant(drawn(shape, bound, stream), is_shared ? graph_.fresh_name(name) : name);
  }

  void replace_bias(NodeId id, std::size_t operand, double bound) {
    const ValueId old = passes::source_of(graph_, graph_.node(id).inputs[operand]);
    const Tensor* constant = graph_.constant(old);
    require(constant != nullptr && constant->dtype() == DType::f32, ErrorKind::invalid_argument,
            "model.classes: the bias of the last layer '{}' is no constant of f32", name_of_layer());
    if (constant->elements() != outputs_) return;  // such as one number for all outputs
    const Shape& shape = constant->shape();
    const auto axis = static_cast<std::size_t>(std::ranges::find(shape, outputs_) - shape.begin());
    if (axis < shape.size()) replace_constant(id, operand, old, axis, bound, 1);
  }

  // Adapts constant shapes behind the layer that contain the number of outputs once.
  void follow_shapes() {
    for (const NodeId id : path_) {
      if (id == layer_ || graph_.node(id).op != "Reshape") continue;
      for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
        const Tensor* constant = graph_.constant(graph_.node(id).inputs[i]);
        if (constant == nullptr || constant->dtype() != DType::i64 || outputs_ < 2) continue;
        if (std::ranges::count(constant->values<std::int64_t>(), outputs_) != 1) continue;
        Tensor changed = constant->clone();
        std::ranges::replace(
            std::span(changed.mutable_data<std::int64_t>(), static_cast<std::size_t>(changed.elements())), outputs_,
            classes_);
        graph_.node(id).inputs[i] = graph_.add_constant(changed);
      }
    }
  }

  // Infers anew the types of all values that depend on the layer.
  void infer_again() {
    graph_.sort_topologically();
    std::vector<bool> changed(graph_.value_count());
    for (const NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      const bool depends = id == layer_ || std::ranges::any_of(node.inputs, [&](ValueId each) {
                             return each.valid() && changed[static_cast<std::size_t>(each.index)];
                           });
      if (!depends) continue;
      for (const ValueId each : node.outputs) {
        if (!each.valid()) continue;
        graph_.value(each).type = {};
        changed[static_cast<std::size_t>(each.index)] = true;
      }
    }
    try {
      ops::infer_graph(graph_);
    } catch (const Error& error) {
      fail(ErrorKind::invalid_argument,
           "model.classes: behind the last layer '{}' the net takes no other number of outputs than {}: {}",
           name_of_layer(), outputs_, error.message());
    }
  }

  ir::Graph graph_;
  std::int64_t classes_, outputs_ = 0;
  std::uint64_t seed_;
  ValueId output_;
  std::vector<LayerWeight> weights_;
  std::vector<NodeId> path_;  // from the output to the layer
  NodeId layer_;
  LayerWeight weight_;
  std::optional<std::pair<NodeId, std::size_t>> added_bias_;  // a node and the index of its operand
  static constexpr std::size_t weight_operand_ = 1;
};

}  // namespace

NewHead replace_head(ir::Graph graph, const std::string& output, std::int64_t classes, std::uint64_t seed) {
  return HeadReplacer(std::move(graph), output, classes, seed).replace();
}

}  // namespace tessera::train
