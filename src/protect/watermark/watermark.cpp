// A spread-spectrum mark in weights: Cox, Kilian, Leighton and Shamoon, "Secure spread spectrum watermarking for
// multimedia" (IEEE Transactions on Image Processing 6, 1997), whose multiplicative rule v' = v (1 + αx) becomes
// w' = w + α |w| s with secret signs s, and whose detector is a correlation with these signs; where in a model it goes
// is as in Uchida et al., "Embedding watermarks into deep neural networks" (arXiv:1701.04082). The signs are
// independent of the weights, so that Hoeffding's inequality bounds false alarms for every model, whatever the
// distribution of its weights. α is the least one that reaches a score.
#include "tessera/watermark.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "protect/key_file.h"
#include "protect/watermark/mark_sequence.h"
#include "protect/watermark/marked_weights.h"

namespace tessera {
namespace {

using protect::MarkedWeight;
using protect::Secret;
using protect::TieOrder;

constexpr double kFalseAlarms = 1e-9;    // most, for all orders and identities of one search together
constexpr double kWantedScore = 16;      // when a mark is made; attacks may take more than half of it
constexpr double kLeastStrength = 0.01;  // a tenth of the step of int8 weights and more
constexpr double kMostStrength = 0.1;
constexpr float kMostDeviations = 4;  // larger weights count like this
constexpr std::size_t kMostIdentityBytes = 256;

void check_identity(const std::string& identity) {
  require(!identity.empty() && identity.size() <= kMostIdentityBytes, ErrorKind::invalid_argument,
          "the identity of a watermark has {} bytes, expected 1 to {}", identity.size(), kMostIdentityBytes);
}

Secret read_watermark_key(const std::filesystem::path& path) {
  protect::Key key = protect::read_key_file(path);
  require(key.kind == protect::KeyKind::symmetric, ErrorKind::invalid_argument,
          "'{}' has a key of kind {}, expected symmetric: 'tessera protect --new-key' writes one to model.key",
          path.string(), protect::name_of(key.kind));
  return std::move(key.bytes);
}

// Weights as deviations from their mean, in units of their standard deviation, so that layers count alike and zero
// points of unsigned integers do not matter.
void standardise(std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(values.size()));
  const double scale = std::isfinite(deviation) && deviation > 0 ? 1 / deviation : 0;
  for (float& value : values) {
    const auto scaled = static_cast<float>((value - mean) * scale);
    value = std::isfinite(scaled) ? std::clamp(scaled, -kMostDeviations, kMostDeviations) : 0;
  }
}

// Σ a s / sqrt(Σ a²) over all elements, a being the sum of the standardised weights of one shape, which share signs.
class Correlation {
 public:
  void add(MarkedWeight weight) {
    standardise(weight.values);
    const auto [found, is_new] = sums_.try_emplace(weight.canonical, std::move(weight.values));
    if (is_new) return;
    for (std::size_t i = 0; i < found->second.size(); ++i) found->second[i] += weight.values[i];
  }

  // `sign_of` gives the signs of a shape.
  template <typename SignsOf>
  double score(const SignsOf& signs_of) const {
    double product = 0, squares = 0;
    for (const auto& [shape, values] : sums_) {
      const std::vector<std::int8_t>& signs = signs_of(shape);
      for (std::size_t i = 0; i < values.size(); ++i) {
        product += static_cast<double>(values[i]) * signs[i];
        squares += static_cast<double>(values[i]) * values[i];
      }
    }
    return squares > 0 ? product / std::sqrt(squares) : 0;
  }

 private:
  std::map<Shape, std::vector<float>> sums_;
};

// The signs of one identity, made once for each shape.
class Signs {
 public:
  Signs(const Secret& key, const std::string& identity) : key_(key), identity_(identity) {}
  const std::vector<std::int8_t>& operator()(const Shape& shape) const {
    const auto [found, is_new] = made_.try_emplace(shape);
    if (is_new) found->second = protect::mark_sequence(key_, identity_, shape);
    return found->second;
  }

 private:
  const Secret& key_;
  const std::string& identity_;
  mutable std::map<Shape, std::vector<std::int8_t>> made_;
};

MarkedWeight marked(const MarkedWeight& weight, const std::vector<std::int8_t>& signs, double strength) {
  MarkedWeight result = weight;
  for (std::size_t i = 0; i < signs.size(); ++i)
    result.values[i] += static_cast<float>(strength * signs[i]) * std::abs(weight.values[i]);
  return result;
}

double score_of(const std::vector<MarkedWeight>& weights, const Signs& signs, double strength) {
  Correlation correlation;
  for (const MarkedWeight& weight : weights) correlation.add(marked(weight, signs(weight.canonical), strength));
  return correlation.score(signs);
}

// The least strength that reaches the wanted score, with what the weights score by chance.
double needed_strength(const std::vector<MarkedWeight>& weights, const Signs& signs) {
  constexpr int kHalvings = 12;
  if (score_of(weights, signs, kLeastStrength) >= kWantedScore) return kLeastStrength;
  const double most = score_of(weights, signs, kMostStrength);
  std::size_t count = 0;
  for (const MarkedWeight& weight : weights) count += weight.values.size();
  require(most >= kWantedScore, ErrorKind::invalid_argument,
          "the model's {} weights in matrices and filters are too few for a watermark: changing each by {:.0f}% gives "
          "a score of {:.1f}, expected {:.0f} so that the mark survives; some 50,000 weights are enough",
          count, 100 * kMostStrength, most, kWantedScore);
  double low = kLeastStrength, high = kMostStrength;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (score_of(weights, signs, middle) < kWantedScore ? low : high) = middle;
  }
  return high;
}

}  // namespace

Model add_watermark(const Model& model, const std::string& identity, const std::filesystem::path& key,
                    WatermarkReport* report) {
  check_identity(identity);
  require(model.package() == nullptr, ErrorKind::invalid_argument,
          "the weights of a package are packed and cannot be marked; mark the model that it was made from");
  const Secret secret = read_watermark_key(key);
  const Signs signs(secret, identity);
  auto graph = std::make_shared<ir::Graph>(model.graph());
  std::vector<MarkedWeight> weights;
  for (const ir::ValueId id : protect::markable_constants(*graph, false))
    weights.push_back(protect::read_weight(*graph, id, TieOrder::as_stored));
  require(!weights.empty(), ErrorKind::invalid_argument,
          "the model has no floating-point matrices or filters of 256 weights and more that could carry a watermark");
  const double strength = needed_strength(weights, signs);
  Correlation correlation;
  WatermarkReport made{0, strength, 0};
  for (const MarkedWeight& weight : weights) {
    const Tensor tensor =
        protect::stored_tensor(*graph->constant(weight.value), marked(weight, signs(weight.canonical), strength));
    graph->become_constant(weight.value, tensor);
    correlation.add(protect::read_weight(*graph, weight.value, TieOrder::as_stored));
    made.weights += tensor.elements();
  }
  made.score = correlation.score(signs);
  if (report != nullptr) *report = made;
  return Model(std::move(graph));
}

std::vector<WatermarkFinding> find_watermarks(const Model& model, std::span<const std::string> identities,
                                              const std::filesystem::path& key, std::int64_t* weights) {
  constexpr std::array kOrders{TieOrder::as_stored, TieOrder::reversed};
  for (const std::string& identity : identities) check_identity(identity);
  const Secret secret = read_watermark_key(key);
  const std::vector<ir::ValueId> constants = protect::markable_constants(model.graph(), true);
  require(!constants.empty(), ErrorKind::invalid_argument,
          "the model has no matrices or filters of 256 weights and more that could carry a watermark");
  std::array<Correlation, kOrders.size()> correlations;
  std::int64_t looked_at = 0;
  for (const ir::ValueId id : constants) {
    looked_at += model.graph().constant(id)->elements();
    for (std::size_t i = 0; i < kOrders.size(); ++i)
      correlations[i].add(protect::read_weight(model.graph(), id, kOrders[i]));
  }
  if (weights != nullptr) *weights = looked_at;
  // Every identity in every order is a trial, and each has its share of the false alarms.
  const double trials = static_cast<double>(identities.size() * kOrders.size());
  const double threshold = std::sqrt(2 * std::log(trials / kFalseAlarms));
  std::vector<WatermarkFinding> findings;
  for (const std::string& identity : identities) {
    const Signs signs(secret, identity);
    double score = correlations[0].score(signs);
    for (const Correlation& each : correlations) score = std::max(score, each.score(signs));
    findings.push_back({identity, score, threshold, score > threshold});
  }
  return findings;
}

}  // namespace tessera
