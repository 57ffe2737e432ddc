#include "backends/host/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace tessera::backends::host {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // log 0

double log_sum(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

// The states of a path: the labels with a blank before, between and behind them.
class Paths {
 public:
  Paths(const double* scores, std::int64_t time, std::int64_t classes, std::span<const std::int64_t> labels,
        std::int64_t blank)
      : time_(time), classes_(classes), log_p_(scores, scores + time * classes), states_{blank} {
    for (const std::int64_t label : labels) {
      require(label >= 0 && label < classes && label != blank, ErrorKind::failed,
              "label {} of the CTC loss is blank or outside [0, {})", label, classes);
      states_.push_back(label);
      states_.push_back(blank);
    }
    for (std::int64_t t = 0; t < time; ++t) normalise(log_p_.data() + t * classes);
  }

  double log_probability() {
    const std::size_t count = states_.size();
    forward_.assign(static_cast<std::size_t>(time_) * count, kNever);
    for (std::int64_t t = 0; t < time_; ++t) {
      for (std::size_t s = 0; s < count; ++s) {
        double before = t == 0 ? (s < 2 ? 0 : kNever) : forward(t - 1, s);
        if (t > 0 && s > 0) before = log_sum(before, forward(t - 1, s - 1));
        if (t > 0 && skips_into(s)) before = log_sum(before, forward(t - 1, s - 2));
        forward(t, s) = before + log_p(t, s);
      }
    }
    const double at_blank = forward(time_ - 1, count - 1);
    return count == 1 ? at_blank : log_sum(at_blank, forward(time_ - 1, count - 2));
  }

  // The derivative of the loss: p minus the share of the paths that are at each class; to be called after
  // log_probability().
  void derivative(double log_probability, double* to) const {
    const std::size_t count = states_.size();
    // Log-probabilities of the rest of the path, from each state on.
    std::vector<double> rest(count, kNever), later(count);
    rest[count - 1] = 0;
    if (count > 1) rest[count - 2] = 0;
    for (std::int64_t t = time_ - 1; t >= 0; --t) {
      double* row = to + t * classes_;
      for (std::int64_t c = 0; c < classes_; ++c) row[c] = std::exp(log_p_[static_cast<std::size_t>(t * classes_ + c)]);
      for (std::size_t s = 0; s < count; ++s)
        row[states_[s]] -= std::exp(forward_[static_cast<std::size_t>(t) * count + s] + rest[s] - log_probability);
      for (std::size_t s = 0; s < count; ++s) later[s] = rest[s] + log_p(t, s);
      for (std::size_t s = 0; s < count; ++s) {
        rest[s] = later[s];
        if (s + 1 < count) rest[s] = log_sum(rest[s], later[s + 1]);
        if (s + 2 < count && skips_into(s + 2)) rest[s] = log_sum(rest[s], later[s + 2]);
      }
    }
  }

 private:
  void normalise(double* row) const {
    const double largest = *std::max_element(row, row + classes_);
    double sum = 0;
    for (std::int64_t c = 0; c < classes_; ++c) sum += std::exp(row[c] - largest);
    for (std::int64_t c = 0; c < classes_; ++c) row[c] -= largest + std::log(sum);
  }
  // Whether a path may come from two states back: past a blank, from a different label.
  bool skips_into(std::size_t s) const { return s > 1 && s % 2 == 1 && states_[s] != states_[s - 2]; }
  double log_p(std::int64_t t, std::size_t s) const {
    return log_p_[static_cast<std::size_t>(t * classes_ + states_[s])];
  }
  double& forward(std::int64_t t, std::size_t s) { return forward_[static_cast<std::size_t>(t) * states_.size() + s]; }

  std::int64_t time_, classes_;
  std::vector<double> log_p_, forward_;
  std::vector<std::int64_t> states_;
};

}  // namespace

double ctc_loss(const double* scores, std::int64_t time, std::int64_t classes, std::span<const std::int64_t> labels,
                std::int64_t blank, double* derivative) {
  require(blank < classes, ErrorKind::failed, "blank {} of the CTC loss is outside [0, {})", blank, classes);
  Paths paths(scores, time, classes, labels, blank);
  const double log_probability = time == 0 ? kNever : paths.log_probability();
  if (log_probability == kNever) {
    if (derivative != nullptr) std::fill_n(derivative, time * classes, 0.0);
    return 0;
  }
  if (derivative != nullptr) paths.derivative(log_probability, derivative);
  return -log_probability;
}

}  // namespace tessera::backends::host
