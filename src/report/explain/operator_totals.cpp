#include "report/explain/operator_totals.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::report {

bool is_measured(const Explanation& explanation) {
  return explanation.measured && explanation.measured->device == 0;
}

double seconds_of(const Explanation& explanation, std::size_t layer) {
  if (is_measured(explanation)) return explanation.measured->seconds[layer];
  return explanation.devices[0].evaluation.layers[layer].estimate.seconds;
}

std::vector<std::size_t> slowest_first(const Explanation& explanation) {
  const std::vector<cost::Layer>& layers = explanation.devices[0].evaluation.layers;
  std::vector<std::size_t> order(layers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return layers[i].estimate.bound == cost::Bound::none; });
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return seconds_of(explanation, i); });
  return order;
}

std::vector<OperatorTotal> operator_totals(const Explanation& explanation) {
  const bool measured = is_measured(explanation);
  std::map<std::string, OperatorTotal> by_type;
  for (const std::size_t i : slowest_first(explanation)) {
    const cost::Layer& layer = explanation.devices[0].evaluation.layers[i];
    OperatorTotal& total = by_type[layer.work.op];
    total.op = layer.work.op;
    ++total.count;
    total.seconds += layer.estimate.seconds;
    if (measured) total.measured_seconds += explanation.measured->seconds[i];
    total.operations += layer.estimate.operations;
    total.bytes += layer.estimate.bytes;
  }
  std::vector<OperatorTotal> list;
  for (auto& [op, total] : by_type) list.push_back(std::move(total));
  std::ranges::stable_sort(list, std::greater<>(),
                           measured ? &OperatorTotal::measured_seconds : &OperatorTotal::seconds);
  return list;
}

BoundShare largest_bound(const Explanation& explanation) {
  if (!is_measured(explanation)) {
    const cost::Total& total = explanation.devices[0].evaluation.total;
    return {total.bound, total.bound_share};
  }
  std::map<cost::Bound, double> seconds;
  double all = 0;
  for (const std::size_t i : slowest_first(explanation)) {
    const double own = explanation.measured->seconds[i];
    seconds[explanation.devices[0].evaluation.layers[i].estimate.bound] += own;
    all += own;
  }
  const auto largest = std::ranges::max_element(seconds, {}, [](const auto& each) { return each.second; });
  if (largest == seconds.end() || all <= 0) return {};
  return {largest->first, largest->second / all};
}

}  // namespace tessera::report
