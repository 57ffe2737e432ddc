#include "train/net/pruning.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "io/toml_table.h"
#include "ops/core/builder.h"
#include "ops/core/gradient.h"
#include "train/net/layer_weights.h"
#include "train/net/magnitude_mask.h"
#include "train/net/training_graph.h"

namespace tessera::train {
namespace {

using ops::Term;

double share_in(io::TomlTable& table, const char* key, double otherwise) {
  const double value = table.number(key, otherwise);
  require(value >= 0 && value < 1, ErrorKind::invalid_argument, "prune.{} is {}, expected a number in [0, 1)", key,
          value);
  return value;
}

std::int64_t step_in(io::TomlTable& table, const char* key) {
  const std::int64_t value = table.whole(key, 0);
  require(value >= 0, ErrorKind::invalid_argument, "prune.{} is {}, expected at least 0", key, value);
  return value;
}

// The mask that is true where a weight is not zero.
Tensor nonzero_mask(const Tensor& weights) {
  Tensor mask(DType::boolean, weights.shape());
  std::ranges::transform(weights.values<float>(), mask.mutable_values<bool>().begin(),
                         [](float value) { return value != 0; });
  return mask;
}

// The group mask with only a part of its zeros: of the weights that the structure removes, those of the smallest
// magnitudes go first.
Tensor part_of_group_mask(const Tensor& weights, KeptOfGroup structure, std::int64_t axis, double sparsity) {
  Tensor ranked = weights.clone();
  const Tensor kept = group_mask(weights, structure, axis);
  const auto values = ranked.mutable_values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (kept.values<bool>()[i]) values[i] = HUGE_VALF;
  }
  return magnitude_mask(ranked, sparsity);
}

void mask_update(ops::GraphBuilder& builder, const Term& mask, const std::string& variable) {
  ir::Graph& graph = builder.graph();
  const auto found = std::ranges::find(graph.variables(), variable, &ir::Variable::name);
  if (found == graph.variables().end()) return;
  graph.set_variable_update(variable, mask.choose(Term(builder, found->update), 0).id());
}

}  // namespace

PruneOptions read_prune(io::TomlTable table) {
  PruneOptions prune;
  prune.sparsity = share_in(table, "sparsity", 0);
  prune.initial_sparsity = share_in(table, "initial_sparsity", 0);
  io::TomlTable layers = table.table("layers");
  for (const std::string& pattern : layers.keys()) prune.layers[pattern] = share_in(layers, pattern.c_str(), 0);
  prune.structure = table.text("structure", prune.structure);
  prune.scope = table.text("scope", prune.scope);
  require(prune.scope == "per_layer" || prune.scope == "global", ErrorKind::invalid_argument,
          "prune.scope is '{}', expected per_layer or global", prune.scope);
  prune.exclude = table.texts("exclude");
  prune.begin_step = step_in(table, "begin_step");
  prune.end_step = step_in(table, "end_step");
  prune.every = step_in(table, "every");
  prune.keep_zeros = table.boolean("keep_zeros", false);
  return prune;
}

std::string mask_of(const std::string& parameter) {
  return parameter + "/mask";
}

void add_masks(ir::Graph& step, const std::vector<std::string>& parameters) {
  ops::GraphBuilder builder(step);
  for (const std::string& name : parameters) {
    const auto found = std::ranges::find(step.variables(), name, &ir::Variable::name);
    Tensor all(DType::boolean, found->initial.shape());
    std::ranges::fill(all.mutable_values<bool>(), true);
    const Term mask(builder, step.add_variable(mask_of(name), std::move(all)));
    mask_update(builder, mask, name);
    mask_update(builder, mask, average_of(name));
  }
}

double scheduled_sparsity(double initial, double final, std::int64_t begin, std::int64_t end, std::int64_t step) {
  if (step < begin) return 0;
  if (step >= end) return final;
  const double left = 1 - static_cast<double>(step - begin) / static_cast<double>(end - begin);
  return final + (std::min(initial, final) - final) * left * left * left;
}

Pruner::Pruner(const ir::Graph& model, const std::vector<std::string>& parameters, PruneOptions options,
               std::int64_t steps)
    : options_(std::move(options)) {
  if (options_.end_step == 0) options_.end_step = std::max(options_.begin_step, steps * 2 / 3);
  if (options_.every == 0) options_.every = std::max<std::int64_t>(1, (options_.end_step - options_.begin_step) / 30);
  require(options_.begin_step <= options_.end_step && options_.end_step < steps, ErrorKind::invalid_argument,
          "weights are pruned from step {} to step {}, expected an interval within the {} steps of the training",
          options_.begin_step, options_.end_step, steps);
  const std::optional<KeptOfGroup> structure = parse_structure(options_.structure);
  std::vector<std::string> unused = options_.exclude;
  for (const auto& [pattern, share] : options_.layers) unused.push_back(pattern);
  for (const LayerWeight& weight : layer_weights(model)) {
    if (std::ranges::find(parameters, weight.name) == parameters.end()) continue;
    std::erase_if(unused, [&](const std::string& pattern) { return matches_any({pattern}, weight.name); });
    if (matches_any(options_.exclude, weight.name)) continue;
    Layer layer{weight.name, weight.input_axis, options_.sparsity};
    for (const auto& [pattern, share] : options_.layers) {
      if (matches_any({pattern}, weight.name)) layer.sparsity = share;
    }
    if (structure) {
      // Layers whose number of inputs is not a multiple of the group, such as a first convolution of 3 channels, stay
      // dense.
      if (weight.shape[static_cast<std::size_t>(weight.input_axis)] % structure->group != 0) continue;
      layer.sparsity = 1 - static_cast<double>(structure->kept) / static_cast<double>(structure->group);
    }
    if (layer.sparsity > 0 || options_.keep_zeros) layers_.push_back(std::move(layer));
  }
  require(unused.empty(), ErrorKind::invalid_argument, "prune: no weight of a layer has a name like '{}'",
          unused.empty() ? "" : unused[0]);
  require(!layers_.empty(), ErrorKind::invalid_argument,
          "prune: there is nothing to prune; give a sparsity above 0 or a structure such as '2:4' that fits the "
          "layers");
}

std::vector<std::string> Pruner::parameters() const {
  std::vector<std::string> names;
  for (const Layer& layer : layers_) names.push_back(layer.name);
  return names;
}

bool Pruner::is_due(std::int64_t step) const {
  if (options_.keep_zeros) return step == 0;
  if (step < options_.begin_step || step > options_.end_step) return false;
  return step == options_.end_step || (step - options_.begin_step) % options_.every == 0;
}

std::vector<Tensor> Pruner::masks_at(std::int64_t step, const std::vector<Tensor>& weights) const {
  const auto now = [&](double final) {
    return scheduled_sparsity(options_.initial_sparsity, final, options_.begin_step, options_.end_step, step);
  };
  const std::optional<KeptOfGroup> structure = parse_structure(options_.structure);
  if (!options_.keep_zeros && !structure && options_.scope == "global")
    return global_magnitude_masks(weights, now(options_.sparsity));
  std::vector<Tensor> masks;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double sparsity = now(layers_[i].sparsity);
    if (options_.keep_zeros) masks.push_back(nonzero_mask(weights[i]));
    else if (structure) masks.push_back(part_of_group_mask(weights[i], *structure, layers_[i].input_axis, sparsity));
    else masks.push_back(magnitude_mask(weights[i], sparsity));
  }
  return masks;
}

void Pruner::before_step(std::int64_t step, Session& session) const {
  if (!is_due(step)) return;
  const std::vector<std::string> known = session.variables()->names();
  std::vector<Tensor> weights;
  for (const Layer& layer : layers_) weights.push_back(session.variable(layer.name));
  const std::vector<Tensor> masks = masks_at(step, weights);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const std::string& name = layers_[i].name;
    session.set_variable(mask_of(name), masks[i]);
    session.set_variable(name, masked(weights[i], masks[i]));
    const std::string average = average_of(name);
    if (std::ranges::find(known, average) != known.end())
      session.set_variable(average, masked(session.variable(average), masks[i]));
  }
}

}  // namespace tessera::train
