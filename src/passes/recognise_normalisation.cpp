// Normalisation that a model spells out, (x - mean(x)) / sqrt(mean((x - mean(x))²) + epsilon) with a scale and a shift
// behind it, in the spellings of exporters, becomes LayerNormalization, or InstanceNormalization where scale and shift
// go by channels; without a mean it becomes RMSNormalization.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/builder.h"
#include "ops/channels_last.h"
#include "ops/reduction.h"
#include "passes/affine_operands.h"
#include "passes/find.h"
#include "passes/pass.h"
#include "passes/replacements.h"

namespace tessera::passes {
namespace {

using ir::Dims;
using ir::NodeId;
using ir::ValueId;
using Axes = std::vector<std::int64_t>;

// The mean of a value over axes.
struct Mean {
  ValueId of;
  Axes axes;
};
// mean(x²), or that of x less its mean.
struct Variance {
  ValueId x;
  Axes axes;
  bool centred = false;
  double epsilon = 0;
};
// x normalised, times a scale and plus a shift where they are valid.
struct Normalised {
  Variance of;
  ValueId scale, shift;
};

class Recogniser {
 public:
  explicit Recogniser(ir::Graph graph)
      : graph_(std::move(graph)), builder_(graph_), uses_(graph_.compute_uses()), taken_(graph_.value_count(), false) {}

  ir::Graph run() {
    const std::vector<NodeId> order = graph_.order();
    // Backwards, so that scale and shift are seen before what they belong to.
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const ir::Node& node = graph_.node(*id);
      if (node.op != "Add" && node.op != "Mul" && node.op != "Div") continue;
      if (!taken_[static_cast<std::size_t>(node.outputs[0].index)]) recognise(*id);
    }
    graph_.sort_topologically();
    graph_.remove_dead_and_compact();
    return std::move(graph_);
  }

 private:
  void recognise(NodeId id) {
    inside_.clear();
    const ValueId value = graph_.node(id).outputs[0];
    std::optional<Normalised> found = shifted(value);
    if (!found) found = scaled(value);
    if (!found || !is_closed(graph_, uses_, inside_, id) || !normalises(graph_.value(value).type.dtype)) return;
    if (by_rows(id, *found) || by_channels(id, *found) || by_last_channels(id, *found) ||
        by_groups_of_last_channels(id, *found)) {
      for (const NodeId node : inside_) taken_[static_cast<std::size_t>(graph_.node(node).outputs[0].index)] = true;
    }
  }

  // The operators measure rows in float32, which would be too little for f64.
  static bool normalises(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

  // --- the spellings. What they read is noted in inside_.
  const ir::Node* take(ValueId value, std::string_view op) {
    const ir::Node* node = producer_of(graph_, value, op);
    if (node != nullptr) inside_.push_back(graph_.value(value).producer);
    return node;
  }
  // What `parse` finds; else nothing is noted.
  template <typename Parse>
  auto attempt(Parse parse) -> decltype(parse()) {
    const std::size_t before = inside_.size();
    auto found = parse();
    if (!found) inside_.resize(before);
    return found;
  }
  // What `parse` makes of one operand and the other of a node with two.
  template <typename Parse>
  auto either(const ir::Node& node, Parse parse) -> decltype(parse(ValueId(), ValueId())) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (auto found = attempt([&] { return parse(node.inputs[i], node.inputs[1 - i]); })) return found;
    }
    return std::nullopt;
  }
  bool is_number(ValueId value, double number) const { return scalar_of(graph_, value) == number; }

  // The value under another shape.
  ValueId reshaped(ValueId value) {
    for (const std::string_view op : {"Reshape", "Unsqueeze", "Squeeze"}) {
      if (const ir::Node* node = take(value, op)) return node->inputs[0];
    }
    return value;
  }

  std::optional<ValueId> square(ValueId value) {
    if (const ir::Node* node = take(value, "Mul"))
      return node->inputs[0] == node->inputs[1] ? std::optional(node->inputs[0]) : std::nullopt;
    const ir::Node* node = take(value, "Pow");
    return node != nullptr && is_number(node->inputs[1], 2) ? std::optional(node->inputs[0]) : std::nullopt;
  }

  std::optional<Mean> reduction(ValueId value, std::string_view op) {
    const ir::Node* node = take(value, op);
    const std::optional<Axes> axes = node == nullptr ? std::nullopt : reduced_axes(graph_, *node);
    return axes && !axes->empty() ? std::optional(Mean{node->inputs[0], *axes}) : std::nullopt;
  }
  // By ReduceMean, or a sum divided by its count.
  std::optional<Mean> mean(ValueId value) {
    value = reshaped(value);
    if (auto found = attempt([&] { return reduction(value, "ReduceMean"); })) return found;
    const auto of_sum = [&](ValueId sum, ValueId factor, bool divides) -> std::optional<Mean> {
      const std::optional<Mean> found = reduction(reshaped(sum), "ReduceSum");
      const Dims* dims = found ? dims_of(graph_, found->of) : nullptr;
      const std::optional<double> number = scalar_of(graph_, factor);
      if (dims == nullptr || !number) return std::nullopt;
      double count = 1;
      for (const std::int64_t axis : found->axes) {
        const ir::Dim& dim = (*dims)[static_cast<std::size_t>(axis)];
        if (!dim.is_known()) return std::nullopt;
        count *= static_cast<double>(dim.value());
      }
      const bool fits = count > 0 && std::abs((divides ? 1 / *number : *number) * count - 1) < 1e-6;
      return fits ? found : std::nullopt;
    };
    if (const ir::Node* node = take(value, "Mul"))
      return either(*node, [&](ValueId sum, ValueId factor) { return of_sum(sum, factor, false); });
    const ir::Node* node = take(value, "Div");
    return node == nullptr ? std::nullopt : of_sum(node->inputs[0], node->inputs[1], true);
  }

  // x of x - mean(x).
  std::optional<Mean> centred(ValueId value) {
    const ir::Node* node = take(value, "Sub");
    const std::optional<Mean> found = node == nullptr ? std::nullopt : mean(node->inputs[1]);
    return found && found->of == node->inputs[0] && is_statistic(graph_, node->inputs[1], found->of, found->axes)
               ? found
               : std::nullopt;
  }

  std::optional<Variance> variance(ValueId value) {
    value = reshaped(value);
    if (const auto found = attempt([&] { return mean_of_squares(value); })) return found;
    return attempt([&] { return difference_of_squares(value); });
  }
  std::optional<Variance> mean_of_squares(ValueId value) {
    const std::optional<Mean> found = mean(value);
    const std::optional<ValueId> base = found ? square(found->of) : std::nullopt;
    if (!base) return std::nullopt;
    const std::optional<Mean> inner = attempt([&] { return centred(*base); });
    if (inner && inner->axes == found->axes) return Variance{inner->of, inner->axes, true};
    return Variance{*base, found->axes, false};
  }
  // max(mean(x²) - mean(x)², 0)
  std::optional<Variance> difference_of_squares(ValueId value) {
    const ir::Node* bounded = take(value, "Max");
    if (bounded == nullptr || bounded->inputs.size() != 2) return std::nullopt;
    return either(*bounded, [&](ValueId operand, ValueId zero) -> std::optional<Variance> {
      const ir::Node* node = is_number(zero, 0) ? take(operand, "Sub") : nullptr;
      const std::optional<Variance> squares = node == nullptr ? std::nullopt : mean_of_squares(node->inputs[0]);
      const std::optional<ValueId> root =
          squares && !squares->centred ? square(reshaped(node->inputs[1])) : std::nullopt;
      const std::optional<Mean> found = root ? mean(*root) : std::nullopt;
      return found && found->of == squares->x && found->axes == squares->axes
                 ? std::optional(Variance{found->of, found->axes, true})
                 : std::nullopt;
    });
  }

  std::optional<Variance> variance_and_epsilon(ValueId value) {
    const ir::Node* node = take(reshaped(value), "Add");
    if (node == nullptr) return std::nullopt;
    return either(*node, [&](ValueId operand, ValueId number) -> std::optional<Variance> {
      const std::optional<double> epsilon = scalar_of(graph_, number);
      std::optional<Variance> found = epsilon && *epsilon >= 0 ? variance(operand) : std::nullopt;
      if (found) found->epsilon = *epsilon;
      return found;
    });
  }
  std::optional<Variance> power(ValueId value, double exponent) {
    const ir::Node* node = take(value, "Pow");
    return node != nullptr && is_number(node->inputs[1], exponent) ? variance_and_epsilon(node->inputs[0])
                                                                   : std::nullopt;
  }
  std::optional<Variance> deviation(ValueId value) {
    value = reshaped(value);
    if (const ir::Node* node = take(value, "Sqrt")) return variance_and_epsilon(node->inputs[0]);
    return power(value, 0.5);
  }
  std::optional<Variance> inverse(ValueId value) {
    value = reshaped(value);
    if (const ir::Node* node = take(value, "Reciprocal")) return deviation(node->inputs[0]);
    if (const ir::Node* node = take(value, "Div"))
      return is_number(node->inputs[0], 1) ? deviation(node->inputs[1]) : std::nullopt;
    return power(value, -0.5);
  }

  // Whether the value is what the variance is about: x less its mean, or x itself.
  bool is_numerator(ValueId value, const Variance& of) {
    if (!of.centred) return value == of.x;
    const std::optional<Mean> found = centred(value);
    return found && found->of == of.x && found->axes == of.axes;
  }
  std::optional<Normalised> normalised(ValueId value) {
    if (const ir::Node* node = take(value, "Div")) {
      const std::optional<Variance> found = deviation(node->inputs[1]);
      return found && is_statistic(graph_, node->inputs[1], found->x, found->axes) &&
                     is_numerator(node->inputs[0], *found)
                 ? std::optional(Normalised{*found, {}, {}})
                 : std::nullopt;
    }
    const ir::Node* node = take(value, "Mul");
    if (node == nullptr) return std::nullopt;
    return either(*node, [&](ValueId factor, ValueId numerator) -> std::optional<Normalised> {
      const std::optional<Normalised> found = inverse_and_scale(factor);
      return found && is_numerator(numerator, found->of) ? found : std::nullopt;
    });
  }
  // 1 / deviation, times a scale or not.
  std::optional<Normalised> inverse_and_scale(ValueId value) {
    const auto plain = [&](ValueId factor) {
      const std::optional<Variance> found = attempt([&] { return inverse(factor); });
      return found && is_statistic(graph_, factor, found->x, found->axes) ? std::optional(Normalised{*found, {}, {}})
                                                                          : std::nullopt;
    };
    if (const auto found = plain(value)) return found;
    const ir::Node* node = take(value, "Mul");
    if (node == nullptr) return std::nullopt;
    return either(*node, [&](ValueId factor, ValueId scale) {
      std::optional<Normalised> found = plain(factor);
      if (found) found->scale = scale;
      return found;
    });
  }

  std::optional<Normalised> scaled(ValueId value) {
    if (const auto found = attempt([&] { return normalised(value); })) return found;
    const ir::Node* node = take(value, "Mul");
    if (node == nullptr) return std::nullopt;
    return either(*node, [&](ValueId operand, ValueId scale) {
      std::optional<Normalised> found = normalised(operand);
      if (found && found->scale.valid()) return std::optional<Normalised>();
      if (found) found->scale = scale;
      return found;
    });
  }

  std::optional<Normalised> shifted(ValueId value) {
    const ir::Node* node = take(value, "Add");
    if (node == nullptr) return std::nullopt;
    return either(*node, [&](ValueId operand, ValueId shift) -> std::optional<Normalised> {
      std::optional<Normalised> found = attempt([&] { return scaled(operand); });
      if (found && found->of.centred) {
        found->shift = shift;
        return found;
      }
      return attempt([&] { return as_line(operand, shift); });
    });
  }
  // x · s + (shift - mean · s) with s = scale / deviation, as TensorFlow computes it, or x · s + (-mean · s + shift),
  // as Keras does.
  std::optional<Normalised> as_line(ValueId product, ValueId rest) {
    const ir::Node* slope = take(product, "Mul");
    if (slope == nullptr) return std::nullopt;
    return either(*slope, [&](ValueId factor, ValueId x) -> std::optional<Normalised> {
      std::optional<Normalised> found = inverse_and_scale(factor);
      if (!found || !found->of.centred || found->of.x != x) return std::nullopt;
      const std::optional<ValueId> shift = shift_beside(rest, factor, found->of);
      if (!shift) return std::nullopt;
      found->shift = *shift;
      return found;
    });
  }
  // What stands beside -mean · factor in a sum; an invalid value for nothing.
  std::optional<ValueId> shift_beside(ValueId rest, ValueId factor, const Variance& of) {
    if (const ir::Node* difference = take(rest, "Sub"))
      return is_mean_times(difference->inputs[1], factor, of, false) ? std::optional(difference->inputs[0])
                                                                     : std::nullopt;
    if (attempt([&] { return is_mean_times(rest, factor, of, true) ? std::optional(true) : std::nullopt; }))
      return ValueId();
    const ir::Node* sum = take(rest, "Add");
    if (sum == nullptr) return std::nullopt;
    return either(*sum, [&](ValueId offset, ValueId shift) {
      return is_mean_times(offset, factor, of, true) ? std::optional(shift) : std::nullopt;
    });
  }
  // mean · factor, or its opposite.
  bool is_mean_times(ValueId value, ValueId factor, const Variance& of, bool negative) {
    const ir::Node* product = take(value, "Mul");
    if (product == nullptr) return false;
    const auto found = either(*product, [&](ValueId same, ValueId average) -> std::optional<Mean> {
      const ir::Node* opposite = negative ? take(average, "Neg") : nullptr;
      if (same != factor || (negative && opposite == nullptr)) return std::nullopt;
      const ValueId statistic = negative ? opposite->inputs[0] : average;
      const std::optional<Mean> centre = mean(statistic);
      return centre && centre->of == of.x && centre->axes == of.axes && is_statistic(graph_, statistic, of.x, of.axes)
                 ? centre
                 : std::nullopt;
    });
    return found.has_value();
  }

  // --- the operators
  bool by_rows(NodeId id, const Normalised& found) {
    const Dims dims = *dims_of(graph_, found.of.x);
    const DType type = graph_.value(found.of.x).type.dtype;
    const auto rank = static_cast<std::int64_t>(dims.size()), first = found.of.axes[0];
    if (static_cast<std::int64_t>(found.of.axes.size()) != rank - first) return false;
    const bool wants_shift = found.shift.valid();
    const auto scale = per_element(graph_, found.scale, dims, static_cast<std::size_t>(first), type, 1);
    const auto shift = wants_shift ? per_element(graph_, found.shift, dims, static_cast<std::size_t>(first), type, 0)
                                   : std::optional(ValueId());
    if (!scale || !shift) return false;
    std::vector<ValueId> operands{found.of.x, *scale};
    if (wants_shift) operands.push_back(*shift);
    const std::int64_t axis = first == rank - 1 ? -1 : first;
    put_operator(graph_, id, found.of.centred ? "LayerNormalization" : "RMSNormalization", std::move(operands),
                 {{"axis", axis}, {"epsilon", static_cast<float>(found.of.epsilon)}});
    return true;
  }

  // [N, C, positions…] with all positions normalised, by a scale and a shift of [C, 1…].
  bool by_channels(NodeId id, const Normalised& found) {
    const Dims dims = *dims_of(graph_, found.of.x);
    const DType type = graph_.value(found.of.x).type.dtype;
    if (!found.of.centred || dims.size() < 3 || found.of.axes[0] != 2 || found.of.axes.size() != dims.size() - 2)
      return false;
    const std::optional<ValueId> scale = per_channel(graph_, found.scale, dims, type, 1),
                                 shift = per_channel(graph_, found.shift, dims, type, 0);
    if (!scale || !shift) return false;
    put_operator(graph_, id, "InstanceNormalization", {found.of.x, *scale, *shift},
                 {{"epsilon", static_cast<float>(found.of.epsilon)}});
    return true;
  }

  // [N, positions…, C], a map of two axes or more, with all positions normalised, by a scale and a shift of [C]: the
  // operator wants the channels first.
  bool by_last_channels(NodeId id, const Normalised& found) {
    const Dims dims = *dims_of(graph_, found.of.x);
    const DType type = graph_.value(found.of.x).type.dtype;
    if (!found.of.centred || dims.size() < 4 || found.of.axes != between(1, dims.size() - 1)) return false;
    const auto scale = per_element(graph_, found.scale, dims, dims.size() - 1, type, 1),
               shift = per_element(graph_, found.shift, dims, dims.size() - 1, type, 0);
    if (!scale || !shift || !graph_.is_constant(*scale) || !graph_.is_constant(*shift)) return false;
    put_turned(id, "InstanceNormalization", found.of.x, *scale, *shift,
               {{"epsilon", static_cast<float>(found.of.epsilon)}});
    return true;
  }

  // [N, positions…, C] as [N, positions…, groups, channels of a group], with all but the groups normalised, and back
  // again, as Keras has it.
  bool by_groups_of_last_channels(NodeId id, const Normalised& found) {
    const Dims dims = *dims_of(graph_, found.of.x);
    const DType type = graph_.value(found.of.x).type.dtype;
    const std::size_t rank = dims.size();
    const ir::Node* split = producer_of(graph_, found.of.x, "Reshape");
    const ValueId result = graph_.node(id).outputs[0];
    const std::vector<NodeId>& users = uses_[static_cast<std::size_t>(result.index)];
    if (!found.of.centred || rank < 5 || split == nullptr || users.size() != 1 || is_result(graph_, result))
      return false;
    Axes wanted = between(1, rank - 2);
    wanted.push_back(static_cast<std::int64_t>(rank) - 1);
    const ValueId x = split->inputs[0];
    const ir::Node& joined = graph_.node(users[0]);
    const Dims* whole = dims_of(graph_, x);
    if (found.of.axes != wanted || whole == nullptr || whole->size() + 1 != rank || joined.op != "Reshape" ||
        joined.inputs[0] != result)
      return false;
    if (!same_dims(graph_, x, joined.outputs[0]) && !is_shape_of(graph_, joined.inputs[1], x)) return false;
    const ir::Dim channels = dims[rank - 2] * dims[rank - 1];
    const auto last = static_cast<std::ptrdiff_t>(rank) - 2;
    if (!channels.is_known() || !dims[rank - 2].is_known() || !whole->back().surely_equals(channels) ||
        !surely_equal({dims.begin(), dims.begin() + last}, {whole->begin(), whole->begin() + last}))
      return false;
    const auto scale = per_element(graph_, found.scale, dims, rank - 2, type, 1),
               shift = per_element(graph_, found.shift, dims, rank - 2, type, 0);
    if (!scale || !shift || !graph_.is_constant(*scale) || !graph_.is_constant(*shift)) return false;
    const auto flat = [&](ValueId value) {
      return graph_.add_constant(graph_.constant(value)->reshaped({channels.value()}));
    };
    put_turned(users[0], "GroupNormalization", x, flat(*scale), flat(*shift),
               {{"epsilon", static_cast<float>(found.of.epsilon)}, {"num_groups", dims[rank - 2].value()}});
    return true;
  }

  static Axes between(std::size_t first, std::size_t end) {
    Axes axes;
    for (std::size_t axis = first; axis < end; ++axis) axes.push_back(static_cast<std::int64_t>(axis));
    return axes;
  }

  // The operator of data with its last axis as the second, turned back in the node's place.
  void put_turned(NodeId id, std::string op, ValueId x, ValueId scale, ValueId shift, ir::Attributes attributes) {
    const std::size_t rank = dims_of(graph_, x)->size();
    const ValueId first = builder_.add("Transpose", {x}, {{"perm", ops::to_channels_first(rank)}});
    const ValueId normalised = builder_.add(std::move(op), {first, scale, shift}, std::move(attributes));
    put_operator(graph_, id, "Transpose", {normalised}, {{"perm", ops::to_channels_last(rank)}});
  }

  ir::Graph graph_;
  ops::GraphBuilder builder_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<bool> taken_;  // values that a normalisation made of nodes before has made needless
  std::vector<NodeId> inside_;
};

}  // namespace

ir::Graph recognise_normalisation(ir::Graph graph, const PassContext&) {
  return Recogniser(std::move(graph)).run();
}

}  // namespace tessera::passes
