#include "backends/host/pair_scores.h"

#include <numeric>

namespace tessera::backends::host {
namespace {

// Class probabilities from those of all pairs, r[i * n + j] = P(i | i or j): T.-F. Wu, C.-J. Lin, R. C. Weng,
// "Probability Estimates for Multi-class Classification by Pairwise Coupling", JMLR 5 (2004), algorithm 2.
std::vector<double> couple_pairs(std::size_t n, const std::vector<double>& r) {
  std::vector<double> q(n * n, 0.0), p(n, 1.0 / static_cast<double>(n)), qp(n);
  for (std::size_t t = 0; t < n; ++t) {
    for (std::size_t j = 0; j < n; ++j) {
      if (j == t) continue;
      q[t * n + t] += r[j * n + t] * r[j * n + t];
      q[t * n + j] = -r[j * n + t] * r[t * n + j];
    }
  }
  for (std::size_t round = 0; round < std::max<std::size_t>(100, n); ++round) {
    double pqp = 0, error = 0;
    for (std::size_t t = 0; t < n; ++t) {
      qp[t] = std::inner_product(p.begin(), p.end(), q.data() + t * n, 0.0);
      pqp += p[t] * qp[t];
    }
    for (std::size_t t = 0; t < n; ++t) error = std::max(error, std::abs(qp[t] - pqp));
    if (error < 0.005 / static_cast<double>(n)) break;
    for (std::size_t t = 0; t < n; ++t) {
      const double step = (pqp - qp[t]) / q[t * n + t];
      p[t] += step;
      pqp = (pqp + step * (step * q[t * n + t] + 2 * qp[t])) / (1 + step) / (1 + step);
      for (std::size_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + step * q[t * n + j]) / (1 + step);
        p[j] /= 1 + step;
      }
    }
  }
  return p;
}

}  // namespace

std::vector<double> probabilities_of_pairs(std::size_t classes, const std::vector<double>& scores,
                                           const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> r(classes * classes, 0.0);
  std::size_t pair = 0;
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = i + 1; j < classes; ++j, ++pair) {
      const double p = 1 / (1 + std::exp(scores[pair] * a[pair] + b[pair]));
      r[i * classes + j] = std::clamp(p, 1e-7, 1 - 1e-7);
      r[j * classes + i] = 1 - r[i * classes + j];
    }
  }
  return couple_pairs(classes, r);
}

std::vector<double> scores_of_pair(double score, ops::PostTransform transform) {
  if (transform == ops::PostTransform::logistic) {
    std::vector<double> scores{-score, score};
    transform_scores(scores, transform);
    return scores;
  }
  return {1 - score, score};
}

}  // namespace tessera::backends::host
