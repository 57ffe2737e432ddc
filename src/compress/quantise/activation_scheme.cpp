#include "compress/quantise/activation_scheme.h"

#include <limits>

namespace tessera::compress {
namespace {

using Layers = std::set<std::size_t>;

class Search {
 public:
  Search(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers, const Layers& selected,
         const QuantiseOptions& options, const ReferenceOutputs& reference)
      : layers_(layers), selected_(selected), options_(options), reference_(reference) {
    plain_.graph = std::make_shared<const ir::Graph>(graph);
    plain_.calibration = calibrated(graph, "calibrating", 0.05);
  }

  SchemeSearch run() {
    if (options_.equalise) equalise();
    SchemeSearch result;
    result.samples = plain_.calibration.samples;
    result.best.snr_db = -std::numeric_limits<double>::infinity();
    for (const RangeEstimator each :
         {RangeEstimator::min_max, RangeEstimator::percentile, RangeEstimator::mse, RangeEstimator::kl}) {
      if (options_.estimator != RangeEstimator::automatic && options_.estimator != each) continue;
      ActivationScheme scheme = best_with(each);
      result.snr_db[std::string(name_of(each))] = scheme.snr_db;
      if (result.best.graph == nullptr || scheme.snr_db > result.best.snr_db) result.best = std::move(scheme);
    }
    return result;
  }

 private:
  struct Calibrated {
    std::shared_ptr<const ir::Graph> graph;
    Calibration calibration;
  };

  Calibration calibrated(const ir::Graph& graph, const char* what, double done) const {
    return calibrate(graph, layers_, options_.data, options_.session, [&](std::int64_t samples) {
      if (options_.progress) options_.progress(fmt::format("{}: {} samples", what, samples), done);
    });
  }

  // Makes the graphs equalised across layers, and in front of products too. If nothing can be equalised, there is no
  // such graph.
  void equalise() {
    for (const EqualiseScope scope : {EqualiseScope::layers, EqualiseScope::normalised}) {
      std::optional<ir::Graph> changed = equalise_channels(*plain_.graph, layers_, plain_.calibration.channels, scope);
      if (!changed) continue;
      Calibration calibration = calibrated(*changed, "calibrating the equalised model", 0.2);
      equalised_.emplace(scope,
                         Calibrated{std::make_shared<const ir::Graph>(std::move(*changed)), std::move(calibration)});
    }
  }

  double snr_of(const ActivationScheme& scheme) const {
    ir::Graph made = quantise_layers(*scheme.graph, layers_, selected_, scheme.ranges, scheme.insert);
    return reference_.snr_db_of(Model(std::make_shared<const ir::Graph>(std::move(made))));
  }

  // Replaces the scheme by the changed one if that brings the outputs closer by more than `least_gain_db`.
  void take_better(ActivationScheme& scheme, ActivationScheme changed, double least_gain_db = 0) const {
    changed.snr_db = snr_of(changed);
    if (changed.snr_db > scheme.snr_db + least_gain_db) scheme = std::move(changed);
  }

  ActivationScheme best_with(RangeEstimator estimator) const {
    if (options_.progress) options_.progress(fmt::format("trying ranges by {}", name_of(estimator)), 0.22);
    ActivationScheme scheme;
    scheme.estimator = estimator;
    scheme.graph = plain_.graph;
    scheme.ranges = plain_.calibration.ranges(estimator, options_.percentile);
    scheme.insert.correct_bias = false;
    scheme.snr_db = snr_of(scheme);
    for (const auto& [scope, each] : equalised_) {
      // Equalising in front of products adds multiplications to a run, so its gain must be worth them, and must not
      // hold for the calibration's samples alone: with magika, a gain of two decibels there was a loss on other files.
      constexpr double kLeastGainDb = 3;
      ActivationScheme changed = scheme;
      changed.equalised = true;
      changed.smoothed = scope == EqualiseScope::normalised;
      changed.graph = each.graph;
      changed.ranges = each.calibration.ranges(estimator, options_.percentile);
      take_better(scheme, std::move(changed), scope == EqualiseScope::normalised ? kLeastGainDb : 0);
    }
    if (options_.correct_bias) {
      ActivationScheme changed = scheme;
      changed.insert.correct_bias = true;
      take_better(scheme, std::move(changed));
    }
    if (options_.correct_variance) {
      ActivationScheme changed = scheme;
      changed.insert.correct_variance = true;
      take_better(scheme, std::move(changed));
    }
    return scheme;
  }

  const std::vector<QuantisableLayer>& layers_;
  const Layers& selected_;
  const QuantiseOptions& options_;
  const ReferenceOutputs& reference_;
  Calibrated plain_;
  std::map<EqualiseScope, Calibrated> equalised_;
};

}  // namespace

SchemeSearch choose_scheme(const ir::Graph& graph, const std::vector<QuantisableLayer>& layers,
                           const std::set<std::size_t>& selected, const QuantiseOptions& options,
                           const ReferenceOutputs& reference) {
  return Search(graph, layers, selected, options, reference).run();
}

}  // namespace tessera::compress
