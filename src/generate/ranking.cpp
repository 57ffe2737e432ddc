#include "generate/ranking.h"

#include <algorithm>
#include <cmath>

namespace tessera::generate {
namespace {

constexpr std::size_t kFirstPlaces = 64;

bool comes_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

}  // namespace

void Ranking::sort_to(std::size_t count) {
  // Twice as many as before, so that looking at all of them takes little more than sorting them at once.
  const std::size_t wanted = std::min(size(), std::max({count, 2 * sorted_, kFirstPlaces}));
  const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(wanted);
  if (wanted < size()) std::nth_element(begin, end, candidates_.end(), comes_before);
  std::sort(begin, end, comes_before);
  sorted_ = wanted;
}

void Ranking::truncate(std::size_t count) {
  if (count > sorted_ && count < size()) sort_to(count);
  candidates_.resize(count);
  sorted_ = std::min(sorted_, count);
}

double Ranking::total() {
  const double highest = at(0).logit;
  double total = 0;
  for (const Candidate& candidate : candidates_) total += std::exp(candidate.logit - highest);
  return total;
}

}  // namespace tessera::generate
