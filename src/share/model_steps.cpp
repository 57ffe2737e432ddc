#include "share/model_steps.h"

#include <algorithm>
#include <optional>

#include "cost/alignment.h"
#include "cost/roofline.h"
#include "cost/work.h"
#include "models/models.h"

namespace tessera::share {
namespace {

std::int64_t bytes_of(const ir::ValueType& type) {
  const std::optional<Shape> shape = type.is_tensor() ? type.shape() : std::nullopt;
  return shape && type.dtype != DType::undefined ? byte_count(type.dtype, *shape) : 0;
}

std::int64_t constant_bytes(const ir::Graph& graph) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const ir::ValueId id{static_cast<std::int32_t>(i)};
    if (graph.constant(id) != nullptr) bytes += bytes_of(graph.value(id).type);
  }
  return bytes;
}

// All intermediate values together, and the most of them that are needed at one time.
std::pair<std::int64_t, std::int64_t> intermediate_bytes(const ir::Graph& graph) {
  const std::vector<ir::NodeId>& order = graph.order();
  std::vector<std::size_t> last_step(graph.value_count(), order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const ir::ValueId input : graph.node(order[i]).inputs) {
      if (input.valid()) last_step[static_cast<std::size_t>(input.index)] = i;
    }
  }
  std::vector<std::int64_t> freed(order.size() + 1);
  std::int64_t all = 0, live = 0, most = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const ir::ValueId output : graph.node(order[i]).outputs) {
      if (!output.valid()) continue;
      const std::int64_t bytes = bytes_of(graph.value(output).type);
      all += bytes, live += bytes;
      freed[last_step[static_cast<std::size_t>(output.index)]] += bytes;
    }
    most = std::max(most, live);
    live -= freed[i];
  }
  return {all, most};
}

std::map<std::string, std::int64_t> with_usual_dims(const std::string& model,
                                                    std::map<std::string, std::int64_t> dims) {
  for (const models::ModelEntry& entry : models::all_models()) {
    if (entry.name != model) continue;
    for (const auto& [name, size] : {std::pair{"batch", 1}, std::pair{"seq", 128}}) {
      if (entry.dims.find(name) != std::string_view::npos) dims.try_emplace(name, size);
    }
  }
  return dims;
}

}  // namespace

ModelSteps model_steps(const std::string& model, std::map<std::string, std::int64_t> dims, bool training,
                       cost::Precision precision, const cost::DeviceProfile& profile) {
  const ir::Graph graph =
      models::build_model(model, {.dims = with_usual_dims(model, std::move(dims)), .seed = 1, .fill_weights = false});
  ModelSteps result;
  for (const cost::Work& work : cost::work_of(graph, cost::precisions_for(profile, precision))) {
    const cost::Estimate estimate = cost::estimate(work, profile, cost::align(work, profile).utilisation());
    if (estimate.seconds <= 0) continue;
    result.steps.push_back({std::max<std::int64_t>(1, static_cast<std::int64_t>(estimate.seconds * 1e9)),
                            {std::min(1.0, estimate.arithmetic_seconds / estimate.seconds),
                             std::min(1.0, estimate.memory_seconds / estimate.seconds), 0}});
  }
  result.persistent_bytes = constant_bytes(graph);
  const auto [all, most] = intermediate_bytes(graph);
  result.temporary_bytes = most;
  if (!training) return result;
  for (std::size_t i = result.steps.size(); i-- > 0;) {
    SimulatedStep back = result.steps[i];
    back.ns *= 2;
    result.steps.push_back(back);
  }
  result.persistent_bytes *= 3;
  result.temporary_bytes = 2 * all;
  return result;
}

}  // namespace tessera::share
