#include "train/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/half.h"

namespace tessera::train {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

template <typename T>
std::vector<double> converted(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

std::vector<double> numbers_of(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::f32:
      return converted<float>(tensor);
    case DType::f64:
      return converted<double>(tensor);
    case DType::i64:
      return converted<std::int64_t>(tensor);
    case DType::i32:
      return converted<std::int32_t>(tensor);
    case DType::u8:
      return converted<std::uint8_t>(tensor);
    case DType::boolean:
      return converted<bool>(tensor);
    case DType::f16:
    case DType::bf16: {
      std::vector<double> values;
      values.reserve(static_cast<std::size_t>(tensor.elements()));
      if (tensor.dtype() == DType::f16)
        for (const f16_t value : tensor.values<f16_t>()) values.push_back(base::to_float(value));
      else
        for (const bf16_t value : tensor.values<bf16_t>()) values.push_back(base::to_float(value));
      return values;
    }
    default:
      fail(ErrorKind::invalid_argument, "a metric of {} is not known", name_of(tensor.dtype()));
  }
}

// Whether each element of the prediction is a score of its own: it has the target's elements, and no axis of classes.
bool is_scores(const Tensor& prediction, const Tensor& target) {
  return prediction.elements() == target.elements() &&
         (prediction.shape() == target.shape() || (prediction.rank() == 2 && prediction.shape()[1] == 1));
}

// Logits with the class that each of them should have.
class Labelled {
 public:
  Labelled(const Tensor& prediction, const Tensor& target, std::int64_t ignore_index)
      : logits_(numbers_of(prediction)), labels_(numbers_of(target)), ignore_index_(ignore_index) {
    const Shape& shape = prediction.shape();
    const auto fits = [&](std::size_t axis) {
      Shape rest = shape;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
      return rest == target.shape();
    };
    const std::size_t last = shape.size() - 1;
    require(shape.size() >= 2 && (fits(1) || fits(last)), ErrorKind::invalid_argument,
            "labels {} do not fit a prediction {}; expected its shape without the classes, which are along axis 1 or "
            "the last axis",
            to_string(target.shape()), to_string(shape));
    const std::size_t axis = fits(1) ? 1 : last;
    classes_ = shape[axis];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner_ *= shape[i];
  }

  std::int64_t classes() const { return classes_; }

  // Calls use(label, logit) for each label that counts, where logit(c) is that of class c.
  template <typename Use>
  void for_each(Use use) const {
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      const auto label = static_cast<std::int64_t>(labels_[i]);
      if (label == ignore_index_) continue;
      require(label >= 0 && label < classes_, ErrorKind::invalid_argument, "the label {} is no class: there are {}",
              label, classes_);
      const std::int64_t position = static_cast<std::int64_t>(i);
      const double* from = logits_.data() + position / inner_ * inner_ * classes_ + position % inner_;
      use(label, [from, this](std::int64_t c) { return from[c * inner_]; });
    }
  }

  template <typename Logit>
  std::int64_t largest(Logit logit) const {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes_; ++c) {
      if (logit(c) > logit(best)) best = c;
    }
    return best;
  }

 private:
  std::vector<double> logits_, labels_;
  std::int64_t ignore_index_, classes_ = 0, inner_ = 1;
};

// Scores with what they should be.
template <typename Use>
void for_each_score(const Tensor& prediction, const Tensor& target, Use use) {
  const std::vector<double> scores = numbers_of(prediction), targets = numbers_of(target);
  for (std::size_t i = 0; i < scores.size(); ++i) use(scores[i], targets[i] > 0.5);
}

class TopK final : public Metric {
 public:
  TopK(std::int64_t k, std::int64_t ignore_index) : k_(k), ignore_index_(ignore_index) {}

  void add(const Tensor& prediction, const Tensor& target) override {
    const auto count = [&](bool right) {
      ++counted_;
      right_ += right ? 1 : 0;
    };
    if (k_ == 1 && is_scores(prediction, target)) {
      for_each_score(prediction, target, [&](double score, bool positive) { count((score > 0) == positive); });
      return;
    }
    const Labelled batch(prediction, target, ignore_index_);
    batch.for_each([&](std::int64_t label, auto logit) {
      std::int64_t before = 0;  // classes that are ranked before the label
      for (std::int64_t c = 0; c < batch.classes(); ++c)
        before += logit(c) > logit(label) || (logit(c) == logit(label) && c < label) ? 1 : 0;
      count(before < k_ && !std::isnan(logit(label)));
    });
  }
  double value() const override {
    return counted_ == 0 ? kNothing : static_cast<double>(right_) / static_cast<double>(counted_);
  }

 private:
  std::int64_t k_, ignore_index_, right_ = 0, counted_ = 0;
};

class AreaUnderCurve final : public Metric {
 public:
  void add(const Tensor& prediction, const Tensor& target) override {
    require(is_scores(prediction, target), ErrorKind::invalid_argument,
            "auc: the target {} does not fit one score a sample, {}", to_string(target.shape()),
            to_string(prediction.shape()));
    for_each_score(prediction, target, [&](double score, bool positive) { scores_.emplace_back(score, positive); });
  }
  // (Σ ranks of positives − P (P + 1) / 2) / (P N), equal scores sharing their mean rank.
  double value() const override {
    std::vector<std::pair<double, bool>> sorted = scores_;
    if (std::ranges::any_of(sorted, [](const auto& entry) { return std::isnan(entry.first); })) return kNothing;
    std::ranges::sort(sorted);
    double ranks = 0, positives = 0;
    for (std::size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
      double here = 0;
      for (; end < sorted.size() && sorted[end].first == sorted[begin].first; ++end) here += sorted[end].second ? 1 : 0;
      positives += here;
      ranks += here * (static_cast<double>(begin + end + 1) / 2);
    }
    const double negatives = static_cast<double>(sorted.size()) - positives;
    if (positives == 0 || negatives == 0) return kNothing;
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
  }

 private:
  std::vector<std::pair<double, bool>> scores_;
};

class Perplexity final : public Metric {
 public:
  explicit Perplexity(std::int64_t ignore_index) : ignore_index_(ignore_index) {}

  void add(const Tensor& prediction, const Tensor& target) override {
    const Labelled batch(prediction, target, ignore_index_);
    batch.for_each([&](std::int64_t label, auto logit) {
      const double most = logit(batch.largest(logit));
      double sum = 0;
      for (std::int64_t c = 0; c < batch.classes(); ++c) sum += std::exp(logit(c) - most);
      losses_ += most + std::log(sum) - logit(label);
      ++counted_;
    });
  }
  double value() const override { return counted_ == 0 ? kNothing : std::exp(losses_ / static_cast<double>(counted_)); }

 private:
  std::int64_t ignore_index_, counted_ = 0;
  double losses_ = 0;
};

// What is computed from the numbers of true positives, false positives and false negatives of each class.
class Confusion final : public Metric {
 public:
  struct Counts {
    double true_positives = 0, false_positives = 0, false_negatives = 0;
    double seen() const { return true_positives + false_positives + false_negatives; }
  };
  Confusion(double (*quality)(const Counts&), std::int64_t ignore_index)
      : quality_(quality), ignore_index_(ignore_index) {}

  void add(const Tensor& prediction, const Tensor& target) override {
    if (is_scores(prediction, target)) {
      counts_.resize(std::max<std::size_t>(counts_.size(), 1));
      for_each_score(prediction, target, [&](double score, bool positive) {
        const bool chosen = score > 0;
        if (chosen && positive) ++counts_[0].true_positives;
        if (chosen && !positive) ++counts_[0].false_positives;
        if (!chosen && positive) ++counts_[0].false_negatives;
      });
      return;
    }
    const Labelled batch(prediction, target, ignore_index_);
    counts_.resize(std::max(counts_.size(), static_cast<std::size_t>(batch.classes())));
    batch.for_each([&](std::int64_t label, auto logit) {
      const auto chosen = static_cast<std::size_t>(batch.largest(logit)), right = static_cast<std::size_t>(label);
      if (chosen == right) {
        ++counts_[right].true_positives;
      } else {
        ++counts_[chosen].false_positives;
        ++counts_[right].false_negatives;
      }
    });
  }
  double value() const override {
    double sum = 0, classes = 0;
    for (const Counts& counts : counts_) {
      if (counts.seen() == 0) continue;
      sum += quality_(counts);
      ++classes;
    }
    return classes == 0 ? kNothing : sum / classes;
  }

 private:
  double (*quality_)(const Counts&);
  std::int64_t ignore_index_;
  std::vector<Counts> counts_;
};

double f1(const Confusion::Counts& counts) {
  return 2 * counts.true_positives / (counts.true_positives + counts.seen());
}
double intersection_over_union(const Confusion::Counts& counts) {
  return counts.true_positives / counts.seen();
}

struct Entry {
  std::string_view name;
  bool larger_is_better;
  std::unique_ptr<Metric> (*make)(std::int64_t argument, std::int64_t ignore_index);
  bool has_argument = false;
};

constexpr std::array<Entry, 6> kMetrics = {{
    {"accuracy", true,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> { return std::make_unique<TopK>(1, ignored); }},
    {"top_k", true,
     [](std::int64_t k, std::int64_t ignored) -> std::unique_ptr<Metric> { return std::make_unique<TopK>(k, ignored); },
     true},
    {"auc", true,
     [](std::int64_t, std::int64_t) -> std::unique_ptr<Metric> { return std::make_unique<AreaUnderCurve>(); }},
    {"f1", true,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> {
       return std::make_unique<Confusion>(f1, ignored);
     }},
    {"perplexity", false,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> {
       return std::make_unique<Perplexity>(ignored);
     }},
    {"mean_iou", true,
     [](std::int64_t, std::int64_t ignored) -> std::unique_ptr<Metric> {
       return std::make_unique<Confusion>(intersection_over_union, ignored);
     }},
}};

const Entry& entry_of(std::string_view description) {
  const std::string_view name = description.substr(0, description.find(':'));
  const auto found = std::ranges::find(kMetrics, name, &Entry::name);
  if (found != kMetrics.end()) return *found;
  std::string names;
  for (const std::string& known : metric_names()) names += (names.empty() ? "" : ", ") + known;
  fail(ErrorKind::invalid_argument, "unknown metric '{}'; there are {}, and loss", description, names);
}

}  // namespace

std::unique_ptr<Metric> make_metric(const std::string& description, std::int64_t ignore_index) {
  const Entry& entry = entry_of(description);
  const std::size_t colon = description.find(':');
  std::int64_t argument = 0;
  if (entry.has_argument) {
    const std::string text = colon == std::string::npos ? "" : description.substr(colon + 1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), argument);
    require(error == std::errc() && end == text.data() + text.size() && argument > 0, ErrorKind::invalid_argument,
            "metric '{}': expected {}:K with a whole number K of at least 1", description, entry.name);
  } else {
    require(colon == std::string::npos, ErrorKind::invalid_argument, "metric '{}': {} has no argument", description,
            entry.name);
  }
  return entry.make(argument, ignore_index);
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kMetrics) names.emplace_back(entry.name);
  return names;
}

bool larger_is_better(const std::string& description) {
  return entry_of(description).larger_is_better;
}

}  // namespace tessera::train
