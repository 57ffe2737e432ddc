// Entry points of graphs.
#include <map>

#include "driver/capture.h"
#include "driver/exports.h"
#include "driver/queues.h"

namespace tessera::cuda::driver {
namespace {

enum UpdateResult : int {  // CUgraphExecUpdateResult
  kUpdated = 0,
  kTopologyChanged = 2,
  kNodeTypeChanged = 3,
  kParametersChanged = 5,
};

template <class Table, class Handle>
auto& object_of(Table& table, Handle handle) {
  const auto found = table.find(handle);
  require(found != table.end());  // the manual lists CUDA_ERROR_INVALID_VALUE for graphs
  return *found->second;
}

std::size_t kind_of(const GraphNodeObject& node) {
  return node.work ? 1 + node.work->index() : 0;
}

// "Changing either the source or destination memory type(i.e. CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY, etc.) is not
// supported." "The CUDA device(s) to which the operand(s) was allocated/mapped cannot change."
bool parameters_may_become(const GraphNodeObject& before, const GraphNodeObject& after) {
  if (before.device != after.device) return false;
  if (!before.work || !std::holds_alternative<Copy>(*before.work)) return true;
  const Copy &old = std::get<Copy>(*before.work), &changed = std::get<Copy>(*after.work);
  const auto on_device = [](const Place& place) { return place.kind == Place::Kind::device; };
  return on_device(old.to) == on_device(changed.to) && on_device(old.from) == on_device(changed.from);
}

// Nodes are paired in the order of their creation, as captures of one program make them.
GraphUpdateInfo compare(const std::vector<GraphNodeObject>& before, std::vector<GraphNodeObject>& after) {
  // "The count of nodes directly in hGraphExec and hGraph differ, in which case resultInfo->errorNode is set to NULL."
  if (before.size() != after.size()) return {kTopologyChanged, nullptr, nullptr};
  for (std::size_t i = 0; i < after.size(); ++i) {
    GraphNodeObject& node = after[i];
    // "A node in hGraph has a different number of dependencies than the node from hGraphExec it is paired with, in
    // which case resultInfo->errorNode is set to the node from hGraph."
    if (node.dependencies.size() != before[i].dependencies.size()) return {kTopologyChanged, &node, nullptr};
    // "A node in hGraph has a dependency that does not match with the corresponding dependency of the paired node from
    // hGraphExec. [...] resultInfo->errorFromNode will be set to the mismatched dependency."
    for (std::size_t d = 0; d < node.dependencies.size(); ++d) {
      if (node.dependencies[d] != before[i].dependencies[d])
        return {kTopologyChanged, &node, &after[node.dependencies[d]]};
    }
    if (kind_of(before[i]) != kind_of(node)) return {kNodeTypeChanged, &node, nullptr};
    if (!parameters_may_become(before[i], node)) return {kParametersChanged, &node, nullptr};
  }
  return {kUpdated, nullptr, nullptr};
}

}  // namespace

extern "C" {

Result cuGraphInstantiateWithFlags(GraphExecHandle* recording, GraphHandle graph, unsigned long long flags) {
  return entry("cuGraphInstantiateWithFlags", [&](Simulator& simulator) {
    simulator.context();
    require(recording != nullptr);
    const GraphObject& object = object_of(simulator.graphs, graph);
    auto made = std::make_unique<GraphExecObject>();
    made->nodes = std::make_shared<const std::vector<GraphNodeObject>>(object.nodes);
    *recording = made.get();
    simulator.recordings[*recording] = std::move(made);
  });
}

// "cuGraphExecUpdate returns CUDA_SUCCESS when the updated was performed successfully. It returns
// CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE if the graph update was not performed because it included changes which violated
// constraints specific to instantiated graph update." Launches that are under way keep what they began with.
Result cuGraphExecUpdate(GraphExecHandle recording, GraphHandle graph, GraphUpdateInfo* info) {
  return entry("cuGraphExecUpdate", [&](Simulator& simulator) {
    simulator.context();
    require(info != nullptr);
    *info = {1, nullptr, nullptr};  // "CU_GRAPH_EXEC_UPDATE_ERROR if passed an invalid value."
    GraphExecObject& object = object_of(simulator.recordings, recording);
    GraphObject& changed = object_of(simulator.graphs, graph);
    *info = compare(*object.nodes, changed.nodes);
    require(info->result == kUpdated, kGraphExecUpdateFailure);
    object.nodes = std::make_shared<const std::vector<GraphNodeObject>>(changed.nodes);
  });
}

// "Executes hGraphExec in hStream. Only one instance of hGraphExec may be executing at a time. Each launch is ordered
// behind both any previous work in hStream and any previous launches of hGraphExec."
Result cuGraphLaunch(GraphExecHandle recording, StreamHandle stream) {
  return entry("cuGraphLaunch", [&](Simulator& simulator) {
    simulator.context();
    StreamObject& target = simulator.stream(stream);
    GraphExecObject& object = object_of(simulator.recordings, recording);
    refuse_legacy_stream_during_capture(simulator, target);
    if (target.capture != nullptr) return capture_graph(target, object.nodes);
    if (object.last_launch != nullptr && !object.last_launch->passed)
      enqueue(simulator, target, Wait{object.last_launch});
    const std::size_t count = object.nodes->size();
    enqueue(simulator, target, GraphRun{object.nodes, std::vector<bool>(count, false), count});
    object.last_launch = record(simulator, target);
  });
}

// Nodes are copied into each launch, so that those under way go on.
Result cuGraphExecDestroy(GraphExecHandle recording) {
  return release_entry("cuGraphExecDestroy",
                       [&](Simulator& simulator) { require(simulator.recordings.erase(recording) == 1); });
}

Result cuGraphDestroy(GraphHandle graph) {
  return release_entry("cuGraphDestroy", [&](Simulator& simulator) { require(simulator.graphs.erase(graph) == 1); });
}

}  // extern "C"

}  // namespace tessera::cuda::driver
