#include <algorithm>

#include "base/error.h"
#include "models/layers.h"
#include "tessera/graph.h"

namespace tessera {

using models::LayerBuilder;

struct NetBuilder::State {
  State(std::string name, std::uint64_t seed) : layers(graph, options) {
    graph.name = std::move(name);
    options.seed = seed;
  }

  ir::ValueId id_of(std::int32_t index) const {
    if (index < 0) return {};
    require(static_cast<std::size_t>(index) < graph.value_count(), ErrorKind::invalid_argument,
            "a value of another net was used in net '{}'", graph.name);
    return {index};
  }

  // The size of an axis of x, counted from the end where negative.
  std::int64_t size_of(ir::ValueId x, std::int64_t axis, const std::string& layer) const {
    const std::optional<ir::Dims>& dims = graph.value(x).type.dims;
    const std::int64_t rank = dims ? static_cast<std::int64_t>(dims->size()) : 0;
    const std::int64_t at = axis < 0 ? axis + rank : axis;
    require(dims && at >= 0 && at < rank && (*dims)[static_cast<std::size_t>(at)].is_known(),
            ErrorKind::invalid_argument, "layer '{}' needs the size of axis {} of its input, which is {}", layer, axis,
            ir::to_string(graph.value(x).type));
    return (*dims)[static_cast<std::size_t>(at)].value();
  }

  ir::Graph graph;
  models::BuildOptions options;
  LayerBuilder layers;
};

namespace {

ir::Attribute converted(const NetAttribute& attribute) {
  if (const auto* value = std::get_if<double>(&attribute)) return static_cast<float>(*value);
  if (const auto* values = std::get_if<std::vector<double>>(&attribute))
    return std::vector<float>(values->begin(), values->end());
  return std::visit(
      []<typename T>(const T& value) -> ir::Attribute {
        if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::vector<double>>) return {};
        else return value;
      },
      attribute);
}

}  // namespace

NetBuilder::NetBuilder(std::string name, std::uint64_t seed) : state_(std::make_unique<State>(std::move(name), seed)) {}
NetBuilder::~NetBuilder() = default;
NetBuilder::NetBuilder(NetBuilder&&) noexcept = default;
NetBuilder& NetBuilder::operator=(NetBuilder&&) noexcept = default;

NetValue NetBuilder::input(const std::string& name, DType dtype, const std::vector<NetDim>& dims) {
  ir::Dims sizes;
  for (const NetDim& dim : dims) {
    if (const auto* symbol = std::get_if<std::string>(&dim)) sizes.push_back(ir::Dim::symbol(*symbol));
    else sizes.emplace_back(std::get<std::int64_t>(dim));
  }
  return NetValue(state_->layers.input(name, dtype, std::move(sizes)).index);
}

void NetBuilder::output(const std::string& name, NetValue value) {
  state_->layers.output(name, state_->id_of(value.index_));
}

NetValue NetBuilder::constant(Tensor value, const std::string& name) {
  return NetValue(state_->graph.add_constant(std::move(value), name).index);
}

NetValue NetBuilder::weight(const std::string& name, Shape shape, double standard_deviation, double mean) {
  return NetValue(state_->layers.weight(name, std::move(shape), standard_deviation, mean).index);
}

NetValue NetBuilder::add(const std::string& op, const std::vector<NetValue>& inputs, const NetAttributes& attributes) {
  return add(op, inputs, 1, attributes)[0];
}

std::vector<NetValue> NetBuilder::add(const std::string& op, const std::vector<NetValue>& inputs, std::size_t outputs,
                                      const NetAttributes& attributes) {
  std::vector<ir::ValueId> operands;
  for (const NetValue& value : inputs) operands.push_back(state_->id_of(value.index_));
  ir::Attributes given;
  for (const auto& [name, attribute] : attributes) given.emplace(name, converted(attribute));
  std::vector<NetValue> values;
  for (const ir::ValueId id : state_->layers.ops().add_multi(op, std::move(operands), outputs, std::move(given)))
    values.push_back(NetValue(id.index));
  return values;
}

NetValue NetBuilder::conv(const std::string& name, NetValue x, std::int64_t channels, const Window& window) {
  const ir::ValueId id = state_->id_of(x.index_);
  const LayerBuilder::Window given{window.kernel, window.stride, window.padding, window.groups, window.bias};
  return NetValue(state_->layers.conv(name, id, state_->size_of(id, 1, name), channels, given).index);
}

NetValue NetBuilder::batch_norm(const std::string& name, NetValue x) {
  const ir::ValueId id = state_->id_of(x.index_);
  const std::int64_t channels = state_->size_of(id, 1, name);
  return add("BatchNormalization",
             {x, weight(name + ".weight", {channels}, 0, 1), weight(name + ".bias", {channels}, 0),
              weight(name + ".mean", {channels}, 0), weight(name + ".variance", {channels}, 0, 1)});
}

NetValue NetBuilder::max_pool(NetValue x, std::vector<std::int64_t> kernel, std::int64_t stride, std::int64_t padding) {
  return NetValue(state_->layers.max_pool(state_->id_of(x.index_), std::move(kernel), stride, padding).index);
}
NetValue NetBuilder::global_average_pool(NetValue x) {
  return add("GlobalAveragePool", {x});
}
NetValue NetBuilder::flatten(NetValue x) {
  return add("Flatten", {x}, {{"axis", std::int64_t{1}}});
}

NetValue NetBuilder::linear(const std::string& name, NetValue x, std::int64_t features, bool bias) {
  const ir::ValueId id = state_->id_of(x.index_);
  return NetValue(state_->layers.linear(name, id, state_->size_of(id, -1, name), features, bias).index);
}

NetValue NetBuilder::layer_norm(const std::string& name, NetValue x) {
  const std::int64_t features = state_->size_of(state_->id_of(x.index_), -1, name);
  return add("LayerNormalization",
             {x, weight(name + ".weight", {features}, 0, 1), weight(name + ".bias", {features}, 0)},
             {{"epsilon", 1e-5}});
}

NetValue NetBuilder::embedding(const std::string& name, NetValue indices, std::int64_t rows, std::int64_t features) {
  return NetValue(state_->layers.embedding(name, state_->id_of(indices.index_), rows, features).index);
}

NetValue NetBuilder::attention(const std::string& name, NetValue x, std::int64_t heads) {
  const ir::ValueId id = state_->id_of(x.index_);
  const std::int64_t width = state_->size_of(id, -1, name);
  require(heads > 0 && width % heads == 0, ErrorKind::invalid_argument, "layer '{}': {} heads do not divide width {}",
          name, heads, width);
  state_->layers.scope(name);
  const ir::ValueId result = state_->layers.attention(id, width, heads);
  state_->layers.scope("");
  return NetValue(result.index);
}

NetValue NetBuilder::relu(NetValue x) {
  return add("Relu", {x});
}
NetValue NetBuilder::gelu(NetValue x) {
  return add("Gelu", {x});
}
NetValue NetBuilder::softmax(NetValue x, std::int64_t axis) {
  return add("Softmax", {x}, {{"axis", axis}});
}
NetValue NetBuilder::sum(NetValue a, NetValue b) {
  return add("Add", {a, b});
}

std::string NetBuilder::type_of(NetValue value) const {
  return ir::to_string(state_->graph.value(state_->id_of(value.index_)).type);
}

Model NetBuilder::build() {
  require(!state_->graph.outputs().empty(), ErrorKind::invalid_argument, "net '{}' has no output", state_->graph.name);
  auto graph = std::make_shared<const ir::Graph>(state_->graph);
  state_ = std::make_unique<State>(graph->name, state_->options.seed);
  return Model(std::move(graph));
}

}  // namespace tessera
