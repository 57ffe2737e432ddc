#include "report/explain/graph_cost.h"

#include <algorithm>
#include <map>

#include "backends/backend_table.h"
#include "backends/reference/reference_device.h"
#include "base/error.h"
#include "cost/evaluation.h"
#include "ir/graph.h"
#include "ops/core/infer.h"
#include "ops/op_table.h"
#include "passes/pass.h"
#include "plan/choose_kernel.h"
#include "runtime/run/evaluate.h"
#include "runtime/session/assumed_dims.h"

namespace tessera::report {
namespace {

double bytes_of(const ir::ValueType& type) {
  const std::optional<Shape> shape = type.is_tensor() ? type.shape() : std::nullopt;
  return shape && type.dtype != DType::undefined ? static_cast<double>(byte_count(type.dtype, *shape)) : 0;
}

// The bytes of constants, and the most bytes of other values that are live at one time. A view takes no bytes of its
// own.
double resident_bytes(const ir::Graph& graph) {
  const std::vector<ir::NodeId>& order = graph.order();
  std::vector<std::size_t> root(graph.value_count()), last_step(graph.value_count(), order.size());
  double constants = 0;
  for (std::size_t i = 0; i < root.size(); ++i) {
    root[i] = i;
    if (const Tensor* constant = graph.constant({static_cast<std::int32_t>(i)}))
      constants += static_cast<double>(constant->bytes());
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const ir::Node& node = graph.node(order[i]);
    for (const ir::ValueId input : node.inputs) {
      if (input.valid()) last_step[root[static_cast<std::size_t>(input.index)]] = i;
    }
    const bool view =
        ops::op_of(node).view && !node.outputs.empty() && node.inputs[0].valid() && node.outputs[0].valid();
    if (view)
      root[static_cast<std::size_t>(node.outputs[0].index)] = root[static_cast<std::size_t>(node.inputs[0].index)];
  }
  std::vector<double> freed(order.size() + 1);
  for (std::size_t i = 0; i < root.size(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    if (graph.value(id).origin == ir::Origin::node && root[i] == i)
      freed[last_step[i]] += bytes_of(graph.value(id).type);
  }
  double live = 0, most = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const ir::ValueId output : graph.node(order[i]).outputs) {
      if (output.valid() && root[static_cast<std::size_t>(output.index)] == static_cast<std::size_t>(output.index))
        live += bytes_of(graph.value(output).type);
    }
    most = std::max(most, live);
    live -= freed[i];
  }
  return constants + most;
}

// The graph with the sizes in `dims`, or 1, for open dimensions of its inputs, and with all sizes that follow from
// them, including those of values whose shape is computed by a few small nodes.
ir::Graph with_numbers(ir::Graph graph, const std::map<std::string, std::int64_t>& dims) {
  for (const ir::ValueId id : graph.inputs()) {
    ir::ValueType& type = graph.value(id).type;
    if (!type.is_tensor() || !type.dims) continue;
    for (std::size_t axis = 0; axis < type.dims->size(); ++axis) {
      ir::Dim& dim = (*type.dims)[axis];
      if (dim.is_known()) continue;
      const auto found = dims.find(runtime::dim_name(graph.value(id), axis));
      dim = found != dims.end() ? found->second : 1;
    }
  }
  ops::infer_graph(graph);
  passes::FoldingBudget budget{.bytes = 1 << 20, .operations = 1e6};
  passes::PassContext context;
  context.evaluate = [](const ir::Node& node, std::span<const Value> inputs) {
    return runtime::evaluate_node(backends::reference_device(), node, inputs, {});
  };
  context.folding_left = &budget;
  const ir::Graph folded = passes::fold_constants(graph, context);
  std::map<std::string_view, const ir::ValueType*> types;
  for (std::size_t i = 0; i < folded.value_count(); ++i) {
    const ir::ValueInfo& value = folded.value({static_cast<std::int32_t>(i)});
    if (value.type.is_tensor() && value.type.shape()) types.emplace(value.name, &value.type);
  }
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    ir::ValueInfo& value = graph.value({static_cast<std::int32_t>(i)});
    const auto found = types.find(value.name);
    if (value.origin == ir::Origin::node && value.type.is_tensor() && !value.type.shape() && found != types.end())
      value.type = *found->second;
  }
  return graph;
}

}  // namespace

GraphMeasure graph_measure(const cost::DeviceProfile& profile, const std::string& device,
                           const std::map<std::string, std::int64_t>& dims) {
  return [profile, dims, kernels = &backends::find_device(device)](const ir::Graph& given) {
    GraphCost result;
    ir::Graph graph;
    try {
      graph = with_numbers(given, dims);
    } catch (const Error&) {
      result.unknown_nodes = static_cast<std::int64_t>(given.node_count());
      return result;
    }
    std::vector<cost::Work> works = cost::work_of(graph, {}, &result.unknown_nodes);
    for (cost::Work& work : works) {
      if (const backends::KernelEntry* kernel = plan::find_kernel(*kernels, graph, graph.node(work.node)))
        work.kernel = kernel->name;
    }
    const cost::Total total =
        cost::evaluate(std::move(works), profile, cost::Precision::f32, {resident_bytes(graph)}).total;
    result.operations = total.operations;
    result.bytes = total.bytes;
    result.seconds = total.seconds;
    return result;
  };
}

}  // namespace tessera::report
