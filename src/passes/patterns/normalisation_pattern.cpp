#include "passes/patterns/normalisation_pattern.h"

#include <cmath>

#include "passes/find.h"

namespace tessera::passes {
namespace {

using ir::Dims;
using ir::ValueId;
using Axes = std::vector<std::int64_t>;
using Variance = MeasuredVariance;
using Normalised = SpeltNormalisation;

// The mean of a value over axes.
struct Mean {
  ValueId of;
  Axes axes;
};
class NormalisationParser {
 public:
  // `inside` receives the nodes that matched parts of the pattern read.
  NormalisationParser(const ir::Graph& graph, std::vector<ir::NodeId>& inside) : graph_(graph), inside_(inside) {}

  std::optional<Normalised> parse(ValueId value) {
    if (auto found = shifted(value)) return found;
    return scaled(value);
  }

 private:
  const ir::Node* take(ValueId value, std::string_view op) {
    const ir::Node* node = producer_of(graph_, value, op);
    if (node != nullptr) inside_.push_back(graph_.value(value).producer);
    return node;
  }
  // The result of `parse`; if it finds nothing, nodes noted meanwhile are forgotten.
  template <typename Parse>
  auto attempt(Parse parse) -> decltype(parse()) {
    const std::size_t before = inside_.size();
    auto found = parse();
    if (!found) inside_.resize(before);
    return found;
  }
  // The result of `parse` for one operand and the other one of a node with two, tried in both orders.
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
  // A mean computed by ReduceMean, or as a sum divided by the count.
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

  // Whether the value is the centred or plain x of which the variance was taken.
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
  // 1 / deviation, possibly times a scale.
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
  // The addend beside -mean · factor in a sum; an invalid value for none, nothing if there is no such sum.
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
  // Whether the value is mean · factor or, if `negative`, -mean · factor.
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

  const ir::Graph& graph_;
  std::vector<ir::NodeId>& inside_;
};

}  // namespace

std::optional<SpeltNormalisation> find_normalisation(const ir::Graph& graph, ValueId value,
                                                     std::vector<ir::NodeId>& inside) {
  inside.clear();
  return NormalisationParser(graph, inside).parse(value);
}

}  // namespace tessera::passes
