#include "train/net/separate_weights.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "ir/constant_role.h"
#include "passes/find.h"
#include "train/net/batch_norm.h"

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

// Whether the names are equal except for their numbers, as those of copied layers are: layers.0.weight,
// layers.1.weight.
bool names_copies(std::string_view a, std::string_view b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      while (i < a.size() && is_digit(a[i])) ++i;
      while (j < b.size() && is_digit(b[j])) ++j;
    } else if (a[i++] != b[j++]) {
      return false;
    }
  }
  return i == a.size() && j == b.size() && a != b;
}

bool is_copied_weight(const ir::Graph& model, ValueId given, ValueId source) {
  const Tensor* constant = model.constant(source);
  return given != source && constant != nullptr && constant->dtype() == DType::f32 && constant->rank() > 0 &&
         names_copies(model.value(given).name, model.value(source).name);
}

}  // namespace

ir::Graph separate_weights(ir::Graph model) {
  model = separate_batch_norm(std::move(model));
  std::set<ValueId> taken;  // constants that belong to a single use
  const std::vector<NodeId> order = model.order();
  for (const NodeId id : order) {
    if (model.node(id).op == "Identity") continue;
    for (std::size_t i = 0; i < model.node(id).inputs.size(); ++i) {
      const ValueId given = model.node(id).inputs[i], source = passes::source_of(model, given);
      if (!source.valid() || (!is_uniform(model.constant(source)) && !is_copied_weight(model, given, source))) continue;
      // The first use of each name keeps the constant.
      if (given != source) {
        const Tensor constant = *model.constant(source);
        model.become_constant(given, constant);
        ir::copy_role(model, source, given);
      }
      if (taken.insert(given).second) continue;
      const std::string name = model.fresh_name(model.value(given).name);
      const ValueId own = model.add_constant(*model.constant(given), name);
      ir::copy_role(model, given, own);
      model.node(id).inputs[i] = own;
    }
  }
  return model;
}

}  // namespace tessera::train
