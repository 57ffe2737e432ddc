#include "protect/obfuscate/channel_classes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "ops/op_table.h"

namespace tessera::protect {
namespace {

constexpr std::size_t kAxes = 8;  // of values that are looked at; others keep their channels

class Finder {
 public:
  Finder(const ir::Graph& graph, ChannelChange change)
      : graph_(graph), change_(change), uses_(graph.compute_uses()), parent_(graph.value_count() * kAxes) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    fixed_.resize(parent_.size());
    block_.resize(parent_.size(), 1);
    for (const ir::ValueId id : graph.inputs()) fix(id);
    for (const ir::ValueId id : graph.outputs()) fix(id);
    for (const ir::Variable& variable : graph.variables()) {
      fix(variable.read);
      fix(variable.update);
    }
  }

  std::vector<ChannelClass> run() {
    for (const ir::NodeId id : graph_.order()) visit(id);
    std::map<std::size_t, ChannelClass> classes;
    for (const auto& [key, weight] : weights_) {
      const std::size_t root = find(key);
      if (fixed_[root]) continue;
      ChannelClass& found = classes[root];
      found.channels = size_of(key) / block_[key];
      found.weights.push_back(weight);
      found.weights.back().block = block_[key];
    }
    std::vector<ChannelClass> result;
    for (auto& [root, found] : classes) {
      if (found.channels > 1) result.push_back(std::move(found));
    }
    return result;
  }

 private:
  bool scales() const { return change_ == ChannelChange::scaling; }
  static std::size_t key_of(ir::ValueId value, std::size_t axis) {
    return static_cast<std::size_t>(value.index) * kAxes + axis;
  }
  const ir::Dims* dims(ir::ValueId value) const {
    const ir::ValueType& type = graph_.value(value).type;
    return type.is_tensor() && type.dims && type.dims->size() <= kAxes ? &*type.dims : nullptr;
  }
  std::int64_t size_of(std::size_t key) const {
    const ir::Dims* of = dims({static_cast<std::int32_t>(key / kAxes)});
    return of != nullptr && key % kAxes < of->size() ? (*of)[key % kAxes].value() : -1;
  }

  std::size_t find(std::size_t key) {
    while (parent_[key] != key) key = parent_[key] = parent_[parent_[key]];
    return key;
  }
  void fix(std::size_t key) { fixed_[find(key)] = true; }
  void fix(ir::ValueId value) {
    if (!value.valid()) return;
    for (std::size_t axis = 0; axis < kAxes; ++axis) fix(key_of(value, axis));
  }
  void cover(std::size_t key) { covered_.insert(key); }
  // The channels of two values are the same. `times`: channels of b have so many times the positions of those of a.
  void join(std::size_t a, std::size_t b, std::int64_t times = 1) {
    cover(a);
    cover(b);
    const std::size_t from = find(a), to = find(b);
    if (from == to) {
      if (block_[b] != block_[a] * times) fixed_[to] = true;
      return;
    }
    const bool is_fresh = to == b && block_[b] == 1 && !joined_.contains(b);
    const bool agree = (is_fresh || block_[b] == block_[a] * times) && size_of(a) > 0 &&
                       size_of(a) * times == size_of(b) && size_of(a) % block_[a] == 0;
    if (!agree) {
      fixed_[from] = fixed_[to] = true;
      return;
    }
    if (is_fresh) block_[b] = block_[a] * times;
    joined_.insert(a);
    joined_.insert(b);
    fixed_[to] = fixed_[to] || fixed_[from];
    parent_[from] = to;
  }
  // The channels are those of an axis of a constant operand.
  void follow(std::size_t key, ir::NodeId id, std::size_t input, std::size_t axis, bool is_inverse = false) {
    cover(key);
    const ir::ValueId value = graph_.node(id).inputs[input];
    const Tensor* constant = graph_.constant(value);
    const bool can_change = constant != nullptr && uses_[static_cast<std::size_t>(value.index)].size() == 1 &&
                            !graph_.is_output(value) && constant->has_data() && bits_of(constant->dtype()) >= 8 &&
                            constant->dtype() != DType::string && axis < constant->shape().size() &&
                            constant->shape()[axis] == size_of(key) && (!scales() || constant->dtype() == DType::f32);
    if (can_change) weights_.emplace_back(key, WeightAxis{id, input, axis, 1, is_inverse});
    else fix(key);
  }
  bool has_input(const ir::Node& node, std::size_t i) const {
    return i < node.formal_inputs() && node.inputs[i].valid();
  }

  void visit(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    covered_.clear();
    const auto fix_all = [&](const std::vector<ir::ValueId>& values, bool all) {
      for (const ir::ValueId value : values) {
        if (!value.valid()) continue;
        for (std::size_t axis = 0; axis < kAxes; ++axis) {
          if (all || !covered_.contains(key_of(value, axis))) fix(key_of(value, axis));
        }
      }
    };
    const bool understood = node.captures == 0 && !node.inputs.empty() && node.outputs.size() == 1 &&
                            node.inputs[0].valid() && node.outputs[0].valid() && dims(node.inputs[0]) != nullptr &&
                            dims(node.outputs[0]) != nullptr && apply_rule(id);
    fix_all(node.inputs, !understood);
    fix_all(node.outputs, !understood);
  }

  // Returns whether the operator is understood.
  bool apply_rule(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    const ops::OpDef& op = ops::op_of(node);
    const ops::AttributeReader reader(node, op);
    const ir::ValueId x = node.inputs[0], y = node.outputs[0];
    if (node.op == "Conv") return conv(id, reader, x, y);
    if (node.op == "Gemm") return gemm(id, reader, x, y);
    if (node.op == "MatMul") return matmul(id, x, y);
    if (node.op == "BatchNormalization") return batch_normalisation(id, reader, x, y);
    if (node.op == "LayerNormalization") return layer_normalisation(id, x, y);
    if (node.op == "Gather") return gather(id, reader, y);
    if (node.op == "Flatten" || node.op == "Reshape") return flatten(x, y);
    if (node.op == "MaxPool" || node.op == "AveragePool" || node.op == "GlobalAveragePool" ||
        node.op == "GlobalMaxPool") {
      if (dims(x)->size() < 2 || dims(y)->size() < 2) return false;
      join(key_of(x, 1), key_of(y, 1));
      return true;
    }
    return element_wise(id, op);
  }

  bool conv(ir::NodeId id, const ops::AttributeReader& reader, ir::ValueId x, ir::ValueId y) {
    const ir::Node& node = graph_.node(id);
    if (dims(x)->size() < 3) return false;
    const std::size_t in = key_of(x, 1), out = key_of(y, 1);
    const std::int64_t groups = reader.integer("group");
    if (groups == 1) {
      follow(out, id, 1, 0);
      follow(in, id, 1, 1, true);
    } else if (groups == size_of(in) && groups == size_of(out)) {  // depthwise
      join(in, out);
      if (!scales()) follow(out, id, 1, 0);
    } else {
      return false;
    }
    if (has_input(node, 2)) follow(out, id, 2, 0);
    return true;
  }

  bool gemm(ir::NodeId id, const ops::AttributeReader& reader, ir::ValueId x, ir::ValueId y) {
    const ir::Node& node = graph_.node(id);
    if (dims(x)->size() != 2 || reader.integer("transA") != 0) return false;
    const bool transposed = reader.integer("transB") != 0;
    follow(key_of(x, 1), id, 1, transposed ? 1 : 0, true);
    follow(key_of(y, 1), id, 1, transposed ? 0 : 1);
    if (has_input(node, 2)) {
      const Tensor* bias = graph_.constant(node.inputs[2]);
      if (bias == nullptr || bias->shape().empty()) return false;
      follow(key_of(y, 1), id, 2, bias->shape().size() - 1);
    }
    return true;
  }

  bool matmul(ir::NodeId id, ir::ValueId x, ir::ValueId y) {
    const Tensor* weights = graph_.constant(graph_.node(id).inputs[1]);
    if (weights == nullptr || weights->shape().size() != 2 || dims(x)->size() < 2) return false;
    const std::size_t last = dims(x)->size() - 1;
    follow(key_of(x, last), id, 1, 0, true);
    follow(key_of(y, last), id, 1, 1);
    return true;
  }

  bool batch_normalisation(ir::NodeId id, const ops::AttributeReader& reader, ir::ValueId x, ir::ValueId y) {
    if (dims(x)->size() < 2 || reader.integer("training_mode") != 0) return false;
    if (scales()) {  // the result can be scaled, but not what is divided by a deviation with an epsilon
      follow(key_of(y, 1), id, 1, 0);
      follow(key_of(y, 1), id, 2, 0);
      return true;
    }
    join(key_of(x, 1), key_of(y, 1));
    for (std::size_t input = 1; input < 5; ++input) follow(key_of(y, 1), id, input, 0);
    return true;
  }

  bool layer_normalisation(ir::NodeId id, ir::ValueId x, ir::ValueId y) {
    const ir::Node& node = graph_.node(id);
    const std::size_t last = dims(x)->size() - 1;
    if (scales()) return false;
    join(key_of(x, last), key_of(y, last));
    for (std::size_t input = 1; input < node.formal_inputs(); ++input) {
      if (!has_input(node, input)) continue;
      const Tensor* constant = graph_.constant(node.inputs[input]);
      if (constant == nullptr || constant->shape().size() != 1) return false;
      follow(key_of(y, last), id, input, 0);
    }
    return true;
  }

  bool gather(ir::NodeId id, const ops::AttributeReader& reader, ir::ValueId y) {
    const Tensor* table = graph_.constant(graph_.node(id).inputs[0]);
    if (table == nullptr || table->shape().size() != 2 || reader.integer("axis") != 0 || dims(y)->empty()) return false;
    follow(key_of(y, dims(y)->size() - 1), id, 0, 1);
    return true;
  }

  // [N, C, …] as [N, C …].
  bool flatten(ir::ValueId x, ir::ValueId y) {
    const ir::Dims &from = *dims(x), &to = *dims(y);
    if (from.size() < 2 || to.size() != 2 || !from[0].surely_equals(to[0])) return false;
    const ir::Dim positions = ir::product(ir::Dims(from.begin() + 2, from.end()));
    if (!positions.is_known() || positions.value() < 1) return false;
    join(key_of(x, 1), key_of(y, 1), positions.value());
    return true;
  }

  bool element_wise(ir::NodeId id, const ops::OpDef& op) {
    const ir::Node& node = graph_.node(id);
    const bool unary = op.element_wise == ops::ElementWise::unary;
    const bool binary = op.element_wise == ops::ElementWise::broadcasting;
    if (!unary && !binary) return false;
    if (scales() && unary && !op.has(ops::Trait::homogeneous) && !op.has(ops::Trait::moves)) return false;
    if (scales() && binary && node.op != "Add" && node.op != "Sub" && node.op != "Sum") return false;
    const ir::ValueId y = node.outputs[0];
    const std::size_t rank = dims(y)->size();
    for (std::size_t i = 0; i < (unary ? 1 : node.inputs.size()); ++i) {
      const ir::ValueId x = node.inputs[i];
      const ir::Dims* of = x.valid() ? dims(x) : nullptr;
      if (of == nullptr || of->size() > rank) return false;
      for (std::size_t axis = 0; axis < of->size(); ++axis) {
        const std::size_t out = key_of(y, axis + rank - of->size());
        const ir::Dim& dim = (*of)[axis];
        if (dim.is_known() && dim.value() == 1 && size_of(out) != 1) {
          cover(key_of(x, axis));
          if (scales() && node.op != "Mul") fix(out);  // a number that is added to all channels is not scaled with them
        } else if (graph_.is_constant(x)) {
          follow(out, id, i, axis);
        } else if (dim.is_known()) {
          join(key_of(x, axis), out);
        } else {
          fix(key_of(x, axis));
          fix(out);
        }
      }
      // A number without axes of its own is added to all channels.
      for (std::size_t axis = 0; scales() && axis + of->size() < rank; ++axis) fix(key_of(y, axis));
    }
    return true;
  }

  const ir::Graph& graph_;
  ChannelChange change_;
  std::vector<std::vector<ir::NodeId>> uses_;
  std::vector<std::size_t> parent_;
  std::vector<bool> fixed_;  // of roots
  std::vector<std::int64_t> block_;
  std::set<std::size_t> covered_, joined_;
  std::vector<std::pair<std::size_t, WeightAxis>> weights_;
};

}  // namespace

std::vector<ChannelClass> find_channel_classes(const ir::Graph& graph, ChannelChange change) {
  return Finder(graph, change).run();
}

}  // namespace tessera::protect
