// Counts which class was predicted for which label.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/train.h"

namespace tessera::train {

class ClassCounts {
 public:
  explicit ClassCounts(std::int64_t ignore_index) : ignore_index_(ignore_index) {}

  // Predictions and targets are those of metrics (train/evaluation/metrics.h). Nothing is counted if there are more
  // than kMostClasses classes.
  void add(const Tensor& prediction, const Tensor& target);

  // Nothing if nothing was counted. Classes without a name are called by their number.
  std::optional<ClassReport> report(const std::vector<std::string>& names) const;

  static constexpr std::int64_t kMostClasses = 1000;

 private:
  void count(std::int64_t label, std::int64_t predicted) {
    ++counts_[static_cast<std::size_t>(label * classes_ + predicted)];
  }

  std::int64_t ignore_index_, classes_ = 0;
  std::vector<std::int64_t> counts_;  // [label, prediction]
};

}  // namespace tessera::train
