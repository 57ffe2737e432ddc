#include "tessera/quantise.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "compress/adapt_weights.h"
#include "compress/calibration.h"
#include "compress/equalise_channels.h"
#include "compress/exclusion.h"
#include "compress/output_metric.h"

namespace tessera {
namespace {

using namespace compress;
using Layers = std::set<std::size_t>;

constexpr std::string_view kAsked = "excluded by a pattern";

// The full scheme's choices, of which each is kept only where it brings the outputs closer to the float model's.
struct Scheme {
  RangeEstimator estimator = RangeEstimator::min_max;
  bool equalised = false;
  InsertOptions insert = {};
};

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
                     : is_int4()  ? fmt::format("weight-only int4 in groups of {}", options.group)
                                  : "weight-only int8";
    reasons_.resize(layers_.size());
    snr_.resize(layers_.size());
    exclude_by_patterns();
  }

  QuantisedModel run() {
    if (has_data()) {
      say("running the float model", 0.02);
      reference_.emplace(float_, options_.data, options_.session, options_.diagnosis_samples);
    }
    if (options_.full) choose_scheme();
    if (options_.adaptive_rounding) round_adaptively();
    const bool ranked = has_data() && (options_.diagnose || options_.max_drop);
    if (ranked) diagnose();
    if (options_.max_drop) keep_to_budget();
    else if (ranked && options_.full) keep_what_ruins();
    Model result = build(selected_);
    if (has_data()) report_.snr_db = snr_of(result);
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
    require(options_.group >= 16 && options_.group <= 256 && (options_.group & (options_.group - 1)) == 0, wrong,
            "the group is {}, expected 16, 32, 64, 128 or 256", options_.group);
    require(!options_.full || has_data(), wrong, "full quantisation needs calibration data (--data)");
    require((!options_.max_drop && options_.metric.empty()) || has_data(), wrong,
            "a metric is computed on data, but none were given (--data)");
    require(options_.data.batch >= 1 && options_.diagnosis_samples >= 1, wrong,
            "batch is {} and diagnosis_samples {}, expected at least 1", options_.data.batch,
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
    if (!options_.full)
      return as_model(quantise_weights(graph_, layers_, selected, bits(), weight_group(), scheme_.insert.rounded));
    return as_model(quantise_layers(graph_of_scheme(), layers_, selected, ranges_of_scheme(), scheme_.insert));
  }
  int bits() const { return is_int4() ? 4 : 8; }
  const ir::Graph& graph_of_scheme() const { return scheme_.equalised ? equalised_ : graph_; }
  const ActivationRanges& ranges_of_scheme() const { return scheme_.equalised ? equalised_ranges_ : ranges_; }
  // Weight-only int8 has one scale for each output channel in ONNX's other forms; groups this long are as good.
  std::int64_t weight_group() const { return is_int4() ? options_.group : 128; }
  static Model as_model(ir::Graph graph) { return Model(std::make_shared<const ir::Graph>(std::move(graph))); }

  // Takes a changed scheme if it brings the outputs closer.
  bool try_scheme(const Scheme& scheme) {
    const Scheme before = std::exchange(scheme_, scheme);
    const double snr = snr_of(build(selected_));
    if (!scheme.equalised && scheme.insert.correct_bias == false)
      report_.estimator_snr_db[std::string(name_of(scheme.estimator))] = snr;
    if (snr > scheme_snr_) {
      scheme_snr_ = snr;
      return true;
    }
    scheme_ = before;
    return false;
  }

  void choose_scheme() {
    const Calibration calibration = calibrated(graph_, "calibrating", 0.05);
    report_.samples = calibration.samples;
    scheme_snr_ = -std::numeric_limits<double>::infinity();
    ActivationRanges best;
    for (const RangeEstimator each :
         {RangeEstimator::min_max, RangeEstimator::percentile, RangeEstimator::mse, RangeEstimator::kl}) {
      if (options_.estimator != RangeEstimator::automatic && options_.estimator != each) continue;
      ranges_ = calibration.ranges(each, options_.percentile);
      if (try_scheme({each, false, {.correct_bias = false}}) || best.ranges.empty()) {
        scheme_.estimator = each;
        best = ranges_;
      }
    }
    ranges_ = std::move(best);
    if (options_.equalise) try_equalised(calibration);
    if (options_.correct_bias) {
      Scheme corrected = scheme_;
      corrected.insert.correct_bias = true;
      report_.bias_corrected = try_scheme(corrected);
    }
    if (options_.correct_variance) {
      Scheme corrected = scheme_;
      corrected.insert.correct_variance = true;
      report_.variance_corrected = try_scheme(corrected);
    }
    report_.estimator = name_of(scheme_.estimator);
    report_.equalised = scheme_.equalised;
  }

  // Across layers, and in front of products too. That is taken only for a gain that is worth multiplications in a run,
  // and that is none of the calibration's samples alone: two decibels of magika's were, and other files lost by them.
  void try_equalised(const Calibration& calibration) {
    constexpr double kLeastGainDb = 3;
    for (const EqualiseScope scope : {EqualiseScope::layers, EqualiseScope::normalised}) {
      const std::optional<ir::Graph> changed = equalise_channels(graph_, layers_, calibration.channels, scope);
      if (!changed) continue;
      ir::Graph graph = std::exchange(equalised_, *changed);
      ActivationRanges ranges =
          std::exchange(equalised_ranges_, calibrated(equalised_, "calibrating the equalised model", 0.2)
                                               .ranges(scheme_.estimator, options_.percentile));
      Scheme scheme = scheme_;
      scheme.equalised = true;
      const double snr = scheme_snr_;
      if (scope == EqualiseScope::normalised) scheme_snr_ += kLeastGainDb;
      if (try_scheme(scheme)) {
        report_.smoothed = scope == EqualiseScope::normalised;
        continue;
      }
      scheme_snr_ = snr;
      equalised_ = std::move(graph);
      equalised_ranges_ = std::move(ranges);
    }
  }

  Calibration calibrated(const ir::Graph& graph, const char* what, double done) const {
    return calibrate(graph, layers_, options_.data, options_.session,
                     [&](std::int64_t samples) { say(fmt::format("{}: {} samples", what, samples), done); });
  }

  void round_adaptively() {
    const auto least_scales = [&](const QuantisableLayer& layer) {
      if (!options_.full) return std::vector<double>();
      const UnsignedScale unit = unsigned_scale(ranges_of_scheme().ranges.at(layer.data));
      return least_weight_scales(graph_of_scheme(), layer, static_cast<double>(unit.scale));
    };
    const double nearest = snr_of(build(selected_));
    AdaptedWeights adapted = adapt_weights(graph_of_scheme(), layers_, selected_, least_scales,
                                           {.bits = bits(),
                                            .group = options_.full ? 0 : weight_group(),
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
    const OutputMetric metric(options_.metric, float_, options_.data, options_.session);
    const double before = metric.of(float_);
    report_.metric_before = before;
    report_.max_drop = options_.max_drop;
    const std::size_t count = fewest_excluded(ranking_.size(), [&](std::size_t excluded) {
      const double value = metric.of(build(without(excluded)));
      report_.steps.push_back({static_cast<std::int64_t>(excluded), value});
      say(fmt::format("{} with {} layers in float: {:.4f}", metric.name(), excluded, value), 0.9);
      return before - value <= *options_.max_drop;
    });
    exclude_worst(count, fmt::format("{} within {} needs it in float", metric.name(), *options_.max_drop));
  }

  // Without a budget, the few layers stay in float without which the outputs gain much: at least `kLeastGain` each, up
  // to a tenth of them, and only while the outputs are poor.
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

  void measure_metric(const Model& result) {
    if (!has_data() || (options_.metric.empty() && !options_.max_drop)) return;
    const OutputMetric metric(options_.metric, float_, options_.data, options_.session);
    report_.metric = metric.name();
    if (!report_.metric_before) report_.metric_before = metric.of(float_);
    report_.metric_after = metric.of(result);
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
    described.bytes_after = described.quantised ? bytes_of(layer, weights) : weights.bytes();
    if (const auto gain = rounding_gains_.find(i); gain != rounding_gains_.end())
      described.rounding_gain_db = gain->second;
    const ActivationRanges& known = ranges_of_scheme();
    if (const auto found = known.ranges.find(layer.data); found != known.ranges.end()) {
      described.input_low = found->second.low;
      described.input_high = found->second.high;
    }
    return described;
  }

  std::int64_t bytes_of(const QuantisableLayer& layer, const Tensor& weights) const {
    if (!options_.full && layer.kind == LayerKind::product) {
      const BlockWeights rounded = round_by_block(weights, layer.axis, bits(), weight_group());
      return rounded.numbers.bytes() + rounded.scales.bytes();
    }
    constexpr std::int64_t kScaleBytes = 4;
    return weights.elements() + kScaleBytes * weights.shape()[static_cast<std::size_t>(layer.axis)];
  }

  QuantiseOptions options_;
  ir::Graph graph_, equalised_;
  Model float_;
  std::vector<QuantisableLayer> layers_;
  std::vector<std::string> reasons_;
  std::vector<std::optional<double>> snr_;
  std::map<std::size_t, double> rounding_gains_;
  std::vector<std::size_t> ranking_;
  Layers selected_;
  std::optional<ReferenceOutputs> reference_;
  ActivationRanges ranges_, equalised_ranges_;
  Scheme scheme_;
  double scheme_snr_ = 0;
  QuantiseReport report_;
};

}  // namespace

QuantisedModel quantise(const Model& model, const QuantiseOptions& options) {
  require(model.package() == nullptr, ErrorKind::invalid_argument,
          "a package (.tsr) is for running; quantise the .onnx model that it was made from");
  return Quantiser(model, options).run();
}

}  // namespace tessera
