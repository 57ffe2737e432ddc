#include "compress/core/graph_facts.h"

#include "ops/op_table.h"
#include "passes/find.h"

namespace tessera::compress {

std::size_t rank_of(const ir::Graph& graph, ir::ValueId value) {
  const ir::Dims* dims = passes::dims_of(graph, value);
  return dims != nullptr ? dims->size() : 0;
}

std::int64_t size_of(const ir::Graph& graph, ir::ValueId value, std::size_t axis) {
  const ir::Dims* dims = passes::dims_of(graph, value);
  return dims != nullptr && axis < dims->size() && (*dims)[axis].is_known() ? (*dims)[axis].value() : -1;
}

std::size_t axis_at(std::int64_t axis, std::size_t rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

bool is_element_wise(const ir::Node& node) {
  const ops::OpDef* op = ops::find_op(node.op);
  return op != nullptr && op->element_wise != ops::ElementWise::no && op->element_wise != ops::ElementWise::along_axis;
}

std::int64_t count_parameters(const ir::Graph& graph) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Tensor* constant = graph.constant({static_cast<std::int32_t>(i)});
    if (constant != nullptr && constant->dtype() == DType::f32) count += constant->elements();
  }
  return count;
}

}  // namespace tessera::compress
