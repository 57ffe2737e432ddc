#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/numbers/philox.h"
#include "generate/ranking.h"

namespace tessera::generate {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr double kLargestPenalty = 100, kLargestTemperature = 100, kLargestBias = 100;

void check_range(const char* name, double value, double low, double high) {
  require(value >= low && value <= high, ErrorKind::invalid_argument, "{} is {}, expected a number from {} to {}", name,
          value, low, high);
}

bool is_token(std::int64_t token, std::int64_t vocabulary) {
  return token >= 0 && token < vocabulary;
}

std::vector<Candidate> candidates_of(std::span<const float> logits) {
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > kNever) candidates.push_back({logits[i], static_cast<std::int64_t>(i)});
  return candidates;
}

// The highest logit's token, of several the lowest.
std::int64_t greedy(std::span<const float> logits) {
  std::int64_t best = -1;
  float highest = kNever;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > highest)) continue;
    highest = logits[i];
    best = static_cast<std::int64_t>(i);
  }
  return best;
}

// Keeps the candidates whose surprise is nearest to the entropy, until they have the probability `p` together.
Ranking keep_typical(Ranking ranking, double p) {
  const double highest = ranking.at(0).logit, log_total = std::log(ranking.total()) + highest;
  double entropy = 0;
  for (const Candidate& candidate : ranking.candidates()) {
    const double log_probability = candidate.logit - log_total;
    entropy -= std::exp(log_probability) * log_probability;
  }
  std::vector<Candidate> kept = ranking.candidates();
  std::ranges::sort(kept, {}, [&](const Candidate& candidate) {
    return std::tuple(std::abs(log_total - candidate.logit - entropy), -candidate.logit, candidate.token);
  });
  double together = 0;
  std::size_t count = 0;
  while (count < kept.size() && (count == 0 || together < p)) together += std::exp(kept[count++].logit - log_total);
  kept.resize(count);
  return Ranking(std::move(kept));
}

void keep_top_p(Ranking& ranking, double p) {
  const double wanted = p * ranking.total(), highest = ranking.at(0).logit;
  double together = 0;
  std::size_t count = 0;
  while (count < ranking.size() && (count == 0 || together < wanted))
    together += std::exp(ranking.at(count++).logit - highest);
  ranking.truncate(count);
}

void keep_min_p(Ranking& ranking, double p) {
  const double lowest = ranking.at(0).logit + std::log(p);
  std::size_t count = 1;
  while (count < ranking.size() && ranking.at(count).logit >= lowest) ++count;
  ranking.truncate(count);
}

// The place that `uniform`, from [0, 1), falls on, where the candidates' probabilities follow each other.
std::size_t draw(Ranking& ranking, double uniform) {
  const double wanted = uniform * ranking.total(), highest = ranking.at(0).logit;
  double together = 0;
  for (std::size_t place = 0; place + 1 < ranking.size(); ++place) {
    together += std::exp(ranking.at(place).logit - highest);
    if (together > wanted) return place;
  }
  return ranking.size() - 1;
}

}  // namespace

void check_sampling(const SamplingOptions& options, std::int64_t vocabulary) {
  for (const auto& [token, bias] : options.logit_bias) {
    require(is_token(token, vocabulary), ErrorKind::invalid_argument, "logit_bias names the token {}, expected 0 to {}",
            token, vocabulary - 1);
    check_range("logit_bias", bias, -kLargestBias, kLargestBias);
  }
  require(options.repetition_penalty > 0 && options.repetition_penalty <= kLargestPenalty, ErrorKind::invalid_argument,
          "repetition_penalty is {}, expected a number above 0, up to {}", options.repetition_penalty, kLargestPenalty);
  check_range("presence_penalty", options.presence_penalty, -kLargestPenalty, kLargestPenalty);
  check_range("frequency_penalty", options.frequency_penalty, -kLargestPenalty, kLargestPenalty);
  check_range("temperature", options.temperature, 0, kLargestTemperature);
  require(options.top_k >= 0, ErrorKind::invalid_argument, "top_k is {}, expected 0 (all) or more", options.top_k);
  check_range("typical_p", options.typical_p, 0, 1);
  check_range("top_p", options.top_p, 0, 1);
  check_range("min_p", options.min_p, 0, 1);
  check_range("mirostat_tau", options.mirostat_tau, 0, kLargestPenalty);
  check_range("mirostat_eta", options.mirostat_eta, 0, 1);
}

TokenSampler::TokenSampler(SamplingOptions options, std::int64_t vocabulary, std::span<const std::int64_t> prompt)
    : options_(std::move(options)), vocabulary_(vocabulary), surprise_limit_(2 * options_.mirostat_tau) {
  check_sampling(options_, vocabulary_);
  for (const std::int64_t token : prompt) remember(token);
}

void TokenSampler::remember(std::int64_t token) {
  if (options_.repetition_penalty == 1 || options_.repetition_window == 0) return;
  ++in_window_[token];
  if (options_.repetition_window < 0) return;
  window_.push_back(token);
  if (static_cast<std::int64_t>(window_.size()) <= options_.repetition_window) return;
  const auto oldest = in_window_.find(window_.front());
  if (--oldest->second == 0) in_window_.erase(oldest);
  window_.pop_front();
}

void TokenSampler::accept(std::int64_t token) {
  remember(token);
  ++in_answer_[token];
  ++position_;
}

std::vector<float> TokenSampler::adjusted(std::span<const float> logits,
                                          std::span<const std::int64_t> forbidden) const {
  std::vector<float> result(logits.begin(), logits.end());
  const auto at = [&](std::int64_t token) -> float& { return result[static_cast<std::size_t>(token)]; };
  for (const auto& [token, bias] : options_.logit_bias) at(token) += bias;
  const auto penalty = static_cast<float>(options_.repetition_penalty);
  for (const auto& [token, count] : in_window_)
    if (is_token(token, vocabulary_)) at(token) = at(token) > 0 ? at(token) / penalty : at(token) * penalty;
  for (const auto& [token, count] : in_answer_)
    at(token) -=
        static_cast<float>(options_.presence_penalty + options_.frequency_penalty * static_cast<double>(count));
  for (const std::int64_t token : forbidden)
    if (is_token(token, vocabulary_)) at(token) = kNever;
  return result;
}

double TokenSampler::uniform() const {
  return base::philox_uniform_at(options_.seed, options_.choice, static_cast<std::uint64_t>(position_));
}

std::int64_t TokenSampler::sample_mirostat(Ranking& ranking) {
  constexpr double kBits = 1.4426950408889634;  // of a natural unit of information
  const auto log_total = [&] { return std::log(ranking.total()) + ranking.at(0).logit; };
  const double all = log_total();
  std::size_t count = 1;
  while (count < ranking.size() && (all - ranking.at(count).logit) * kBits <= surprise_limit_) ++count;
  ranking.truncate(count);
  const Candidate drawn = ranking.at(draw(ranking, uniform()));
  const double surprise = (log_total() - drawn.logit) * kBits;
  surprise_limit_ -= options_.mirostat_eta * (surprise - options_.mirostat_tau);
  return drawn.token;
}

std::int64_t TokenSampler::sample(std::span<const float> logits, std::span<const std::int64_t> forbidden) {
  require(static_cast<std::int64_t>(logits.size()) == vocabulary_, ErrorKind::invalid_argument,
          "there are {} logits, expected {}", logits.size(), vocabulary_);
  const std::vector<float> changed = adjusted(logits, forbidden);
  if (options_.temperature == 0) {
    const std::int64_t token = greedy(changed);
    require(token >= 0, ErrorKind::failed, "no token has a logit above minus infinity");
    return token;
  }
  std::vector<Candidate> candidates = candidates_of(changed);
  require(!candidates.empty(), ErrorKind::failed, "no token has a logit above minus infinity");
  for (Candidate& candidate : candidates) candidate.logit /= options_.temperature;
  Ranking ranking(std::move(candidates));
  if (options_.mirostat) return sample_mirostat(ranking);
  if (options_.top_k > 0 && options_.top_k < static_cast<std::int64_t>(ranking.size()))
    ranking.truncate(static_cast<std::size_t>(options_.top_k));
  if (options_.typical_p < 1) ranking = keep_typical(std::move(ranking), options_.typical_p);
  if (options_.top_p < 1) keep_top_p(ranking, options_.top_p);
  if (options_.min_p > 0) keep_min_p(ranking, options_.min_p);
  return ranking.at(draw(ranking, uniform())).token;
}

double log_probability(std::span<const float> logits, std::int64_t token) {
  double highest = kNever, total = 0;
  for (const float logit : logits) highest = std::max(highest, static_cast<double>(logit));
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - highest);
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) - highest - std::log(total);
}

std::vector<TokenLogprob> most_probable(std::span<const float> logits, std::int64_t count, std::int64_t chosen) {
  Ranking ranking(candidates_of(logits));
  const double log_total = std::log(ranking.total()) + ranking.at(0).logit;
  std::vector<TokenLogprob> result;
  bool has_chosen = false;
  for (std::size_t place = 0; place < std::min(ranking.size(), static_cast<std::size_t>(count)); ++place) {
    const Candidate& candidate = ranking.at(place);
    result.push_back({candidate.token, candidate.logit - log_total});
    has_chosen = has_chosen || candidate.token == chosen;
  }
  if (!has_chosen)
    result.push_back({chosen, static_cast<double>(logits[static_cast<std::size_t>(chosen)]) - log_total});
  return result;
}

}  // namespace tessera::generate
