#include "support/random_graph.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/error.h"
#include "ir/text.h"
#include "ir/text_literal.h"
#include "ir/verify.h"
#include "support/evaluate_graph.h"
#include "support/random_graph_maker.h"
#include "support/random_tensor.h"

namespace tessera::test {
namespace {

constexpr double kLargest = 100;
constexpr std::int64_t kMostElements = 4096;
// Of an output's largest magnitude: what rounding may move it before a graph counts as ill-conditioned.
constexpr double kMostNoise = 1e-3;

bool is_good(const Value& value) {
  if (!value.is_tensor()) return false;
  const Tensor& tensor = value.tensor();
  const double largest = largest_magnitude(tensor);
  return tensor.elements() > 0 && tensor.elements() <= kMostElements && largest <= kLargest &&
         (tensor.dtype() != DType::f32 || largest >= 1 / kLargest || largest == 0);
}

bool agrees(const ir::ValueType& type, const Value& value) {
  if (!type.dims || !value.is_tensor()) return true;
  const Shape& shape = value.tensor().shape();
  return std::equal(type.dims->begin(), type.dims->end(), shape.begin(), shape.end(),
                    [](const ir::Dim& dim, std::int64_t size) { return dim.may_equal(size); });
}

bool is_well_conditioned(const GraphCase& made) {
  const std::vector<Value> values = evaluate_graph(made.graph, made.inputs);
  const std::vector<double> bounds = rounding_bounds(made.graph, made.inputs, values);
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const Tensor& output = values[static_cast<std::size_t>(made.graph.outputs()[i].index)].tensor();
    if (!(bounds[i] <= kMostNoise * largest_magnitude(output)) && output.dtype() == DType::f32 &&
        largest_magnitude(output) > 0)
      return false;
  }
  return true;
}

}  // namespace

void GraphMaker::add_inputs() {
  const bool symbolic = chance(0.35);
  const std::int64_t batch = number(1, 3), inputs = number(1, 3);
  const auto small = [&] { return one_of<std::int64_t>({1, 2, 3, 4, 5, 6, 7, 8}); };
  const std::int64_t channels = one_of<std::int64_t>({1, 2, 3, 4, 6, 8, 16, 17}), height = number(3, 9),
                     width = number(3, 9);
  for (std::int64_t i = 0; i < inputs; ++i) {
    const std::int64_t rank = one_of<std::int64_t>({2, 3, 4, 4, 4, 5});
    Shape shape{batch, chance(0.7) ? channels : small()};
    for (std::int64_t axis = 2; axis < rank; ++axis)
      shape.push_back(rank == 5 ? number(2, 4) : chance(0.7) ? (axis == 2 ? height : width) : small());
    ir::Dims dims = ir::to_dims(shape);
    if (symbolic) dims[0] = ir::Dim::symbol("batch");
    const Id id = graph_.add_input("x" + std::to_string(i), ir::ValueType::tensor(DType::f32, dims));
    inputs_[graph_.value(id).name] = random_tensor(DType::f32, shape, random_.next_u64());
    values_.resize(graph_.value_count());
    values_[static_cast<std::size_t>(id.index)] = inputs_[graph_.value(id).name];
    offer(id);
    float_inputs_.push_back(id);
  }
}

GraphMaker::Id GraphMaker::pick(const std::function<bool(Id)>& filter) {
  std::vector<Id> candidates;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (filter && !filter(pool_[i])) continue;
    // The later, the likelier: chains grow, and some values are shared.
    candidates.insert(candidates.end(), i + 3 >= pool_.size() ? 4 : 1, pool_[i]);
  }
  need(!candidates.empty());
  return one_of(candidates);
}

GraphMaker::Id GraphMaker::input_of_floats() {
  return one_of(float_inputs_);
}

std::int64_t GraphMaker::known_axis(Id id, std::int64_t least_size) {
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = 0; axis < rank(id); ++axis) {
    if (known(id, axis) && size(id, axis) >= least_size) axes.push_back(axis);
  }
  need(!axes.empty());
  return one_of(axes);
}

bool GraphMaker::all_known(Id id, std::int64_t from) const {
  for (std::int64_t axis = from; axis < rank(id); ++axis) {
    if (!known(id, axis)) return false;
  }
  return true;
}

double GraphMaker::magnitude(Id id) const {
  return largest_magnitude(values_[static_cast<std::size_t>(id.index)].tensor());
}

GraphMaker::Id GraphMaker::weights(Shape shape, double low, double high) {
  return builder_.constant(random_tensor(DType::f32, shape, random_.next_u64(), low, high));
}

GraphMaker::Id GraphMaker::whole_weights(DType type, Shape shape, std::int64_t low, std::int64_t high) {
  return builder_.constant(
      random_tensor(type, shape, random_.next_u64(), static_cast<double>(low), static_cast<double>(high)));
}

GraphMaker::Id GraphMaker::broadcast_weights(Id id, double low, double high) {
  const std::int64_t first = chance(0.5) ? number(0, rank(id)) : 0;
  const bool per_channel = chance(0.4);
  Shape shape;
  for (std::int64_t axis = first; axis < rank(id); ++axis)
    shape.push_back(known(id, axis) && (per_channel ? axis == 1 : chance(0.6)) ? size(id, axis) : 1);
  return weights(shape, low, high);
}

void GraphMaker::set_exact(bool exact) {
  builder_.set_name_prefix(exact ? std::string(kExactPrefix) : "");
}

void GraphMaker::evaluate() {
  for (const ir::NodeId id : graph_.order()) {
    const ir::Node& node = graph_.node(id);
    const std::size_t first = static_cast<std::size_t>(node.outputs[0].index);
    if (first < values_.size() && values_[first].has_value()) continue;
    evaluate_node_of(graph_, id, values_);
    for (const Id output : node.outputs) {
      const Value& value = values_[static_cast<std::size_t>(output.index)];
      if (!agrees(graph_.value(output).type, value))
        throw std::logic_error("inference says " + ir::to_string(graph_.value(output).type) + ", but it is " +
                               to_string(value.tensor().shape()) + ": " + ir::print(graph_));
      need(is_good(value));
    }
  }
}

bool GraphMaker::attempt(const std::function<void(GraphMaker&)>& recipe) {
  const ir::Graph graph = graph_;
  const std::vector<Value> values = values_;
  const std::vector<Id> pool = pool_;
  set_exact(false);
  const auto undo = [&] {
    graph_ = graph;
    values_ = values;
    pool_ = pool;
    return false;
  };
  try {
    recipe(*this);
    evaluate();
  } catch (const NotHere&) {
    return undo();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::invalid_model || error.kind() == ErrorKind::failed) return undo();
    throw;
  }
  std::erase_if(pool_, [&](Id id) { return graph_.value(id).type.dtype != DType::f32 || !graph_.value(id).type.dims; });
  return true;
}

GraphCase GraphMaker::finish() {
  const auto uses = graph_.compute_uses();
  std::vector<Id> outputs;
  for (const ir::NodeId node : graph_.order()) {
    for (const Id id : graph_.node(node).outputs) {
      // Outputs of f64 would show how the f32 before them were rounded, and nothing else.
      if (graph_.value(id).type.dtype == DType::f64) continue;
      if (uses[static_cast<std::size_t>(id.index)].empty() || chance(0.06)) outputs.push_back(id);
    }
  }
  graph_.set_outputs(outputs);
  graph_.name = "random";
  ir::verify(graph_);
  return {std::move(graph_), std::move(inputs_)};
}

GraphCase random_graph(std::uint64_t seed, int nodes) {
  const std::vector<std::vector<Recipe>> families{element_wise_recipes(), element_wise_recipes(), movement_recipes(),
                                                  layer_recipes(),        layer_recipes(),        structure_recipes(),
                                                  quantised_recipes()};
  for (std::uint64_t trial = 0;; ++trial) {
    GraphMaker maker(seed + (trial << 48));
    maker.add_inputs();
    int done = 0;
    for (int tries = 0; done < nodes && tries < 20 * nodes; ++tries)
      done += maker.attempt(maker.one_of(maker.one_of(families))) ? 1 : 0;
    GraphCase made = maker.finish();
    if (!made.graph.outputs().empty() && is_well_conditioned(made)) return made;
  }
}

std::string describe(const GraphCase& graph_case) {
  std::string text = ir::print(graph_case.graph);
  for (const auto& [name, value] : graph_case.inputs)
    text += "# %" + name + " = " + ir::format_tensor(value.tensor(), std::nullopt) + "\n";
  return text;
}

}  // namespace tessera::test
