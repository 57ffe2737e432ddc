#include "compress/quantise/quantisable_layers.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "passes/pipeline.h"
#include "runtime/session/environment.h"

namespace tessera::compress {
namespace {

constexpr std::int64_t kSmallTable = 16384;  // elements: smaller tables are not worth quantising

bool has_value(const ir::Node& node, const char* name, std::int64_t value, std::int64_t otherwise) {
  const auto found = node.attributes.find(name);
  return (found == node.attributes.end() ? otherwise : std::get<std::int64_t>(found->second)) == value;
}

bool is_one(const ir::Node& node, const char* name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() || std::get<float>(found->second) == 1.0f;
}

bool has_input(const ir::Node& node, std::size_t i) {
  return node.inputs.size() > i && node.inputs[i].valid();
}

class Finder {
 public:
  explicit Finder(const ir::Graph& graph) : graph_(graph), uses_(graph.compute_uses()) {}

  std::vector<QuantisableLayer> run() {
    std::vector<QuantisableLayer> found;
    std::set<std::string> names;
    for (const ir::NodeId id : graph_.order()) {
      QuantisableLayer layer;
      layer.node = id;
      if (!describe(graph_.node(id), layer)) continue;
      const std::string given = module_of(layer).value_or(graph_.node(id).name);
      layer.name = given.empty() ? graph_.value(graph_.node(id).outputs[0]).name : given;
      for (int i = 2; !names.insert(layer.name).second; ++i) layer.name = fmt::format("{}#{}", given, i);
      found.push_back(std::move(layer));
    }
    return found;
  }

 private:
  // PyTorch's newer exporter numbers nodes ("node_MatMul_12"), but weights or biases have the names of their modules.
  std::optional<std::string> module_of(const QuantisableLayer& layer) const {
    if (!graph_.node(layer.node).name.starts_with("node_")) return std::nullopt;
    for (const auto& [value, ending] :
         {std::pair(layer.weight, std::string_view(".weight")), std::pair(layer.bias, std::string_view(".bias"))}) {
      if (!value.valid() || !graph_.value(value).name.ends_with(ending)) continue;
      const std::string& name = graph_.value(value).name;
      return name.substr(0, name.size() - ending.size());
    }
    return std::nullopt;
  }

  const Tensor* weights(ir::ValueId value, std::size_t least_rank, std::size_t most_rank) const {
    const Tensor* tensor = graph_.constant(value);
    const bool fits = tensor != nullptr && tensor->has_data() && tensor->dtype() == DType::f32 &&
                      tensor->shape().size() >= least_rank && tensor->shape().size() <= most_rank &&
                      tensor->elements() > 0;
    return fits ? tensor : nullptr;
  }

  bool is_vector(ir::ValueId value, std::int64_t length) const {
    const Tensor* tensor = graph_.constant(value);
    return tensor != nullptr && tensor->has_data() && tensor->dtype() == DType::f32 && tensor->shape() == Shape{length};
  }

  // Fills in all members but the name. Returns false if the node is no such layer.
  bool describe(const ir::Node& node, QuantisableLayer& layer) const {
    if (node.op == "Conv") return convolution(node, layer);
    if (node.op == "Gemm") return gemm(node, layer);
    if (node.op == "MatMul") return product(node, layer);
    return node.op == "Gather" && table(node, layer);
  }

  bool convolution(const ir::Node& node, QuantisableLayer& layer) const {
    const Tensor* w = weights(node.inputs[1], 3, 5);
    if (w == nullptr || graph_.is_constant(node.inputs[0])) return false;
    layer.kind = LayerKind::convolution;
    layer.data = node.inputs[0];
    layer.weight = node.inputs[1];
    if (has_input(node, 2)) layer.bias = node.inputs[2];
    return !layer.bias.valid() || is_vector(layer.bias, w->shape()[0]);
  }

  bool gemm(const ir::Node& node, QuantisableLayer& layer) const {
    const Tensor* w = weights(node.inputs[1], 2, 2);
    if (w == nullptr || graph_.is_constant(node.inputs[0]) || !has_value(node, "transA", 0, 0) ||
        !is_one(node, "alpha") || !is_one(node, "beta"))
      return false;
    layer.axis = has_value(node, "transB", 0, 0) ? 1 : 0;
    layer.data = node.inputs[0];
    layer.weight = node.inputs[1];
    if (has_input(node, 2)) layer.bias = node.inputs[2];
    return !layer.bias.valid() || is_vector(layer.bias, w->shape()[static_cast<std::size_t>(layer.axis)]);
  }

  // The constant of which the value is a Transpose, or the value itself.
  ir::ValueId untransposed(ir::ValueId value) const {
    if (graph_.value(value).origin != ir::Origin::node) return value;
    const ir::Node& node = graph_.node(graph_.value(value).producer);
    const auto perm = node.attributes.find("perm");
    const bool swaps = node.op == "Transpose" && perm != node.attributes.end() &&
                       std::get<std::vector<std::int64_t>>(perm->second) == std::vector<std::int64_t>{1, 0};
    return swaps ? node.inputs[0] : value;
  }

  bool product(const ir::Node& node, QuantisableLayer& layer) const {
    layer.weight = untransposed(node.inputs[1]);
    layer.transposed = layer.weight != node.inputs[1];
    const Tensor* w = weights(layer.weight, 2, 2);
    const ir::ValueType& type = graph_.value(node.inputs[0]).type;
    if (w == nullptr || graph_.is_constant(node.inputs[0]) || !type.dims || type.dims->size() < 2) return false;
    layer.axis = layer.transposed ? 0 : 1;
    layer.data = node.inputs[0];
    const auto& uses = uses_[static_cast<std::size_t>(node.outputs[0].index)];
    if (uses.size() != 1 || graph_.is_output(node.outputs[0]) || graph_.node(uses[0]).op != "Add") return true;
    for (const ir::ValueId input : graph_.node(uses[0]).inputs) {
      if (!is_vector(input, w->shape()[static_cast<std::size_t>(layer.axis)])) continue;
      layer.bias = input;
      layer.bias_add = uses[0];
    }
    return true;
  }

  bool table(const ir::Node& node, QuantisableLayer& layer) const {
    const Tensor* w = weights(node.inputs[0], 2, 2);
    if (w == nullptr || w->elements() < kSmallTable || !has_value(node, "axis", 0, 0)) return false;
    layer.kind = LayerKind::table;
    layer.data = node.inputs[1];
    layer.weight = node.inputs[0];
    return true;
  }

  const ir::Graph& graph_;
  const std::vector<std::vector<ir::NodeId>> uses_;
};

}  // namespace

std::vector<QuantisableLayer> quantisable_layers(const ir::Graph& graph) {
  return Finder(graph).run();
}

ir::Graph prepared_graph(const Model& model, const SessionOptions& session) {
  constexpr std::string_view kKept[] = {"sink_constants",           "fold_constants", "fold_shape_arithmetic",
                                        "inline_constant_branches", "remove_no_ops",  "merge_duplicates",
                                        "fold_channel_arithmetic"};
  return graph_after(kKept, model, session);
}

ir::Graph graph_after(std::span<const std::string_view> names, const Model& model, const SessionOptions& session) {
  runtime::ProgramEnvironment environment = runtime::make_environment(model, session);
  passes::PassContext& context = environment.pass_context;
  context.keeps_composite = [](const ir::Graph&, const ir::Node&) { return true; };
  passes::PipelineOptions pipeline;
  for (const passes::Pass& pass : passes::all_passes()) {
    if (std::ranges::find(names, pass.name) == names.end()) pipeline.without.emplace_back(pass.name);
  }
  return passes::run_pipeline(model.graph(), context, pipeline);
}

std::int64_t constant_bytes(const ir::Graph& graph) {
  return runtime::bytes_of_constants(graph, nullptr, true);
}

std::int64_t channel_axis(const QuantisableLayer& layer, std::int64_t rank) {
  return layer.kind == LayerKind::convolution ? 1 : rank - 1;
}

}  // namespace tessera::compress
