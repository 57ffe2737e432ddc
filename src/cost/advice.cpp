#include "cost/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/numbers/units.h"
#include "base/text.h"
#include "cost/fusion.h"

namespace tessera::cost {
namespace {

// Gains below this share of the time are not worth mentioning.
constexpr double kWorthSaying = 0.01;

std::string percent(double share) {
  return fmt::format("{:.{}f}%", share * 100, share < 0.095 ? 1 : 0);
}
std::string time_text(double seconds) {
  return base::format_duration_ns(static_cast<std::int64_t>(seconds * 1e9));
}

// Names of the layers with the largest gains, at most `most`.
std::vector<std::string> largest(std::vector<std::pair<double, std::string>> gains, std::size_t most = 5) {
  std::ranges::stable_sort(gains, std::greater<>(), &std::pair<double, std::string>::first);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(most, gains.size()); ++i) names.push_back(gains[i].second);
  return names;
}

std::string quoted(const std::vector<std::string>& names, std::size_t most = 3) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i == 0 ? "'" : ", '") + base::printable(base::shown(names[i])) + "'";
  return text + (names.size() > most ? " ..." : "");
}

void advise_batch(const Situation& situation, std::vector<Advice>& list) {
  const Evaluation& now = *situation.now;
  double weight_bytes = 0, activation_bytes = 0, largest_activation = 0;
  for (const Layer& layer : now.layers) {
    const double activations = layer.work.bytes() - layer.work.weight_bytes;
    weight_bytes += layer.work.weight_bytes;
    activation_bytes += activations;
    largest_activation = std::max(largest_activation, activations);
  }
  // Bytes in memory at once: training keeps all activations for the backward pass.
  const double live = situation.training ? activation_bytes : largest_activation;
  std::vector<std::pair<double, double>> options;  // factor, seconds per present batch
  for (double factor = 1; factor <= 1024; factor *= 2) {
    if (factor > 1 && weight_bytes + factor * live > static_cast<double>(now.device.memory_bytes)) break;
    std::vector<Work> works;
    for (const Layer& layer : now.layers) works.push_back(with_batch(layer.work, factor));
    options.emplace_back(factor, evaluate(std::move(works), now.device, now.precision).total.seconds / factor);
  }
  const double present = options.front().second,
               best = std::ranges::min(options, {}, &std::pair<double, double>::second).second;
  // Chooses the smallest batch whose time is within a tenth of the best.
  const auto chosen = std::ranges::find_if(options, [&](const auto& option) { return option.second <= best * 1.1; });
  const double gain = 1 - chosen->second / present;
  std::vector<std::pair<double, std::string>> bound;
  double latest = 0;
  for (const Layer& layer : now.layers) {
    if (layer.estimate.bound != Bound::memory || layer.batch_factor <= 1) continue;
    bound.emplace_back(layer.estimate.seconds, layer_name(layer.work));
    if (bound.size() == 1 || layer.estimate.seconds >= std::ranges::max(bound).first) latest = layer.batch_factor;
  }
  if (situation.batch > 0 && chosen->first > 1 && gain > kWorthSaying) {
    Advice advice{AdviceKind::batch,
                  fmt::format("Raise the batch from {} to {}", situation.batch,
                              std::llround(static_cast<double>(situation.batch) * chosen->first)),
                  gain, largest(bound)};
    if (!bound.empty())
      advice.text += fmt::format("; {} stops being bound by memory at a batch of {}", quoted(advice.layers, 1),
                                 static_cast<std::int64_t>(std::ceil(static_cast<double>(situation.batch) * latest)));
    list.push_back(std::move(advice));
  } else {
    list.push_back({AdviceKind::batch,
                    fmt::format("A larger batch than {} gains next to nothing per sample", situation.batch),
                    0,
                    {}});
  }
}

void advise_padding(const Situation& situation, std::vector<Advice>& list) {
  const Evaluation& now = *situation.now;
  std::vector<std::pair<double, std::string>> gains, what;
  double gain = 0;
  for (const Layer& layer : now.layers) {
    if (layer.padded_multiple == 0 || layer.padding_gain_seconds <= 0) continue;
    const Product &before = *layer.work.gemm, after = *padded(layer.work, layer.padded_multiple)->gemm;
    gain += layer.padding_gain_seconds;
    gains.emplace_back(layer.padding_gain_seconds, layer_name(layer.work));
    std::string change;
    const auto add = [&](const char* name, std::int64_t from, std::int64_t to) {
      if (from != to) change += fmt::format("{}{} {} to {}", change.empty() ? "" : ", ", name, from, to);
    };
    const bool convolution = before.input_channels > 0;
    add(convolution ? "output channels" : "N", convolution ? before.output_channels : before.n,
        convolution ? after.output_channels : after.n);
    add(convolution ? "input channels" : "K", convolution ? before.input_channels : before.k,
        convolution ? after.input_channels : after.k);
    what.emplace_back(layer.padding_gain_seconds, change);
  }
  const double share = gain / now.total.seconds;
  if (share <= kWorthSaying) return;
  const std::vector<std::string> names = largest(gains), changes = largest(what);
  list.push_back({AdviceKind::padding,
                  fmt::format("Pad {} layer{} to fit the matrix units, first {} ({})", gains.size(),
                              gains.size() == 1 ? "" : "s", quoted(names, 1), changes[0]),
                  share, names});
}

void advise_fusion(const Situation& situation, std::vector<Advice>& list) {
  const Evaluation& now = *situation.now;
  const std::vector<Fusion> fusions = find_fusions(now, *situation.graph);
  double gain = 0;
  std::vector<std::pair<double, std::string>> gains;
  std::map<std::string, int> operators;
  for (const Fusion& fusion : fusions) {
    gain += fusion.gain_seconds;
    gains.emplace_back(fusion.gain_seconds, layer_name(now.layers[fusion.layer].work));
    ++operators[now.layers[fusion.layer].work.op];
  }
  const double share = gain / now.total.seconds;
  if (share <= kWorthSaying) return;
  std::vector<std::pair<int, std::string>> counts;
  for (const auto& [op, count] : operators) counts.emplace_back(count, op);
  std::ranges::sort(counts, std::greater<>());
  std::string which;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, counts.size()); ++i)
    which += fmt::format("{}{} {}", i == 0 ? "" : ", ", counts[i].first, counts[i].second);
  list.push_back(
      {AdviceKind::fusion,
       fmt::format("Fuse {} element-wise operator{} into what comes before {} ({}{}): {} less to read and write",
                   fusions.size(), fusions.size() == 1 ? "" : "s", fusions.size() == 1 ? "it" : "them", which,
                   counts.size() > 3 ? " ..." : "",
                   base::format_bytes(static_cast<std::int64_t>(saved_bytes(fusions)))),
       share, largest(gains)});
}

void advise_precision(const Situation& situation, std::vector<Advice>& list) {
  const Evaluation& now = *situation.now;
  for (const Precision precision : kAllPrecisions) {
    if (precision == now.precision || !now.device.supports(precision) ||
        storage_bytes(precision) > storage_bytes(now.precision))
      continue;
    if (situation.training && precision == Precision::int8) continue;
    if (precision == Precision::f32 || (now.device.kind == DeviceKind::cpu && precision == Precision::f16)) continue;
    const Evaluation other = situation.elsewhere(now.device, precision);
    const double gain = 1 - other.total.seconds / now.total.seconds;
    std::vector<std::pair<double, std::string>> gains;
    double untouched = 0;
    for (std::size_t i = 0; i < now.layers.size(); ++i) {
      const double saved = now.layers[i].estimate.seconds - other.layers[i].estimate.seconds;
      if (saved <= 0.02 * now.layers[i].estimate.seconds) untouched += now.layers[i].estimate.seconds;
      else gains.emplace_back(saved, layer_name(now.layers[i].work));
    }
    const double share_untouched = untouched / now.total.seconds;
    if (gain <= kWorthSaying) continue;
    Advice advice{AdviceKind::precision,
                  fmt::format("Run in {} instead of {}: {} instead of {}", name_of(precision), name_of(now.precision),
                              time_text(other.total.seconds), time_text(now.total.seconds)),
                  gain, largest(gains)};
    if (share_untouched > 0.05)
      advice.text += fmt::format("; layers with {} of the time gain nothing from it", percent(share_untouched));
    list.push_back(std::move(advice));
  }
}

void advise_upgrade(const Situation& situation, std::vector<Advice>& list) {
  const Evaluation& now = *situation.now;
  if (now.total.bound == Bound::overhead) {
    list.push_back({AdviceKind::upgrade,
                    fmt::format("A bigger device gains nothing: {} of the time goes to starting operators, neither to "
                                "memory nor to arithmetic",
                                percent(now.total.bound_share)),
                    0,
                    {}});
    return;
  }
  for (const DeviceProfile& device : situation.candidates) {
    if (device.name == now.device.name) continue;
    const Precision precision = device.supports(now.precision) ? now.precision : Precision::f32;
    const Evaluation other = situation.elsewhere(device, precision);
    const double ratio = now.total.seconds / other.total.seconds, gain = 1 - 1 / ratio;
    std::vector<std::pair<double, std::string>> gains;
    for (std::size_t i = 0; device.kind == now.device.kind && i < now.layers.size(); ++i) {
      gains.emplace_back(now.layers[i].estimate.seconds - other.layers[i].estimate.seconds,
                         layer_name(now.layers[i].work));
    }
    const std::string in = precision == now.precision ? "" : fmt::format(" in {}", name_of(precision));
    if (ratio > 1.05) {
      list.push_back({AdviceKind::upgrade,
                      fmt::format("{}{} runs it {:.1f} times as fast ({} instead of {}), and would then be bound by {}",
                                  device.title, in, ratio, time_text(other.total.seconds), time_text(now.total.seconds),
                                  name_of(other.total.bound)),
                      gain, largest(gains)});
    } else {
      list.push_back({AdviceKind::upgrade,
                      fmt::format("{}{} does not help: {} instead of {}", device.title, in,
                                  time_text(other.total.seconds), time_text(now.total.seconds)),
                      0,
                      {}});
    }
  }
}

void advise_sharing(const Situation& situation, std::vector<Advice>& list) {
  if (situation.now->device.kind == DeviceKind::cpu) {
    // Time lost below the CPU's peak is not idle time of its cores.
    list.push_back(
        {AdviceKind::sharing, "Two such jobs gain nothing by sharing this CPU: a run keeps its cores busy", 0, {}});
    return;
  }
  const Total& total = situation.now->total;
  const double busiest = std::max(total.arithmetic_utilisation, total.memory_utilisation);
  const std::string use = fmt::format("arithmetic is in use {} of the time at its peak, memory {}",
                                      percent(total.arithmetic_utilisation), percent(total.memory_utilisation));
  if (busiest > 0 && 1 / busiest > 1.2) {
    const double together = std::min(2.0, 1 / busiest);
    list.push_back(
        {AdviceKind::sharing,
         fmt::format("Two such jobs could share the device and do {:.1f} times the work of one: {}", together, use),
         1 - 1 / together,
         {}});
  } else {
    list.push_back(
        {AdviceKind::sharing, fmt::format("Two such jobs gain nothing by sharing the device: {}", use), 0, {}});
  }
}

}  // namespace

std::string_view name_of(AdviceKind kind) {
  switch (kind) {
    case AdviceKind::batch:
      return "batch";
    case AdviceKind::padding:
      return "padding";
    case AdviceKind::fusion:
      return "fusion";
    case AdviceKind::precision:
      return "precision";
    case AdviceKind::upgrade:
      return "upgrade";
    case AdviceKind::sharing:
      return "sharing";
  }
  return "";
}

std::string layer_name(const Work& work) {
  return work.name.empty() ? work.op : work.name;
}

std::vector<Advice> advise(const Situation& situation) {
  std::vector<Advice> list;
  if (situation.now->layers.empty() || situation.now->total.seconds <= 0) return list;
  advise_batch(situation, list);
  advise_padding(situation, list);
  advise_fusion(situation, list);
  advise_precision(situation, list);
  advise_upgrade(situation, list);
  advise_sharing(situation, list);
  std::ranges::stable_sort(list, std::greater<>(), &Advice::gain);
  return list;
}

}  // namespace tessera::cost
