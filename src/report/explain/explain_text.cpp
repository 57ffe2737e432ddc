// Writes an explanation as text for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/numbers/units.h"
#include "base/text.h"
#include "report/explain/explain.h"
#include "report/explain/explain_words.h"

namespace tessera::report {
namespace {

using cost::Bound;
using cost::Evaluation;
using cost::Layer;

// The last `width` bytes of a name, because layers' names differ at the end.
std::string name_text(const Layer& layer, std::size_t width) {
  std::string name = base::printable(base::shortened(cost::layer_name(layer.work), width));
  return name;
}

std::string device_text(const Explanation& explanation) {
  const cost::DeviceProfile& device = explanation.devices[0].evaluation.device;
  const cost::Precision asked = explanation.devices[0].evaluation.precision,
                        precision = counted_precision(explanation.devices[0].evaluation);
  std::string text =
      fmt::format("device    {}: {} in {}, {}", device.title, rate_text(device.peak(precision, true), precision),
                  cost::name_of(precision), count_text(device.bandwidth, "B/s"));
  text += fmt::format(", {:.1f} operations per byte at the ridge\n", device.peak(precision, true) / device.bandwidth);
  if (asked != precision)
    text += fmt::format("          It does not have {}: counted at the rate of {}.\n", cost::name_of(asked),
                        cost::name_of(precision));
  if (device.kind == cost::DeviceKind::cpu && !explanation.cpu_measured)
    text += "          These figures of the CPU are rough: run `tessera calibrate` once to measure it.\n";
  return text;
}

std::string bound_text(const cost::Total& total) {
  const auto share = [&](double seconds) { return total.seconds > 0 ? seconds / total.seconds * 100 : 0; };
  return fmt::format(
      "bound     memory {:.0f}%, arithmetic {:.0f}%, overhead {:.0f}% of the time; {} operations, {} read and "
      "written\n",
      share(total.memory_seconds), share(total.arithmetic_seconds), share(total.overhead_seconds),
      base::format_count(total.operations), bytes_text(total.bytes));
}

std::string optimiser_text(const OptimiserReport& report) {
  return fmt::format("optimiser nodes {} -> {}, operations {} -> {}, bytes {} -> {}, predicted {} -> {}\n",
                     report.before.nodes, report.after.nodes, base::format_count(report.before.operations),
                     base::format_count(report.after.operations), bytes_text(report.before.bytes),
                     bytes_text(report.after.bytes), time_text(report.before.seconds), time_text(report.after.seconds));
}

std::string alignment_text(const cost::Alignment& alignment) {
  if (!alignment.applies) return "";
  return fmt::format("{}{:.0f}%", alignment.aligned ? "" : "misaligned ", alignment.utilisation() * 100);
}

std::string layer_table(const Explanation& explanation, std::size_t index, bool all) {
  const Evaluation& now = explanation.devices[index].evaluation;
  const bool is_measured = explanation.measured && explanation.measured->device == index,
             matrix = now.device.has_matrix_units(now.precision);
  std::vector<std::size_t> order(now.layers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return now.layers[i].estimate.bound == Bound::none; });
  const auto seconds_of_layer = [&](std::size_t i) {
    return is_measured ? explanation.measured->seconds[i] : now.layers[i].estimate.seconds;
  };
  const double total = is_measured ? explanation.measured->total_seconds : now.total.seconds;
  std::ranges::stable_sort(order, std::greater<>(), seconds_of_layer);
  constexpr std::size_t most = 15;
  const std::size_t shown = all ? order.size() : std::min(most, order.size());
  std::string text = fmt::format("{:>10} {:>5} {:<10} {:>9} {:>13}", is_measured ? "measured" : "predicted", "share",
                                 "bound by", "ops/byte", "rate");
  if (is_measured) text += fmt::format(" {:>10} {:>6}", "predicted", "roof");
  if (matrix) text += fmt::format(" {:<15}", "matrix units");
  text += fmt::format("  {:<28} {}\n", "operator", "layer");
  for (std::size_t k = 0; k < shown; ++k) {
    const Layer& layer = now.layers[order[k]];
    const cost::Estimate& estimate = layer.estimate;
    const double seconds = seconds_of_layer(order[k]);
    text += fmt::format("{:>10} {:>4.1f}% {:<10} {:>9.2f} {:>13}", time_text(seconds), seconds / total * 100,
                        cost::name_of(estimate.bound), estimate.intensity,
                        rate_text(seconds > 0 ? estimate.operations / seconds : 0, layer.work.precision));
    if (is_measured)
      text += fmt::format(" {:>10} {:>5.0f}%", time_text(estimate.seconds),
                          seconds > 0 ? estimate.roof_seconds / seconds * 100 : 0);
    if (matrix) text += fmt::format(" {:<15}", alignment_text(layer.alignment));
    text += fmt::format("  {:<28} {}\n", base::printable(base::shortened(layer.work.op, 28)), name_text(layer, 48));
  }
  if (shown < order.size()) {
    double rest = 0;
    for (std::size_t k = shown; k < order.size(); ++k) rest += seconds_of_layer(order[k]);
    text += fmt::format("{:>10} {:>4.1f}% in {} more operators (--all lists them)\n", time_text(rest),
                        rest / total * 100, order.size() - shown);
  }
  return text;
}

std::string measured_text(const MeasuredReport& report, const Evaluation& evaluation) {
  return fmt::format(
      "measured  {} against {} predicted ({:.0f}% off); by operator {:.0f}% off in the median, {:.0f}% at the 90th "
      "percentile\n",
      time_text(report.total_seconds - report.unpredicted_seconds), time_text(evaluation.total.seconds),
      report.total_error * 100, report.median_error * 100, report.p90_error * 100);
}

std::string comparison_text(const Explanation& explanation) {
  const double first = explanation.devices[0].evaluation.total.seconds;
  std::string text = fmt::format("{:<44} {:>5} {:>10} {:>7} {:>7} {:>7} {:>7}\n", "device", "type", "predicted",
                                 "times", "memory", "arith.", "overh.");
  for (const DeviceReport& device : explanation.devices) {
    const cost::Total& total = device.evaluation.total;
    const bool supported = device.evaluation.device.supports(device.evaluation.precision);
    const auto share = [&](double seconds) { return total.seconds > 0 ? seconds / total.seconds * 100 : 0; };
    text += fmt::format("{:<44} {:>5} {:>10} {:>6.2f}x {:>6.0f}% {:>6.0f}% {:>6.0f}%{}\n",
                        base::printable(base::shortened(device.evaluation.device.title, 44)),
                        cost::name_of(device.evaluation.precision), time_text(total.seconds),
                        total.seconds > 0 ? first / total.seconds : 0, share(total.memory_seconds),
                        share(total.arithmetic_seconds), share(total.overhead_seconds),
                        supported ? "" : "  does not have this type: counted at the rate of f32");
  }
  return text;
}

std::string batch_choice_text(const cost::BatchChoice& choice) {
  std::string text =
      fmt::format("{:>8} {:>8} {:>12} {:>14} {:>12}\n", "batch", "epochs", "iterations", "per iteration", "training");
  for (std::size_t i = 0; i < choice.rows.size(); ++i) {
    const cost::BatchChoice::Row& row = choice.rows[i];
    text +=
        fmt::format("{:>8} {:>8.1f} {:>12.0f} {:>14} {:>10.2f} h{}\n", row.batch, row.epochs, row.iterations,
                    time_text(row.iteration_seconds), row.seconds / 3600, i == choice.best ? "  <- the fastest" : "");
  }
  return text;
}

}  // namespace

std::string explanation_text(const Explanation& explanation, bool all_operators) {
  const DeviceReport& first = explanation.devices[0];
  std::string text = base::printable(headline(explanation)) + ".\n\n";
  const std::vector<const cost::Advice*> todo = things_to_do(first);
  for (std::size_t i = 0; i < todo.size(); ++i)
    text += fmt::format("  {}. {}.{}\n", i + 1, todo[i]->text,
                        gain_text(*todo[i]).empty() ? "" : " " + gain_text(*todo[i]) + ".");
  if (todo.empty()) text += "  Nothing that this model could change would make it faster here.\n";
  text += '\n' + device_text(explanation) + bound_text(first.evaluation.total) + optimiser_text(explanation.optimiser);
  text += fmt::format("memory    arena {}, weights {}\n", base::format_bytes(explanation.memory.arena_bytes),
                      base::format_bytes(explanation.memory.weight_bytes));
  if (explanation.training)
    text += fmt::format("products  {} matrix products and convolutions in a training step\n", explanation.products);
  if (explanation.measured)
    text += measured_text(*explanation.measured, explanation.devices[explanation.measured->device].evaluation);
  for (const DeviceReport& device : explanation.devices) {
    if (!device.fits)
      text += fmt::format("memory    it does not fit into the {} of {}\n",
                          base::format_bytes(device.evaluation.device.memory_bytes), device.evaluation.device.title);
  }
  if (first.unknown_nodes > 0) {
    const bool measured = explanation.measured && explanation.measured->device == 0;
    text += fmt::format("unknown   {} node{} with subgraphs, or with shapes that depend on data: {}\n",
                        first.unknown_nodes, first.unknown_nodes == 1 ? "" : "s",
                        measured ? fmt::format("{} of the measured run, without a prediction",
                                               time_text(explanation.measured->unpredicted_seconds))
                                 : "not counted");
  }
  text += '\n' + layer_table(explanation, 0, all_operators);
  if (explanation.devices.size() > 1) text += '\n' + comparison_text(explanation);
  if (explanation.batch_choice) text += '\n' + batch_choice_text(*explanation.batch_choice);
  text += "\nalso\n";
  for (const cost::Advice& advice : first.advice) {
    if (std::ranges::find(todo, &advice) == todo.end()) text += fmt::format("  - {}.\n", advice.text);
  }
  return text;
}

}  // namespace tessera::report
