#include "tessera/prune.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "compress/core/graph_facts.h"
#include "compress/core/layer_label.h"
#include "compress/prune/features.h"
#include "compress/quantise/quantisable_layers.h"
#include "io/package.h"
#include "passes/find.h"
#include "tessera/optimise.h"
#include "tessera/version.h"
#include "train/net/layer_weights.h"
#include "train/net/magnitude_mask.h"
#include "train/net/trained_model.h"

namespace tessera {
namespace {

using compress::ChannelSet;
using compress::FeatureKind;
using compress::FeatureSets;
using train::LayerWeight;

std::int64_t count_nonzero(const Tensor& weights) {
  return weights.elements() - std::ranges::count(weights.values<float>(), 0.0f);
}

bool is_among(const std::vector<std::string>& only, const std::string& name) {
  return only.empty() || std::ranges::find(only, name) != only.end();
}

// The layers that may be pruned.
std::vector<LayerWeight> chosen_layers(const ir::Graph& graph, const OneShotPruneOptions& options) {
  std::vector<LayerWeight> layers = train::layer_weights(graph);
  const std::map<std::string, std::string> labels = compress::layer_labels(graph, layers);
  const auto matches = [&](const std::vector<std::string>& patterns, const LayerWeight& layer) {
    return train::matches_any(patterns, layer.name) || train::matches_any(patterns, labels.at(layer.name));
  };
  for (const std::string& name : options.only)
    require(std::ranges::find(layers, name, &LayerWeight::name) != layers.end(), ErrorKind::invalid_argument,
            "only: no layer has weights called '{}'", name);
  for (const std::string& pattern : options.exclude) {
    const bool used = std::ranges::any_of(layers, [&](const LayerWeight& layer) { return matches({pattern}, layer); });
    require(used, ErrorKind::invalid_argument, "exclude: no weight of a layer has a name like '{}'", pattern);
  }
  std::erase_if(layers, [&](const LayerWeight& layer) {
    return matches(options.exclude, layer) || !is_among(options.only, layer.name);
  });
  return layers;
}

// Returns nothing for "none". The message lists channels and heads too, which prune() handles before it calls this.
std::optional<train::KeptOfGroup> group_structure(const std::string& structure) {
  const bool is_group = structure.find(':') != std::string::npos;
  require(structure == "none" || is_group, ErrorKind::invalid_argument,
          "the structure is '{}', expected none, N:M such as 2:4, channels or heads", structure);
  return train::parse_structure(structure);
}

Model prune_weights(const Model& model, const OneShotPruneOptions& options, PruneReport& report) {
  const ir::Graph& graph = model.graph();
  const auto structure = group_structure(options.structure);
  std::vector<LayerWeight> layers = chosen_layers(graph, options);
  if (structure)
    std::erase_if(layers, [&](const LayerWeight& layer) {
      const bool fits = layer.shape[static_cast<std::size_t>(layer.input_axis)] % structure->group == 0;
      if (!fits) report.left_out.push_back(layer.name);
      return !fits;
    });
  require(!layers.empty(), ErrorKind::invalid_argument,
          "there is nothing to prune: the model has no float32 convolution or product with constant weights{}",
          structure ? fmt::format(" whose inputs are a multiple of {}", structure->group) : "");
  std::vector<Tensor> weights, masks;
  for (const LayerWeight& layer : layers) weights.push_back(*graph.constant(layer.value));
  if (options.global && !structure) masks = train::global_magnitude_masks(weights, options.sparsity);
  for (std::size_t i = masks.size(); i < weights.size(); ++i)
    masks.push_back(structure ? train::group_mask(weights[i], *structure, layers[i].input_axis)
                              : train::magnitude_mask(weights[i], options.sparsity));
  std::map<std::string, Tensor> values;
  const std::map<std::string, std::string> labels = compress::layer_labels(graph, layers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Tensor& pruned = values[layers[i].name] = train::masked(weights[i], masks[i]);
    report.layers.push_back({layers[i].name,
                             labels.at(layers[i].name),
                             pruned.elements(),
                             pruned.elements(),
                             count_nonzero(pruned),
                             {},
                             {},
                             {}});
  }
  return train::with_weights(model, values);
}

// Removes the channels or heads whose weights have the smallest root mean square.
class StructurePruner {
 public:
  StructurePruner(const ir::Graph& graph, const OneShotPruneOptions& options, FeatureKind kind)
      : graph_(graph),
        options_(options),
        kind_(kind),
        sets_(graph, kind),
        weights_(train::layer_weights(graph)),
        labels_(compress::layer_labels(graph, weights_)) {
    chosen_layers(graph, options);  // checks the patterns
  }

  ir::Graph run(PruneReport& report) {
    choose();
    report.kept_by = sets_.reasons();
    ir::Graph smaller = compress::without_features(graph_, sets_);
    for (const LayerWeight& layer : weights_) add_layer(smaller, layer, report);
    return smaller;
  }

 private:
  struct Candidate {
    double score;
    std::size_t family;
    const ChannelSet* set;
  };

  void choose() {
    std::vector<std::vector<ChannelSet>> families = sets_.families();
    std::erase_if(families, [&](const auto& family) { return is_excluded(family[0]); });
    std::vector<Candidate> all;
    std::size_t removed = 0;
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < families.size(); ++i) {
      std::vector<Candidate> ranked;
      double sum = 0;
      for (const ChannelSet& set : families[i]) {
        ranked.push_back({score_of(set), i, &set});
        sum += ranked.back().score;
      }
      left.push_back(families[i].size());
      // Layers differ in scale, so across layers a channel is ranked by its score relative to its family's mean.
      for (Candidate& each : ranked) each.score *= sum > 0 ? static_cast<double>(ranked.size()) / sum : 1;
      if (!options_.global) removed += remove_smallest(ranked, left);
      all.insert(all.end(), ranked.begin(), ranked.end());
    }
    if (options_.global) removed = remove_smallest(all, left);
    require(removed > 0, ErrorKind::invalid_argument, "no {} can go: {}",
            kind_ == FeatureKind::heads ? "head of attention" : "channel",
            sets_.reasons().empty() ? std::string("there are none between two layers, or the sparsity is too small")
                                    : fmt::format("they are kept by {}", fmt::join(sets_.reasons(), ", ")));
  }

  // Removes the candidates with the smallest scores, but leaves at least one channel of each family.
  std::size_t remove_smallest(std::vector<Candidate>& candidates, std::vector<std::size_t>& left) {
    std::ranges::stable_sort(candidates, {}, &Candidate::score);
    auto most = static_cast<std::size_t>(std::llround(options_.sparsity * static_cast<double>(candidates.size())));
    std::size_t removed = 0;
    for (const Candidate& each : candidates) {
      if (removed == most) break;
      if (left[each.family] == 1) continue;
      --left[each.family];
      sets_.remove(*each.set);
      ++removed;
    }
    return removed;
  }

  const LayerWeight& weight_of(std::size_t layer) const {
    const ir::ValueId value = graph_.node(sets_.layers()[layer]).inputs[1];
    return *std::ranges::find(weights_, value, &LayerWeight::value);
  }

  bool is_excluded(const ChannelSet& set) const {
    const auto named = [&](const auto& output) { return is_among(options_.only, weight_of(output.first).name); };
    if (!std::ranges::any_of(set.outputs, named)) return true;
    return std::ranges::any_of(set.outputs, [&](const auto& output) {
      const std::string& name = weight_of(output.first).name;
      return train::matches_any(options_.exclude, name) || train::matches_any(options_.exclude, labels_.at(name));
    });
  }

  double score_of(const ChannelSet& set) const {
    double sum = 0, count = 0;
    for (const auto& [layer, channel] : set.outputs) {
      const LayerWeight& weight = weight_of(layer);
      const auto values = graph_.constant(weight.value)->values<float>();
      std::int64_t inner = 1;
      for (std::size_t i = static_cast<std::size_t>(weight.output_axis) + 1; i < weight.shape.size(); ++i)
        inner *= weight.shape[i];
      const std::int64_t outputs = weight.shape[static_cast<std::size_t>(weight.output_axis)];
      for (std::int64_t begin = channel * inner; begin < static_cast<std::int64_t>(values.size());
           begin += outputs * inner) {
        for (std::int64_t k = begin; k < begin + inner; ++k) sum += std::pow(values[static_cast<std::size_t>(k)], 2.0);
        count += static_cast<double>(inner);
      }
    }
    return count > 0 ? std::sqrt(sum / count) : 0;
  }

  std::vector<std::int64_t> removed_of(ir::ValueId value, std::int64_t size) const {
    std::vector<std::int64_t> removed;
    if (!sets_.has_features(value)) return removed;
    const std::vector<std::int64_t> kept = sets_.kept(value);
    for (std::int64_t i = 0; i < size; ++i) {
      if (!std::ranges::binary_search(kept, i)) removed.push_back(i);
    }
    return removed;
  }

  void add_layer(const ir::Graph& smaller, const LayerWeight& layer, PruneReport& report) const {
    const Tensor& before = *graph_.constant(layer.value);
    const Tensor* after = smaller.constant(smaller.find_value(layer.name));
    if (after == nullptr) return;
    PrunedLayer each{
        layer.name, labels_.at(layer.name), before.elements(), after->elements(), count_nonzero(*after), {}, {}, {}};
    for (const ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      if (node.inputs.size() < 2 || node.inputs[1] != layer.value) continue;
      each.removed_inputs = removed_of(node.inputs[0], layer.shape[static_cast<std::size_t>(layer.input_axis)]);
      each.removed_outputs = removed_of(node.outputs[0], layer.shape[static_cast<std::size_t>(layer.output_axis)]);
      break;
    }
    report.layers.push_back(std::move(each));
  }

  const ir::Graph& graph_;
  const OneShotPruneOptions& options_;
  FeatureKind kind_;
  FeatureSets sets_;
  std::vector<LayerWeight> weights_;
  std::map<std::string, std::string> labels_;
};

// The graph without copies of constants, and with one Transpose in place of several of the same constant, so that
// layers still share weights after these are folded.
ir::Graph with_merged_weights(ir::Graph graph) {
  std::vector<ir::ValueId> replacements(graph.value_count());
  const auto current = [&](ir::ValueId value) {
    const ir::ValueId other = replacements[static_cast<std::size_t>(value.index)];
    return other.valid() ? other : value;
  };
  std::map<std::pair<ir::ValueId, std::vector<std::int64_t>>, ir::ValueId> transposed;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if ((node.op != "Identity" && node.op != "Transpose") || !node.inputs[0].valid() || !node.outputs[0].valid())
      continue;
    const ir::ValueId from = current(node.inputs[0]), to = node.outputs[0];
    const Tensor* constant = graph.constant(from);
    if (constant == nullptr || graph.is_output(to)) continue;
    ir::ValueId same = from;
    if (node.op == "Transpose") {
      const auto rank = static_cast<std::size_t>(constant->rank());
      same = transposed.try_emplace({from, passes::permutation_of(node, rank)}, to).first->second;
    }
    if (same != to) replacements[static_cast<std::size_t>(to.index)] = same;
  }
  graph.replace_uses(replacements);
  graph.remove_dead_and_compact();
  return graph;
}

// Whether several nodes read the same matrix of weights.
bool shares_weights(const ir::Graph& graph) {
  const auto uses = graph.compute_uses();
  for (std::size_t i = 0; i < graph.value_count(); ++i) {
    const Tensor* constant = graph.constant({static_cast<std::int32_t>(i)});
    if (constant != nullptr && constant->dtype() == DType::f32 && constant->rank() >= 2 && uses[i].size() > 1)
      return true;
  }
  return false;
}

// Pruning can add parameters: weights that are used in several forms are stored in each form when shapes change.
void check_fewer(const Model& before, const PruneReport& report, const std::string& structure) {
  require(report.parameters_after < report.parameters_before || !shares_weights(before.graph()),
          ErrorKind::invalid_argument,
          "without these {} the model would have {} parameters, and it has {}: it has shared weights, which several "
          "layers use, and which would be held for each of them; prune with the structure none or N:M",
          structure, report.parameters_after, report.parameters_before);
}

// Folds shapes that exporters compute into constants first, so that the effect of a Reshape on features is known.
Model prune_features(const Model& model, const OneShotPruneOptions& options, FeatureKind kind, PruneReport& report) {
  constexpr std::string_view kPasses[] = {"sink_constants", "fold_constants", "fold_shape_arithmetic", "remove_no_ops"};
  const Model merged(std::make_shared<const ir::Graph>(with_merged_weights(model.graph())));
  const ir::Graph graph = compress::graph_after(kPasses, merged, {});
  return Model(std::make_shared<const ir::Graph>(StructurePruner(graph, options, kind).run(report)));
}

// Refuses optimised models. Their layers are fused and cannot be pruned, so the reported share of removed weights would
// be wrong.
void check_not_optimised(const ir::Graph& graph) {
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (!node.op.starts_with("tessera::") || node.op == "tessera::DictionaryConv") continue;
    const bool has_weights = std::ranges::any_of(node.inputs, [&](ir::ValueId value) {
      const Tensor* constant = value.valid() ? graph.constant(value) : nullptr;
      return constant != nullptr && constant->dtype() == DType::f32 && constant->rank() >= 2;
    });
    require(!has_weights, ErrorKind::invalid_argument,
            "an optimised model is for running: prune the .onnx model that it was made from, then optimise it");
  }
}

}  // namespace

Model prune(const Model& model, const OneShotPruneOptions& options, PruneReport* report) {
  require(options.sparsity >= 0 && options.sparsity < 1, ErrorKind::invalid_argument,
          "the sparsity is {}, expected a number in [0, 1)", options.sparsity);
  check_not_optimised(model.graph());
  PruneReport own;
  PruneReport& filled = report != nullptr ? *report : own;
  filled = {};
  filled.parameters_before = compress::count_parameters(model.graph());
  Model pruned = options.structure == "channels" ? prune_features(model, options, FeatureKind::channels, filled)
                 : options.structure == "heads"  ? prune_features(model, options, FeatureKind::heads, filled)
                                                 : prune_weights(model, options, filled);
  filled.parameters_after = compress::count_parameters(pruned.graph());
  if (options.structure == "channels" || options.structure == "heads") check_fewer(model, filled, options.structure);
  filled.bytes_before = compress::constant_bytes(model.graph());
  filled.bytes_after = compress::constant_bytes(pruned.graph());
  return pruned;
}

std::int64_t write_pruned(const Model& model, const std::string& path) {
  check_output_name(path);
  if (path.ends_with(".tsr"))
    return io::write_package(path, model.graph(), {TESSERA_VERSION, "any", "any", "f32", {}, {}, false}, {}, true)
        .file_bytes;
  model.save(path);
  return static_cast<std::int64_t>(std::filesystem::file_size(path));
}

}  // namespace tessera
