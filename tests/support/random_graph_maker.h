// How a random graph grows: see random_graph.h.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/numbers/philox.h"
#include "ops/core/builder.h"
#include "support/random_graph.h"

namespace tessera::test {

// Recipes ask for what they need with need() and pick(), which end the attempt when it is not there.
class GraphMaker {
 public:
  using Id = ir::ValueId;
  struct NotHere {};

  explicit GraphMaker(std::uint64_t seed) : random_(seed, 77), builder_(graph_) {}
  GraphMaker(const GraphMaker&) = delete;
  GraphMaker& operator=(const GraphMaker&) = delete;

  void add_inputs();
  // Runs one recipe; whatever it did is undone when it does not fit or its values are no good. False then.
  bool attempt(const std::function<void(GraphMaker&)>& recipe);
  GraphCase finish();

  // --- for recipes ---
  static void need(bool condition) {
    if (!condition) throw NotHere{};
  }
  std::int64_t number(std::int64_t low, std::int64_t high) { return random_.next_integer(low, high); }
  bool chance(double probability) { return random_.next_uniform() < probability; }
  template <typename T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(number(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

  // An f32 value so far, rather a recent one, that the filter takes.
  Id pick(const std::function<bool(Id)>& filter = {});
  Id input_of_floats();  // a graph input, or what only moves its data
  const ir::Dims& dims(Id id) const { return *graph_.value(id).type.dims; }
  std::int64_t rank(Id id) const { return static_cast<std::int64_t>(dims(id).size()); }
  bool known(Id id, std::int64_t axis) const { return dims(id)[static_cast<std::size_t>(axis)].is_known(); }
  std::int64_t size(Id id, std::int64_t axis) const { return dims(id)[static_cast<std::size_t>(axis)].value(); }
  std::int64_t known_axis(Id id, std::int64_t least_size = 1);  // an axis whose size is a number
  bool all_known(Id id, std::int64_t from = 0) const;
  double magnitude(Id id) const;  // the largest in what it has in the run

  Id op(std::string name, std::vector<Id> inputs, ir::Attributes attributes = {}) {
    return builder_.add(std::move(name), std::move(inputs), std::move(attributes));
  }
  std::vector<Id> op_multi(std::string name, std::vector<Id> inputs, std::size_t outputs,
                           ir::Attributes attributes = {}) {
    return builder_.add_multi(std::move(name), std::move(inputs), outputs, std::move(attributes));
  }
  Id weights(Shape shape, double low = -1, double high = 1);
  Id whole_weights(DType type, Shape shape, std::int64_t low, std::int64_t high);
  Id scalar(double value) { return builder_.scalar(value); }
  Id integers(std::vector<std::int64_t> values) { return builder_.integers(std::move(values)); }
  // A constant that broadcasts to the value: each dimension that is a number, or 1, or left out in front.
  Id broadcast_weights(Id id, double low = -1, double high = 1);
  // The value has this for whoever comes next.
  void offer(Id id) { pool_.push_back(id); }
  // Nodes from here on are exact (see evaluate_graph.h).
  void set_exact(bool exact);
  ops::GraphBuilder& builder() { return builder_; }

 private:
  void evaluate();

  base::Philox random_;
  ir::Graph graph_;
  ops::GraphBuilder builder_;
  NamedValues inputs_;
  std::vector<Value> values_;
  std::vector<Id> pool_, float_inputs_;
};

using Recipe = std::function<void(GraphMaker&)>;
// By family, each with recipes of about equal weight.
std::vector<Recipe> element_wise_recipes();
std::vector<Recipe> movement_recipes();
std::vector<Recipe> layer_recipes();
std::vector<Recipe> structure_recipes();
std::vector<Recipe> quantised_recipes();

}  // namespace tessera::test
