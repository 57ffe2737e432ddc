#include "support/evaluate_graph.h"

#include <algorithm>
#include <cmath>

#include "backends/reference/reference_device.h"
#include "base/numbers/philox.h"
#include "runtime/run/evaluate.h"

namespace tessera::test {
namespace {

constexpr double kEpsilon = 0x1p-23;

Tensor cast(const Tensor& tensor, DType type) {
  const ir::Node node{"Cast", "", {{0}}, {{1}}, {{"to", static_cast<std::int64_t>(type)}}, 0};
  return runtime::evaluate_node(backends::reference_device(), node, std::vector<Value>{tensor}, {})[0].tensor();
}

double epsilon_of(DType type) {
  return type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : kEpsilon;
}

Value noisy(const Value& value, double epsilons, base::Philox& random) {
  const DType type = value.is_tensor() ? value.tensor().dtype() : DType::undefined;
  if (type == DType::f16 || type == DType::bf16) {
    return cast(noisy(widened(value.tensor()), epsilons / 4 * epsilon_of(type) / kEpsilon, random).tensor(), type);
  }
  if (type != DType::f32) return value;
  Tensor moved = value.tensor().clone();
  const double step = epsilons * kEpsilon * largest_magnitude(moved);
  for (float& element : moved.mutable_values<float>())
    element = static_cast<float>(element + step * (2 * random.next_uniform() - 1));
  return moved;
}

// A single number may be an exponent, a bound or an epsilon; scales of Resize say sizes.
bool is_parameter(const ir::Graph& graph, const ir::Node& node, std::size_t operand) {
  const Tensor* constant = graph.constant(node.inputs[operand]);
  return constant != nullptr && (constant->elements() == 1 || node.op == "Resize");
}

std::vector<Value> given_values(const ir::Graph& graph, const NamedValues& inputs) {
  std::vector<Value> values(graph.value_count());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (const Tensor* constant = graph.constant({static_cast<std::int32_t>(i)})) values[i] = *constant;
  }
  for (const ir::ValueId id : graph.inputs())
    values[static_cast<std::size_t>(id.index)] = inputs.find(graph.value(id).name)->second;
  return values;
}

void compute(const ir::Node& node, std::span<const Value> operands, std::vector<Value>& values) {
  std::vector<Value> results = runtime::evaluate_node(backends::reference_device(), node, operands, {});
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) values[static_cast<std::size_t>(node.outputs[i].index)] = std::move(results[i]);
  }
}

std::vector<Value> operands_of(const ir::Node& node, const std::vector<Value>& values) {
  std::vector<Value> operands;
  for (const ir::ValueId id : node.inputs)
    operands.push_back(id.valid() ? values[static_cast<std::size_t>(id.index)] : Value());
  return operands;
}

}  // namespace

Tensor widened(const Tensor& tensor) {
  return tensor.dtype() == DType::f16 || tensor.dtype() == DType::bf16 ? cast(tensor, DType::f32) : tensor;
}

double largest_magnitude(const Tensor& tensor) {
  if (tensor.dtype() != DType::f32) return 0;
  double largest = 0;
  for (const float element : tensor.values<float>()) {
    if (!std::isfinite(element)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::fabs(static_cast<double>(element)));
  }
  return largest;
}

void evaluate_node_of(const ir::Graph& graph, ir::NodeId id, std::vector<Value>& values) {
  values.resize(std::max(values.size(), graph.value_count()));
  const ir::Node& node = graph.node(id);
  for (const ir::ValueId input : node.inputs) {
    if (const Tensor* constant = graph.constant(input)) values[static_cast<std::size_t>(input.index)] = *constant;
  }
  compute(node, operands_of(node, values), values);
}

std::vector<Value> evaluate_graph(const ir::Graph& graph, const NamedValues& inputs,
                                  const std::optional<Noise>& noise) {
  std::vector<Value> values = given_values(graph, inputs);
  base::Philox random(noise ? noise->seed : 0);
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    std::vector<Value> operands = operands_of(node, values);
    const bool moves = noise && !node.name.starts_with(kExactPrefix);
    for (std::size_t i = 0; moves && i < operands.size(); ++i) {
      if (!is_parameter(graph, node, i)) operands[i] = noisy(operands[i], noise->epsilons, random);
    }
    compute(node, operands, values);
    for (const ir::ValueId output : node.outputs) {
      if (moves && output.valid())
        values[static_cast<std::size_t>(output.index)] =
            noisy(values[static_cast<std::size_t>(output.index)], noise->epsilons, random);
    }
  }
  return values;
}

std::vector<double> rounding_bounds(const ir::Graph& graph, const NamedValues& inputs,
                                    const std::vector<Value>& exact) {
  constexpr int kTrials = 3;
  constexpr double kSafety = 8, kFloorEpsilons = 32, kHalfFloorEpsilons = 4;
  std::vector<double> bounds;
  for (const ir::ValueId id : graph.outputs()) {
    const Tensor& tensor = exact[static_cast<std::size_t>(id.index)].tensor();
    const double epsilon = epsilon_of(tensor.dtype());
    bounds.push_back((epsilon == kEpsilon ? kFloorEpsilons : kHalfFloorEpsilons) * epsilon *
                     largest_magnitude(widened(tensor)));
  }
  std::vector<double> moved(bounds.size());
  for (int trial = 0; trial < kTrials; ++trial) {
    const std::vector<Value> values = evaluate_graph(graph, inputs, Noise{static_cast<std::uint64_t>(trial)});
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const auto index = static_cast<std::size_t>(graph.outputs()[i].index);
      const Tensor wanted = widened(exact[index].tensor()), found = widened(values[index].tensor());
      if (wanted.dtype() != DType::f32) continue;
      const std::span<const float> a = wanted.values<float>(), b = found.values<float>();
      for (std::size_t k = 0; k < a.size(); ++k) {
        const double distance = std::fabs(static_cast<double>(a[k]) - b[k]);
        if (!(distance <= moved[i])) moved[i] = distance;
      }
    }
  }
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] += kSafety * moved[i];
  return bounds;
}

}  // namespace tessera::test
