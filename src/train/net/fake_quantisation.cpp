#include "train/net/fake_quantisation.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "io/toml_table.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "train/net/layer_weights.h"

namespace tessera::train {
namespace {

using ir::NodeId;
using ir::ValueId;
using ops::Term;

void check(const CompressOptions& options) {
  require(options.weights == 8 || options.weights == 4, ErrorKind::invalid_argument,
          "compress.weights is {}, expected 8 or 4 bits", options.weights);
  require(options.activations == 8 || options.activations == 0, ErrorKind::invalid_argument,
          "compress.activations is {}, expected 8 bits or none", options.activations);
  require(options.ranges == "learned" || options.ranges == "averaged", ErrorKind::invalid_argument,
          "compress.ranges is '{}', expected learned or averaged", options.ranges);
  require(options.batch_norm == "folded" || options.batch_norm == "kept", ErrorKind::invalid_argument,
          "compress.batch_norm is '{}', expected folded or kept", options.batch_norm);
  require(options.range_decay >= 0 && options.range_decay < 1, ErrorKind::invalid_argument,
          "compress.range_decay is {}, expected a number in [0, 1)", options.range_decay);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  require(options.start_step >= 0 && options.start_step <= kMost, ErrorKind::invalid_argument,
          "compress.start_step is {}, expected a step from 0 on", options.start_step);
  require(options.freeze_step >= 0 && options.freeze_step <= kMost, ErrorKind::invalid_argument,
          "compress.freeze_step is {}, expected a step from 0 on", options.freeze_step);
}

std::int64_t integer(const ir::Node& node, const char* name) {
  const auto found = node.attributes.find(name);
  return found == node.attributes.end() ? 0 : std::get<std::int64_t>(found->second);
}

// The BatchNormalization that is the only reader of the value and whose other operands are constants.
NodeId norm_behind(const ir::Graph& graph, ValueId value, const std::vector<std::vector<NodeId>>& uses) {
  const std::vector<NodeId>& users = uses[static_cast<std::size_t>(value.index)];
  if (users.size() != 1 || graph.is_output(value)) return {};
  const ir::Node& node = graph.node(users[0]);
  if (node.op != "BatchNormalization" || node.inputs[0] != value || integer(node, "training_mode") != 0) return {};
  for (std::size_t i = 1; i < 5; ++i) {
    const Tensor* constant = graph.constant(node.inputs[i]);
    if (constant == nullptr || constant->dtype() != DType::f32) return {};
  }
  return users[0];
}

// Adds the nodes of all layers to one graph.
class Quantiser {
 public:
  Quantiser(ir::Graph& graph, const CompressOptions& options, std::int64_t runs_per_step, bool trains)
      : graph_(graph),
        builder_(graph),
        options_(options),
        learned_(options.ranges == "learned"),
        trains_(trains),
        runs_(builder_, graph.add_variable(observed_runs(), Tensor::scalar(std::int64_t{0}))) {
    const auto before = [&](std::int64_t step) { return runs_ < static_cast<double>(step * runs_per_step); };
    first_ = runs_.equals(runs_.number(0));
    if (options.start_step > 0) starts_later_ = before(options.start_step);
    if (options.freeze_step > 0) moves_ = before(options.freeze_step);
    keep(observed_runs(), runs_, runs_ + 1.0);
  }

  void quantise(const FakeQuantisedLayer& layer, bool fixed_norm) {
    ir::Node node = graph_.node(layer.node);
    if (options_.activations > 0) node.inputs[0] = quantised_input(node.inputs[0], layer.input);
    const Term weight(builder_, node.inputs[1]);
    const bool own_norm =
        layer.norm.valid() && !fixed_norm && (options_.batch_norm == "folded" || options_.freeze_step > 0);
    if (!own_norm) {
      graph_.node(layer.node).inputs[0] = node.inputs[0];
      graph_.node(layer.node).inputs[1] = quantised_weight(weight, layer).id();
      return;
    }
    node.captures = 0;
    const ValueId result = graph_.node(layer.norm).outputs[0];
    const Term value = options_.batch_norm == "folded" ? folded(layer, node, weight) : kept(layer, node, weight);
    graph_.replace_uses(result, value.id());
    graph_.remove_node(layer.norm);
    graph_.remove_node(layer.node);
    std::swap(graph_.value(result).name, graph_.value(value.id()).name);
  }

  FakeQuantisation take() { return std::move(made_); }

 private:
  void keep(const std::string& name, Term before, Term next) { made_.state.push_back({name, before.id(), next.id()}); }
  Term state(const std::string& name, Tensor initial) {
    return {builder_, graph_.add_variable(name, std::move(initial))};
  }
  Term factor(const std::string& name, std::int64_t size) {
    Tensor ones(DType::f32, {size});
    std::ranges::fill(ones.mutable_values<float>(), 1.0f);
    const Term given(builder_, graph_.add_constant(std::move(ones), name));
    return given.combine("Max", {given.number(kLeastFactor)});
  }
  // Learned ranges are observed until they are learned, and averaged ones until they are frozen.
  Term choose_observed(Term now, Term before) const {
    std::optional<Term> observes = learned_ ? starts_later_ : moves_;
    if (!observes && !learned_) return now;
    observes = observes ? observes->combine("Or", {*first_}) : *first_;
    return observes->choose(now, before);
  }
  // Values that training rounds only from start_step on.
  Term from_start(Term rounded, Term exact) const {
    return trains_ && starts_later_ ? starts_later_->choose(exact, rounded) : rounded;
  }
  Term observed(Term value) {
    made_.constants.push_back(value.id());
    return value;
  }
  Term least(Term step) const { return step.combine("Max", {step.number(kLeastStep)}); }

  Term rounded(Term x, Term step, Term zero, std::int64_t axis) const {
    const ir::Attributes along{{"axis", axis}};
    return x.combine("QuantizeLinear", {step, zero}, along).combine("DequantizeLinear", {step, zero}, along);
  }

  // --- weights ---

  Term weight_step(Term weight, const FakeQuantisedLayer& layer) {
    const std::vector<std::int64_t> others = ops::axes_but(layer.axis, layer.rank);
    const auto now = [&] {
      const Term largest =
          weight.apply("Abs").combine("ReduceMax", {weight.integers(others)}, {{"keepdims", std::int64_t{0}}});
      return least(largest / largest_code(options_));
    };
    if (!learned_) return observed(now());
    const std::int64_t channels = graph_.value(weight.id()).type.dims->at(static_cast<std::size_t>(layer.axis)).value();
    Tensor nothing(DType::f32, {channels});
    std::ranges::fill(nothing.mutable_values<float>(), 0.0f);
    const std::string name = weight_step_of(layer.weight);
    const Term before = state(name, std::move(nothing));
    const Term step = trains_ ? observed(choose_observed(now(), before)) : least(before);
    if (trains_) keep(name, before, step);
    else keep(name, before, before);
    return step * factor(weight_factor_of(layer.weight), channels);
  }

  Term quantised_weight(Term weight, const FakeQuantisedLayer& layer) {
    const Term step = weight_step(weight, layer);
    const Term bound = step.unsqueeze(ops::axes_but(layer.axis, layer.rank)) * largest_code(options_);
    const Term clipped = weight.combine("Min", {bound}).combine("Max", {-bound});
    const Term zero = (observed(step.zeros())).cast(DType::i8);
    return from_start(rounded(clipped, step, zero, layer.axis), weight);
  }

  // --- activations ---

  ValueId quantised_input(ValueId id, const std::string& name) {
    const auto [entry, is_new] = inputs_.try_emplace(id);
    if (!is_new) return entry->second;
    const Term x(builder_, id);
    const Term low_before = state(input_low_of(name), Tensor::scalar(0.0f)),
               high_before = state(input_high_of(name), Tensor::scalar(0.0f));
    Term low = low_before, high = high_before;
    if (trains_) {
      low = bound(x, "ReduceMin", "Min", low_before);
      high = bound(x, "ReduceMax", "Max", high_before);
    }
    keep(input_low_of(name), low_before, low);
    keep(input_high_of(name), high_before, high);
    const Term observed_step = least((high - low) / 255.0);
    const Term one = x.integers({1});
    const Term zero = (-low / observed_step).apply("Round").reshape(one).cast(DType::u8);
    Term step = observed(observed_step.reshape(one));
    if (learned_) step = step * factor(input_factor_of(name), 1);
    entry->second = from_start(rounded(x, step, zero, 0), x).id();
    return entry->second;
  }

  // The exponential average of one end of the range, which is extended to include zero.
  Term bound(Term x, const char* reduction, const char* end, Term before) {
    const Term now = x.apply(reduction, {{"keepdims", std::int64_t{0}}}).combine(end, {x.number(0)});
    const double decay = options_.range_decay;
    const Term average = first_->choose(now, before * decay + now * (1 - decay));
    return observed(choose_observed(average, before));
  }

  // --- BatchNormalization ---

  struct Norm {
    Term mean, factor, bias;  // (x − mean) · factor + bias, as they broadcast along axis 0 of [channels]
  };

  Term running(const ir::Node& norm, std::size_t input, std::string& name) {
    const ValueId constant = norm.inputs[input];
    name = graph_.value(constant).name;
    const Tensor initial = *graph_.constant(constant);
    graph_.value(constant).name = name + "/initial";
    return state(name, initial);
  }

  // `y` is the layer's result in training, from which the statistics are computed.
  Norm normalisation(const FakeQuantisedLayer& layer, std::optional<Term> y) {
    const ir::Node norm = graph_.node(layer.norm);
    const auto real = [&](const char* name, double otherwise) {
      const auto found = norm.attributes.find(name);
      return found == norm.attributes.end() ? otherwise : static_cast<double>(std::get<float>(found->second));
    };
    std::string mean_name, variance_name;
    const Term running_mean = running(norm, 3, mean_name), running_variance = running(norm, 4, variance_name);
    Term mean = running_mean, variance = running_variance;
    if (y) {
      const std::vector<std::int64_t> others = ops::axes_but(1, y->rank());
      const auto average = [&](Term term) {
        return term.combine("ReduceMean", {term.integers(others)}, {{"keepdims", std::int64_t{0}}});
      };
      mean = average(*y);
      const Term centred = *y - mean.unsqueeze(ops::axes_but(0, y->rank() - 1));
      variance = average(centred * centred);
      const double momentum = real("momentum", 0.9f);
      const auto follow = [&](const std::string& name, Term& used, Term before) {
        const Term next = before * momentum + used * (1 - momentum);
        keep(name, before, moves_ ? moves_->choose(next, before) : next);
        if (moves_) used = moves_->choose(used, before);
      };
      follow(mean_name, mean, running_mean);
      follow(variance_name, variance, running_variance);
    } else {
      keep(mean_name, mean, mean);
      keep(variance_name, variance, variance);
    }
    const Term deviation = (variance + real("epsilon", 1e-5f)).apply("Sqrt");
    return {mean, Term(builder_, norm.inputs[1]) / deviation, Term(builder_, norm.inputs[2])};
  }

  Term layer_of(const ir::Node& node, Term weight, std::optional<Term> bias) {
    std::vector<ValueId> inputs{node.inputs[0], weight.id()};
    if (bias) inputs.push_back(bias->id());
    return {builder_, builder_.add(node.op, inputs, node.attributes)};
  }
  std::optional<Term> bias_of(const ir::Node& node) {
    if (node.inputs.size() < 3 || !node.inputs[2].valid()) return std::nullopt;
    return Term(builder_, node.inputs[2]);
  }

  // The layer with the normalisation folded into its weights and bias. The statistics are those of the layer with
  // weights that are neither folded nor rounded (Jacob et al., arXiv:1712.05877, figure C.8).
  Term folded(const FakeQuantisedLayer& layer, const ir::Node& node, Term weight) {
    const std::optional<Term> bias = bias_of(node);
    std::optional<Term> y;
    if (trains_) y = layer_of(node, weight, bias);
    const Norm norm = normalisation(layer, y);
    const Term scaled = weight * norm.factor.unsqueeze(ops::axes_but(layer.axis, layer.rank));
    const Term shift = bias ? *bias - norm.mean : -norm.mean;
    return layer_of(node, quantised_weight(scaled, layer), norm.bias + shift * norm.factor);
  }

  Term kept(const FakeQuantisedLayer& layer, const ir::Node& node, Term weight) {
    const Term y = layer_of(node, quantised_weight(weight, layer), bias_of(node));
    const Norm norm = normalisation(layer, trains_ ? std::optional(y) : std::nullopt);
    const auto wide = [&](Term term) { return term.unsqueeze(ops::axes_but(0, y.rank() - 1)); };
    return (y - wide(norm.mean)) * wide(norm.factor) + wide(norm.bias);
  }

  ir::Graph& graph_;
  ops::GraphBuilder builder_;
  const CompressOptions& options_;
  bool learned_, trains_;
  Term runs_;
  std::optional<Term> first_, starts_later_, moves_;
  std::map<ValueId, ValueId> inputs_;  // quantised data by their original values
  FakeQuantisation made_;
};

}  // namespace

CompressOptions read_compress(io::TomlTable table) {
  CompressOptions compress;
  const auto bits = [&](const char* key) {
    const std::int64_t value = table.whole(key, 8);
    require(value >= 0 && value <= 64, ErrorKind::invalid_argument, "compress.{} is {}, expected a number of bits", key,
            value);
    return static_cast<int>(value);
  };
  compress.weights = bits("weights");
  compress.activations =
      table.is_text("activations") && table.text("activations", "") == "none" ? 0 : bits("activations");
  compress.ranges = table.text("ranges", compress.ranges);
  compress.range_decay = table.number("range_decay", compress.range_decay);
  compress.batch_norm = table.text("batch_norm", compress.batch_norm);
  compress.start_step = table.whole("start_step", 0);
  compress.freeze_step = table.whole("freeze_step", 0);
  compress.exclude = table.texts("exclude");
  check(compress);
  return compress;
}

std::vector<FakeQuantisedLayer> quantised_layers(const ir::Graph& model, const CompressOptions& options) {
  check(options);
  const auto uses = model.compute_uses();
  std::map<ValueId, LayerWeight> weights;
  for (const LayerWeight& each : layer_weights(model)) weights.emplace(each.value, each);
  std::vector<std::string> unused = options.exclude;
  std::map<ValueId, std::string> inputs;
  std::vector<FakeQuantisedLayer> layers;
  for (const NodeId id : model.order()) {
    const ir::Node& node = model.node(id);
    if ((node.op != "Conv" && node.op != "Gemm" && node.op != "MatMul") || integer(node, "transA") != 0) continue;
    const auto found = weights.find(node.inputs[1]);
    if (found == weights.end() || model.value(node.inputs[0]).type.dtype != DType::f32) continue;
    const LayerWeight weight = found->second;
    weights.erase(found);  // a layer that shares the weights of another one is not quantised
    std::erase_if(unused, [&](const std::string& pattern) { return matches_any({pattern}, weight.name); });
    if (matches_any(options.exclude, weight.name)) continue;
    const std::string input = inputs.try_emplace(node.inputs[0], weight.name).first->second;
    layers.push_back({id, node.op == "Conv" ? norm_behind(model, node.outputs[0], uses) : NodeId{}, weight.name, input,
                      weight.output_axis, static_cast<std::int64_t>(weight.shape.size())});
  }
  require(unused.empty(), ErrorKind::invalid_argument, "compress.exclude: no weight of a layer has a name like '{}'",
          unused.empty() ? "" : unused[0]);
  require(!layers.empty(), ErrorKind::invalid_argument,
          "compress: the net has no convolution or product with float32 weights that could be quantised");
  return layers;
}

std::string weight_factor_of(const std::string& weight) {
  return weight + "/step_factor";
}
std::string weight_step_of(const std::string& weight) {
  return weight + "/step";
}
std::string input_factor_of(const std::string& input) {
  return input + "/input_step_factor";
}
std::string input_low_of(const std::string& input) {
  return input + "/input_low";
}
std::string input_high_of(const std::string& input) {
  return input + "/input_high";
}
std::string observed_runs() {
  return "compress/runs";
}
bool is_range_factor(const std::string& parameter) {
  return parameter.ends_with("/step_factor") || parameter.ends_with("/input_step_factor");
}
double largest_code(const CompressOptions& options) {
  return options.weights == 8 ? 127 : 7;
}

FakeQuantisation fake_quantise(ir::Graph& graph, const CompressOptions& options, std::int64_t runs_per_step,
                               bool fixed_norm, bool trains) {
  const std::vector<FakeQuantisedLayer> layers = quantised_layers(graph, options);
  Quantiser quantiser(graph, options, runs_per_step, trains);
  for (const FakeQuantisedLayer& layer : layers) quantiser.quantise(layer, fixed_norm);
  graph.sort_topologically();
  ops::infer_graph(graph);
  return quantiser.take();
}

}  // namespace tessera::train
