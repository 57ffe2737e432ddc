#include "cost/product.h"

#include "ops/op_table.h"

namespace tessera::cost {

bool is_product(std::string_view op) {
  const ops::OpDef* const definition = ops::find_op(op);
  return definition != nullptr && definition->product != nullptr;
}

std::optional<Product> product_of(const ir::Graph& graph, const ops::NodeView& view) {
  const ops::OpDef* const definition = ops::find_op(view.node().op);
  return definition != nullptr && definition->product != nullptr ? definition->product(graph, view) : std::nullopt;
}

}  // namespace tessera::cost
