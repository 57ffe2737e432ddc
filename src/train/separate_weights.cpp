#include "train/separate_weights.h"

#include <algorithm>
#include <set>

#include "passes/find.h"
#include "train/batch_norm.h"

namespace tessera::train {
namespace {

using ir::NodeId;
using ir::ValueId;

bool is_uniform(const Tensor* constant) {
  if (constant == nullptr || constant->dtype() != DType::f32 || constant->elements() < 2 || !constant->has_data())
    return false;
  const auto values = constant->values<float>();
  return std::ranges::all_of(values, [&](float value) { return value == values[0]; });
}

}  // namespace

ir::Graph separate_weights(ir::Graph model) {
  model = separate_batch_norm(std::move(model));
  std::set<ValueId> taken;  // constants that a use has to itself
  const std::vector<NodeId> order = model.order();
  for (const NodeId id : order) {
    if (model.node(id).op == "Identity") continue;
    for (std::size_t i = 0; i < model.node(id).inputs.size(); ++i) {
      const ValueId given = model.node(id).inputs[i], source = passes::source_of(model, given);
      if (!source.valid() || !is_uniform(model.constant(source))) continue;
      // The first use of each name keeps it.
      if (given != source) {
        const Tensor constant = *model.constant(source);
        model.become_constant(given, constant);
      }
      if (taken.insert(given).second) continue;
      const std::string name = model.fresh_name(model.value(given).name);
      model.node(id).inputs[i] = model.add_constant(*model.constant(given), name);
    }
  }
  return model;
}

}  // namespace tessera::train
