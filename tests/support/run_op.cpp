#include "support/run_op.h"

#include "backends/backend_table.h"
#include "base/threads/thread_pool.h"
#include "ops/core/infer.h"
#include "runtime/run/evaluate.h"

namespace tessera::test {
namespace {

ir::Node make_node(const std::string& op, std::size_t inputs, const ir::Attributes& attributes, std::size_t outputs) {
  ir::Node node{op, "under_test", std::vector<ir::ValueId>(inputs), {}, attributes, 0};
  for (std::size_t i = 0; i < outputs; ++i) node.outputs.push_back(ir::ValueId{static_cast<std::int32_t>(1000 + i)});
  return node;
}

}  // namespace

ops::TensorType concrete(const ir::ValueType& type) {
  const std::optional<Shape> shape = type.is_tensor() ? type.shape() : std::nullopt;
  return shape ? ops::TensorType{type.dtype, *shape} : ops::TensorType{};
}

std::vector<Value> run_op(const OpCall& call, std::string_view device, int threads) {
  return run_op_on(backends::find_device(device), call, threads);
}

std::vector<Value> run_op_on(const backends::Device& device, const OpCall& call, int threads) {
  ir::Node node = make_node(call.op, call.inputs.size(), call.attributes, call.outputs);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].has_value()) node.inputs[i] = ir::ValueId{static_cast<std::int32_t>(i)};
  }
  static base::ThreadPool pool(4);  // more threads than this machine may have cores: results must not depend on them
  base::ThreadPool::CoreLease lease(pool);
  return runtime::evaluate_node(device, node, call.inputs, {&pool, threads, 0});
}

Tensor run_op_tensor(const OpCall& call, std::string_view device, int threads) {
  return run_op(call, device, threads)[0].tensor();
}

std::vector<ir::ValueType> infer_op(const std::string& op, const std::vector<ir::ValueType>& inputs,
                                    const ir::Attributes& attributes, std::size_t outputs,
                                    const std::vector<Tensor>& constants) {
  ir::Graph graph;
  ir::Node node = make_node(op, inputs.size(), attributes, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    node.inputs[i] = graph.add_input("input" + std::to_string(i), inputs[i]);
  return ops::infer_node(graph, node, [&](ir::ValueId id) {
    const auto i = static_cast<std::size_t>(id.index);
    return i < constants.size() && constants[i].has_value() ? &constants[i] : nullptr;
  });
}

}  // namespace tessera::test
