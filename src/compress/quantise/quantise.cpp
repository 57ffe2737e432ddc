#include "tessera/quantise.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "compress/core/output_metric.h"
#include "compress/core/reference_outputs.h"
#include "compress/quantise/activation_scheme.h"
#include "compress/quantise/adapt_weights.h"
#include "compress/quantise/exclusion.h"
#include "io/package.h"

namespace tessera {
namespace {

using namespace compress;
using Layers = std::set<std::size_t>;

constexpr std::string_view kAsked = "excluded by a pattern";

class Quantiser {
 public:
  Quantiser(const Model& model, const QuantiseOptions& options)
      : options_(options), graph_(prepared_graph(model, options.session)), float_(model) {
    check();
    layers_ = quantisable_layers(graph_);
    require(!layers_.empty(), ErrorKind::invalid_argument,
            "the model has no Conv, MatMul, Gemm or large table with constant float32 weights to quantise");
    report_.bytes_before = constant_bytes(model.graph());
    report_.scheme = options.full ? "full int8: uint8 activations per tensor, int8 weights per channel"
                                  : fmt::format("weight-only {}, products in groups of {} where these pay",
                                                options.weights, weight_group());
    reasons_.resize(layers_.size());
    snr_.resize(layers_.size());
    exclude_by_patterns();
    if (!options.full) choose_forms();
  }

  QuantisedModel run() {
    if (has_data()) {
      say("running the float model", 0.02);
      // also the first read of the data, which reports errors in them
      const bool labels = has_labels(float_, options_.data);
      reference_.emplace(float_, options_.data, options_.session, options_.diagnosis_samples);
      report_.diagnosis_samples = reference_->samples();
      const bool wanted = options_.max_drop || !options_.metric.empty() || labels;
      if (wanted) metric_.emplace(options_.metric, float_, options_.data, options_.session);
    }
    if (options_.full) choose_activation_scheme();
    if (options_.adaptive_rounding) round_adaptively();
    const bool ranked = has_data() && (options_.diagnose || options_.max_drop);
    if (ranked) diagnose();
    if (options_.max_drop) keep_to_budget();
    else if (ranked && options_.full) keep_what_ruins();
    Model result = build(selected_);
    if (has_data()) measure_outputs(result);
    measure_metric(result);
    fill_report(result, ranked);
    say("done", 1);
    return {std::move(result), std::move(report_)};
  }

 private:
  bool is_int4() const { return !options_.full && options_.weights == "int4"; }
  bool has_data() const { return !options_.data.path.empty(); }
  void say(std::string_view what, double done) const {
    if (options_.progress) options_.progress(what, done);
  }

  void check() const {
    const auto wrong = ErrorKind::invalid_argument;
    require(options_.weights == "int8" || options_.weights == "int4", wrong, "weights are '{}', expected int8 or int4",
            options_.weights);
    require(!options_.full || options_.weights == "int8", wrong, "full quantisation has int8 weights, got {}",
            options_.weights);
    require(options_.group == 0 ||
                (options_.group >= 16 && options_.group <= 256 && (options_.group & (options_.group - 1)) == 0),
            wrong, "the group is {}, expected 16, 32, 64, 128 or 256", options_.group);
    require(!options_.full || has_data(), wrong, "full quantisation needs calibration data (--data)");
    require((!options_.max_drop && options_.metric.empty()) || has_data(), wrong,
            "a metric is computed on data, but none were given (--data)");
    check_metric_name(options_.metric);
    require(options_.data.batch >= 1 && options_.diagnosis_samples >= 0, wrong,
            "batch is {} and diagnosis_samples {}, expected at least 1 and at least 0", options_.data.batch,
            options_.diagnosis_samples);
    require(!options_.adaptive_rounding || has_data(), wrong, "adaptive rounding needs calibration data (--data)");
    require(options_.rounding_steps >= 1 && options_.rounding_steps <= 1'000'000, wrong,
            "rounding_steps is {}, expected 1 to 1000000", options_.rounding_steps);
    require(options_.percentile > 50 && options_.percentile <= 100, wrong, "the percentile is {}, expected (50, 100]",
            options_.percentile);
  }

  void exclude_by_patterns() {
    std::vector<bool> used(options_.exclude.size(), false);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      for (std::size_t p = 0; p < options_.exclude.size(); ++p) {
        if (fnmatch(options_.exclude[p].c_str(), layers_[i].name.c_str(), 0) != 0) continue;
        used[p] = true;
        reasons_[i] = kAsked;
      }
      if (reasons_[i].empty()) selected_.insert(i);
    }
    const auto unused = std::ranges::find(used, false);
    require(
        unused == used.end(), ErrorKind::invalid_argument, "no layer has a name like '{}'; the first is called '{}'",
        unused == used.end() ? "" : options_.exclude[static_cast<std::size_t>(unused - used.begin())], layers_[0].name);
  }

  double snr_of(const Model& model) const { return reference_->snr_db_of(model); }

  // --- schemes ---

  Model build(const Layers& selected) const {
    if (!options_.full) return as_model(quantise_weights(graph_, layers_, selected, forms_, scheme_.insert.rounded));
    return as_model(quantise_layers(*scheme_.graph, layers_, selected, scheme_.ranges, scheme_.insert));
  }
  const ir::Graph& graph_of_scheme() const { return options_.full ? *scheme_.graph : graph_; }
  // ONNX's other forms of weight-only int8 have one scale per output channel; long groups are equally good.
  std::int64_t weight_group() const {
    constexpr std::int64_t kOfInt4 = 32, kOfInt8 = 128;
    return options_.group > 0 ? options_.group : is_int4() ? kOfInt4 : kOfInt8;
  }
  static Model as_model(ir::Graph graph) { return Model(std::make_shared<const ir::Graph>(std::move(graph))); }

  // Layers that no form makes smaller stay in float.
  void choose_forms() {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      forms_.push_back(
          form_of_weights(layers_[i], graph_.constant(layers_[i].weight)->shape(), is_int4() ? 4 : 8, weight_group()));
      if (forms_[i].as != StoredAs::floats || !selected_.contains(i)) continue;
      selected_.erase(i);
      reasons_[i] = "integers with their scales would take more bytes";
    }
  }

  void choose_activation_scheme() {
    SchemeSearch found = choose_scheme(graph_, layers_, selected_, options_, *reference_);
    scheme_ = std::move(found.best);
    report_.samples = found.samples;
    report_.estimator_snr_db = std::move(found.snr_db);
    report_.estimator = name_of(scheme_.estimator);
    report_.equalised = scheme_.equalised;
    report_.smoothed = scheme_.smoothed;
    report_.bias_corrected = scheme_.insert.correct_bias;
    report_.variance_corrected = scheme_.insert.correct_variance;
  }

  void round_adaptively() {
    const auto least_scales = [&](const QuantisableLayer& layer) {
      if (!options_.full) return std::vector<double>();
      const UnsignedScale unit = unsigned_scale(scheme_.ranges.ranges.at(layer.data));
      return least_weight_scales(graph_of_scheme(), layer, static_cast<double>(unit.scale));
    };
    const double nearest = snr_of(build(selected_));
    AdaptedWeights adapted = adapt_weights(graph_of_scheme(), layers_, selected_, least_scales,
                                           {.forms = forms_,
                                            .steps = options_.rounding_steps,
                                            .data = options_.data,
                                            .session = options_.session,
                                            .progress = [&](std::string_view layer, double done) {
                                              say(fmt::format("rounding the weights of {}", layer), 0.25 + 0.1 * done);
                                            }});
    scheme_.insert.rounded = std::move(adapted.rounded);
    report_.adaptively_rounded = snr_of(build(selected_)) > nearest;
    if (!*report_.adaptively_rounded) scheme_.insert.rounded = {};
    for (const auto& [i, error] : adapted.errors)
      rounding_gains_[i] = error.adaptive > 0 ? 10 * std::log10(error.nearest / error.adaptive) : 0;
  }

  // --- layers ---

  void diagnose() {
    std::size_t done = 0;
    for (const std::size_t i : selected_) {
      say(fmt::format("diagnosing {}", layers_[i].name), 0.35 + 0.5 * static_cast<double>(done++) / selected_.size());
      snr_[i] = snr_of(build({i}));
    }
    ranking_.assign(selected_.begin(), selected_.end());
    std::ranges::stable_sort(ranking_, {}, [&](std::size_t i) { return *snr_[i]; });
  }

  Layers without(std::size_t worst) const {
    Layers left = selected_;
    for (std::size_t i = 0; i < worst; ++i) left.erase(ranking_[i]);
    return left;
  }

  void exclude_worst(std::size_t count, const std::string& why) {
    selected_ = without(count);
    for (std::size_t i = 0; i < count; ++i)
      reasons_[ranking_[i]] = fmt::format("{:.1f} dB alone; {}", *snr_[ranking_[i]], why);
  }

  void keep_to_budget() {
    const OutputMetric& metric = *metric_;
    const double before = metric.of(float_);
    report_.metric_before = before;
    report_.max_drop = options_.max_drop;
    const std::size_t count = fewest_excluded(ranking_.size(), [&](std::size_t excluded) {
      const double value = metric.of(build(without(excluded)));
      report_.steps.push_back({static_cast<std::int64_t>(excluded), value});
      say(fmt::format("{} with {} layers in float: {:.4f}", metric.name(), excluded, value), 0.9);
      return metric_drop(metric.name(), before, value) <= *options_.max_drop;
    });
    exclude_worst(count, fmt::format("{} within {} needs it in float", metric.name(), *options_.max_drop));
  }

  // Without a budget, keeps the few layers in float whose quantisation harms the outputs most: each must gain at least
  // kLeastGainDb, they are at most a tenth of all layers, and more are taken only while the outputs are poor.
  void keep_what_ruins() {
    constexpr double kGoodDb = 20, kLeastGainDb = 1.5;
    double snr = snr_of(build(selected_));
    std::size_t count = 0;
    const std::size_t most = ranking_.size() / 10;
    while (count < most && snr < kGoodDb) {
      const double better = snr_of(build(without(count + 1)));
      if (better < snr + kLeastGainDb) break;
      snr = better;
      ++count;
    }
    exclude_worst(count, "the outputs gain much without it");
  }

  // --- the report ---

  void measure_outputs(const Model& result) {
    say("comparing the outputs", 0.92);
    const OutputSnr difference = compare_outputs(*reference_, float_, result, options_.data, options_.session);
    report_.snr_db = difference.snr_db;
    report_.snr_samples = difference.samples;
  }

  void measure_metric(const Model& result) {
    if (!metric_) return;
    say(fmt::format("computing {}", metric_->name()), 0.95);
    report_.metric = metric_->name();
    if (!report_.metric_before) report_.metric_before = metric_->of(float_);
    report_.metric_after = metric_->of(result);
  }

  void fill_report(const Model& result, bool ranked) {
    report_.bytes_after = constant_bytes(result.graph());
    std::vector<std::size_t> order(layers_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (ranked)
      std::ranges::stable_sort(
          order, {}, [&](std::size_t i) { return snr_[i].value_or(std::numeric_limits<double>::infinity()); });
    for (const std::size_t i : order) report_.layers.push_back(describe(i));
  }

  QuantisedLayer describe(std::size_t i) const {
    const QuantisableLayer& layer = layers_[i];
    const Tensor& weights = *graph_.constant(layer.weight);
    QuantisedLayer described;
    described.name = layer.name;
    described.op = graph_.node(layer.node).op;
    described.weights = weights.elements();
    described.bytes_before = weights.bytes();
    described.quantised = selected_.contains(i);
    described.reason = reasons_[i];
    described.snr_db = snr_[i];
    described.bytes_after = described.quantised ? bytes_of(i, weights) : weights.bytes();
    if (const auto gain = rounding_gains_.find(i); gain != rounding_gains_.end())
      described.rounding_gain_db = gain->second;
    const auto& known = scheme_.ranges.ranges;
    if (const auto found = known.find(layer.data); found != known.end()) {
      described.input_low = found->second.low;
      described.input_high = found->second.high;
    }
    return described;
  }

  std::int64_t bytes_of(std::size_t i, const Tensor& weights) const {
    if (!options_.full) return forms_[i].bytes;
    constexpr std::int64_t kScaleBytes = 4;
    return weights.elements() + kScaleBytes * weights.shape()[static_cast<std::size_t>(layers_[i].axis)];
  }

  QuantiseOptions options_;
  ir::Graph graph_;
  Model float_;
  std::vector<QuantisableLayer> layers_;
  std::vector<std::string> reasons_;
  std::vector<std::optional<double>> snr_;
  std::map<std::size_t, double> rounding_gains_;
  std::vector<std::size_t> ranking_;
  Layers selected_;
  std::vector<WeightForm> forms_;  // of the layers; empty if activations are quantised too
  std::optional<ReferenceOutputs> reference_;
  std::optional<OutputMetric> metric_;
  ActivationScheme scheme_;
  QuantiseReport report_;
};

}  // namespace

QuantisedModel quantise(const Model& model, const QuantiseOptions& options) {
  require(model.package() == nullptr || model.package()->info.device == "any", ErrorKind::invalid_argument,
          "a package (.tsr) that was optimised for a device is for running; quantise the .onnx model that it was made "
          "from");
  return Quantiser(model, options).run();
}

}  // namespace tessera
