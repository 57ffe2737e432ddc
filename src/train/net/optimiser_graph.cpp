#include "train/net/optimiser_graph.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "base/error.h"
#include "ops/op_table.h"
#include "train/net/fake_quantisation.h"
#include "train/net/layer_weights.h"
#include "train/net/training_graph.h"

namespace tessera::train {
namespace {

using ir::ValueId;

ir::Attributes attributes_of(const OptimiserOptions& options) {
  const double epsilon = options.name == "adagrad" ? 1e-10 : options.name == "lamb" ? 1e-6 : 1e-8;
  return {{"algorithm", options.name},
          {"momentum", static_cast<float>(options.momentum)},
          {"nesterov", std::int64_t{options.nesterov}},
          {"beta1", static_cast<float>(options.beta1)},
          {"beta2", static_cast<float>(options.beta2)},
          {"epsilon", static_cast<float>(options.epsilon < 0 ? epsilon : options.epsilon)},
          {"rate_decay", static_cast<float>(options.rate_decay)},
          {"trust", static_cast<float>(options.trust)}};
}

const ParameterGroup* group_of(const OptimiserOptions& options, const std::string& name) {
  const auto found = std::ranges::find_if(
      options.groups, [&](const ParameterGroup& group) { return matches_any(group.parameters, name); });
  return found == options.groups.end() ? nullptr : &*found;
}

float decay_of(const OptimiserOptions& options, const std::string& name) {
  if (matches_any(options.no_decay, name) || is_range_factor(name)) return 0;
  const ParameterGroup* group = group_of(options, name);
  return static_cast<float>(group != nullptr && group->weight_decay >= 0 ? group->weight_decay : options.weight_decay);
}

// The factor of the step's learning rate for this parameter.
double rate_factor_of(const OptimiserOptions& options, const std::string& name) {
  const ParameterGroup* group = group_of(options, name);
  return group != nullptr && group->learning_rate >= 0 ? group->learning_rate / options.learning_rate : 1;
}

void check_groups(const OptimiserOptions& options, const std::vector<std::string>& names) {
  for (const ParameterGroup& group : options.groups) {
    require(group.learning_rate < 0 || options.learning_rate > 0, ErrorKind::invalid_argument,
            "optimiser.groups has a learning rate, but that of the optimiser is 0");
    for (const std::string& pattern : group.parameters) {
      require(std::ranges::any_of(names, [&](const auto& name) { return matches_any({pattern}, name); }),
              ErrorKind::invalid_argument, "optimiser.groups: no trained weight has a name like '{}'", pattern);
    }
  }
}

// The optimiser's state variables for a parameter: none, the first, or both.
std::vector<std::string> state_names(const OptimiserOptions& options, const std::string& parameter) {
  const bool two = options.name == "adam" || options.name == "adamw" || options.name == "lamb";
  const bool one =
      options.name == "adagrad" || options.name == "lars" || (options.name == "sgd" && options.momentum != 0);
  std::vector<std::string> names;
  if (one || two) names.push_back(first_state_of(parameter));
  if (two) names.push_back(second_state_of(parameter));
  return names;
}

class Optimiser {
 public:
  Optimiser(ops::GraphBuilder& builder, const OptimiserOptions& options, const TrainedParameters& trained,
            const std::vector<ValueId>& scalars)
      : builder_(builder), options_(options), trained_(trained), scalars_(scalars) {}

  std::vector<ValueId> build() {
    check_groups(options_, trained_.names);
    std::vector<ValueId> updated(trained_.names.size());
    // Parameters whose gradients are not by rows, grouped by the factors of their learning rates.
    std::map<double, std::vector<std::size_t>, std::greater<>> whole;
    for (std::size_t i = 0; i < updated.size(); ++i) {
      if (i < trained_.rows.size() && trained_.rows[i]) updated[i] = add_rows(i);
      else whole[rate_factor_of(options_, trained_.names[i])].push_back(i);
    }
    for (const auto& [factor, parameters] : whole) {
      const std::vector<ValueId> made = add_whole(parameters, factor);
      for (std::size_t i = 0; i < parameters.size(); ++i) updated[parameters[i]] = made[i];
    }
    return updated;
  }

 private:
  ValueId add_state(std::size_t parameter, const std::string& name) {
    ir::Graph& graph = builder_.graph();
    return graph.add_variable(name, zero_tensor(DType::f32, *graph.value(trained_.values[parameter]).type.shape()));
  }

  // Adds the operator and returns the new value of each variable.
  std::vector<ValueId> add(const char* op, const std::vector<ValueId>& operands,
                           const std::vector<std::string>& variables, ir::Attributes attributes) {
    std::vector<ValueId> made = builder_.add_multi(op, operands, variables.size(), std::move(attributes));
    for (std::size_t i = 0; i < variables.size(); ++i) builder_.graph().set_variable_update(variables[i], made[i]);
    return made;
  }

  // The scalars of the step, with the learning rate multiplied by a factor.
  std::vector<ValueId> scalars_at(double factor) {
    std::vector<ValueId> scalars = scalars_;
    if (factor != 1) scalars[0] = (ops::Term(builder_, scalars[0]) * factor).id();
    return scalars;
  }

  std::vector<ValueId> add_whole(const std::vector<std::size_t>& parameters, double factor) {
    std::vector<ValueId> operands = scalars_at(factor);
    std::vector<std::string> variables;
    std::vector<float> decays;
    for (const std::size_t i : parameters) {
      variables.push_back(trained_.names[i]);
      decays.push_back(decay_of(options_, trained_.names[i]));
      operands.push_back(trained_.values[i]);
    }
    for (const std::size_t i : parameters) operands.push_back(trained_.gradients[i]);
    for (std::size_t state = 0; state < state_names(options_, "").size(); ++state) {
      for (const std::size_t i : parameters) {
        variables.push_back(state_names(options_, trained_.names[i])[state]);
        operands.push_back(add_state(i, variables.back()));
      }
    }
    ir::Attributes attributes = attributes_of(options_);
    attributes.emplace("weight_decays", std::move(decays));
    return add("tessera::OptimiserStep", operands, variables, std::move(attributes));
  }

  ValueId add_rows(std::size_t i) {
    std::vector<ValueId> operands = scalars_at(rate_factor_of(options_, trained_.names[i]));
    operands.insert(operands.end(), {trained_.values[i], trained_.rows[i]->sums, trained_.rows[i]->places});
    std::vector<std::string> variables{trained_.names[i]};
    for (const std::string& state : state_names(options_, trained_.names[i])) {
      variables.push_back(state);
      operands.push_back(add_state(i, state));
    }
    ir::Attributes attributes = attributes_of(options_);
    attributes.emplace("weight_decay", decay_of(options_, trained_.names[i]));
    attributes.emplace("lazy", std::int64_t{options_.lazy_rows});
    return add("tessera::RowOptimiserStep", operands, variables, std::move(attributes))[0];
  }

  ops::GraphBuilder& builder_;
  const OptimiserOptions& options_;
  const TrainedParameters& trained_;
  const std::vector<ValueId>& scalars_;
};

}  // namespace

Tensor zero_tensor(DType type, const Shape& shape) {
  Tensor tensor(type, shape);
  if (tensor.bytes() > 0) std::memset(tensor.mutable_raw(), 0, static_cast<std::size_t>(tensor.bytes()));
  return tensor;
}

void find_row_gradients(ops::GraphBuilder& builder, const OptimiserOptions& options, TrainedParameters& trained) {
  trained.rows.resize(trained.values.size());
  if (options.name == "lars" || options.name == "lamb") return;
  const ir::Graph& graph = builder.graph();
  for (std::size_t i = 0; i < trained.values.size(); ++i) {
    const ir::ValueInfo& gradient = graph.value(trained.gradients[i]);
    if (gradient.origin != ir::Origin::node) continue;
    const ir::Node scatter = graph.node(gradient.producer);
    if (scatter.op != "tessera::ScatterRows" || ops::AttributeReader(scatter, ops::op_of(scatter)).integer("axis") != 0)
      continue;
    const std::vector<ValueId> made = builder.add_multi("tessera::SumRows", scatter.inputs, 2);
    trained.rows[i] = RowGradient{made[0], made[1]};
    trained.gradients[i] = made[0];
  }
}

std::vector<ValueId> add_optimiser(ops::GraphBuilder& builder, const OptimiserOptions& options,
                                   const TrainedParameters& trained, const std::vector<ValueId>& scalars) {
  return Optimiser(builder, options, trained, scalars).build();
}

}  // namespace tessera::train
