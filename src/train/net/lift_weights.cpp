#include "train/net/lift_weights.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ir/constant_role.h"

namespace tessera::train {
namespace {

using ir::NodeId;
using ir::ValueId;

struct Body {
  std::string attribute;
  ir::Graph graph;
};

bool is_weight(const ir::Graph& body, ValueId id) {
  const Tensor* constant = body.constant(id);
  if (constant == nullptr || constant->dtype() != DType::f32 || constant->rank() == 0) return false;
  const ir::ConstantRole role = ir::role_of(body, id);
  return role == ir::ConstantRole::unmarked || role == ir::ConstantRole::parameter;
}

// The constant outside of the body that this one is a copy of, or a new one.
ValueId constant_outside(ir::Graph& model, const ir::Graph& body, ValueId id) {
  const Tensor& constant = *body.constant(id);
  const std::string& name = body.value(id).name;
  const ValueId found = model.find_value(name);
  const Tensor* same = found.valid() ? model.constant(found) : nullptr;
  if (same != nullptr && same->shares_storage_with(constant) && same->shape() == constant.shape()) return found;
  const ValueId outside = model.add_constant(constant, found.valid() ? model.fresh_name(name) : name);
  ir::set_role(model, outside, ir::role_of(body, id));
  return outside;
}

void lift(ir::Graph& model, NodeId id) {
  std::vector<Body> bodies;
  for (const auto& [name, body] : ir::subgraphs_of(model.node(id))) bodies.push_back({name, lift_weights(*body)});
  // the constant outside, and its copies by body
  std::vector<std::pair<ValueId, std::map<std::size_t, ValueId>>> lifted;
  for (std::size_t b = 0; b < bodies.size(); ++b) {
    const ir::Graph& body = bodies[b].graph;
    const auto uses = body.compute_uses();
    for (std::size_t i = 0; i < body.value_count(); ++i) {
      const ValueId inside{static_cast<std::int32_t>(i)};
      if (!is_weight(body, inside) || (uses[i].empty() && !body.is_output(inside))) continue;
      const ValueId outside = constant_outside(model, body, inside);
      auto entry = lifted.begin();
      while (entry != lifted.end() && (entry->first != outside || entry->second.contains(b))) ++entry;
      if (entry == lifted.end()) entry = lifted.insert(entry, {outside, {}});
      entry->second[b] = inside;
    }
  }
  if (lifted.empty()) return;
  for (const auto& [outside, places] : lifted) {
    for (std::size_t b = 0; b < bodies.size(); ++b) {
      ir::Graph& body = bodies[b].graph;
      const std::string& name = model.value(outside).name;
      const ValueId input = body.add_input(body.fresh_name(name), model.value(outside).type);
      if (const auto found = places.find(b); found != places.end()) body.replace_uses(found->second, input);
    }
    model.node(id).inputs.push_back(outside);
    ++model.node(id).captures;
  }
  for (Body& body : bodies) {
    body.graph.remove_dead_and_compact();
    model.node(id).attributes[body.attribute] = std::make_shared<const ir::Graph>(std::move(body.graph));
  }
}

}  // namespace

ir::Graph lift_weights(ir::Graph model) {
  const std::vector<NodeId> order = model.order();
  for (const NodeId id : order) {
    if (!ir::subgraphs_of(model.node(id)).empty()) lift(model, id);
  }
  return model;
}

}  // namespace tessera::train
