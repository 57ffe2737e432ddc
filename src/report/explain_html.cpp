// An explanation as a page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text.h"
#include "base/units.h"
#include "report/explain.h"
#include "report/explain_plots.h"
#include "report/html.h"
#include "report/svg.h"
#include "report/explain_words.h"

namespace tessera::report {
namespace {

using cost::Bound;
using cost::Evaluation;
using cost::Layer;

std::vector<std::size_t> by_time(const Evaluation& evaluation) {
  std::vector<std::size_t> order(evaluation.layers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return evaluation.layers[i].estimate.bound == Bound::none; });
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return evaluation.layers[i].estimate.seconds; });
  return order;
}

bool is_measured(const Explanation& explanation, std::size_t device) {
  return explanation.measured && explanation.measured->device == device;
}

std::string things_section(const Explanation& explanation) {
  const std::vector<const cost::Advice*> todo = things_to_do(explanation.devices[0]);
  if (todo.empty())
    return "<section><h2>What to do</h2>\n<p>Nothing that this model could change would make it faster here.</p></section>\n";
  static constexpr const char* titles[] = {"", "The one thing to do", "The two things to do", "The three things to do"};
  std::string html = fmt::format("<section>\n<h2>{}</h2>\n<ol class=\"todo\">\n", titles[todo.size()]);
  for (const cost::Advice* advice : todo) {
    html += fmt::format("<li>{}. <span class=\"gain\">{}</span></li>\n", html_text(advice->text), html_text(gain_text(*advice)));
  }
  html += "</ol>\n";
  if (explanation.devices[0].evaluation.device.kind == cost::DeviceKind::cpu && !explanation.cpu_measured) {
    html += "<p class=\"soft\">The figures of this CPU are rough ones: run <code>tessera calibrate</code> once to measure it.</p>\n";
  }
  return html + "</section>\n";
}

std::string legend(bool measured) {
  const auto sign = [](Bound bound, const char* meaning) {
    const std::string shape = bound == Bound::memory       ? circle_path(8, 8, 6)
                              : bound == Bound::arithmetic ? square_path(8, 8, 6)
                                                           : diamond_path(8, 8, 6);
    return fmt::format("<span><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><path class=\"{}\" d=\"{}\"/></svg>{}</span>",
                       cost::name_of(bound), shape, meaning);
  };
  std::string html = "<div class=\"legend\">" + sign(Bound::memory, "bound by memory") + sign(Bound::arithmetic, "bound by arithmetic") +
                     sign(Bound::overhead, "bound by starting the operator");
  if (measured)
    html +=
        "<span><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><rect x=\"1\" y=\"5\" width=\"14\" height=\"6\" "
        "fill=\"var(--other)\"/></svg>measured</span>";
  return html + "</div>\n";
}

std::string layers_section(const Explanation& explanation) {
  const Evaluation& now = explanation.devices[0].evaluation;
  const bool measured = is_measured(explanation, 0);
  const std::vector<std::size_t> order = by_time(now);
  if (order.empty()) return "";
  double longest = now.layers[order[0]].estimate.seconds, rest = 0;
  if (measured) longest = std::max(longest, *std::ranges::max_element(explanation.measured->seconds));
  constexpr std::size_t most = 25;
  std::string html = legend(measured) + "<div class=\"bars\">\n";
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Layer& layer = now.layers[order[k]];
    if (k >= most) {
      rest += layer.estimate.seconds;
      continue;
    }
    std::string bars = html_bar(cost::name_of(layer.estimate.bound), layer.estimate.seconds / longest);
    if (measured) bars += html_bar("measured", explanation.measured->seconds[order[k]] / longest);
    html += html_bar_row(cost::layer_name(layer.work), bars, time_text(layer.estimate.seconds));
  }
  html += "</div>\n";
  if (rest > 0)
    html += fmt::format("<p class=\"soft\">{} more operators take {} together ({}).</p>\n", order.size() - most, time_text(rest),
                        percent(rest / now.total.seconds));
  return html_section("Time per layer",
                 measured ? "Predicted time of the slowest operators, and below it in grey what a run on this machine measured."
                          : "Predicted time of the slowest operators.",
                 html);
}

std::string operators_section(const Explanation& explanation) {
  const Evaluation& now = explanation.devices[0].evaluation;
  const bool measured = is_measured(explanation, 0), matrix = now.device.has_matrix_units(now.precision);
  std::vector<std::vector<std::string>> rows{{"Layer", "Operator", "Predicted", "Share", "Bound by", "Ops/byte", "Operations", "Bytes"}};
  std::vector<std::size_t> numbers{2, 3, 5, 6, 7};
  if (measured) rows[0].insert(rows[0].end(), {"Measured", "Of the roof"}), numbers.insert(numbers.end(), {8, 9});
  if (matrix) rows[0].insert(rows[0].end(), {"Matrix units", "Arithmetic-bound from batch"}), numbers.push_back(rows[0].size() - 1);
  for (const std::size_t i : by_time(now)) {
    const Layer& layer = now.layers[i];
    const cost::Estimate& estimate = layer.estimate;
    std::vector<std::string> row{html_text(cost::layer_name(layer.work)),
                                 html_text(layer.work.op),
                                 time_text(estimate.seconds),
                                 percent(estimate.seconds / now.total.seconds),
                                 std::string(cost::name_of(estimate.bound)),
                                 fmt::format("{:.2f}", estimate.intensity),
                                 base::format_count(estimate.operations),
                                 bytes_text(estimate.bytes)};
    if (measured) {
      const double seconds = explanation.measured->seconds[i];
      row.push_back(time_text(seconds));
      row.push_back(seconds > 0 ? percent(estimate.roof_seconds / seconds) : "");
    }
    if (matrix) {
      std::string fit;
      if (layer.alignment.applies)
        fit = fmt::format("{}{} in use, tile {}x{}, {} wave{}", layer.alignment.aligned ? "" : "misaligned, ",
                          percent(layer.alignment.utilisation()), layer.alignment.tile.m, layer.alignment.tile.n, layer.alignment.waves,
                          layer.alignment.waves == 1 ? "" : "s");
      for (const cost::Padding& padding : layer.alignment.misaligned)
        fit += fmt::format("; {} {} to {}", padding.dimension, padding.from, padding.to);
      row.push_back(fit);
      row.push_back(layer.batch_factor > 0
                        ? fmt::format("{:.0f}", std::max(1.0, std::ceil(layer.batch_factor * static_cast<double>(explanation.batch))))
                        : "never");
    }
    rows.push_back(std::move(row));
  }
  return fmt::format("<section>\n<details>\n<summary>All {} operators</summary>\n{}</details>\n</section>\n", rows.size() - 1,
                     html_table(rows, numbers));
}

std::string optimiser_section(const Explanation& explanation) {
  const OptimiserReport::Side &before = explanation.optimiser.before, &after = explanation.optimiser.after;
  const std::vector<std::vector<std::string>> rows{
      {"", "As in the file", "Optimised", "Change"},
      {"Nodes", std::to_string(before.nodes), std::to_string(after.nodes),
       change_text(static_cast<double>(before.nodes), static_cast<double>(after.nodes))},
      {"Operations", base::format_count(before.operations), base::format_count(after.operations),
       change_text(before.operations, after.operations)},
      {"Read and written", bytes_text(before.bytes), bytes_text(after.bytes), change_text(before.bytes, after.bytes)},
      {"Predicted time", time_text(before.seconds), time_text(after.seconds), change_text(before.seconds, after.seconds)}};
  return html_section("What the optimiser did", "The same model on the first device, as the file has it and as it runs.",
                 html_table(rows, {1, 2, 3}));
}

std::string comparison_section(const Explanation& explanation) {
  const cost::Total& first = explanation.devices[0].evaluation.total;
  std::vector<std::vector<std::string>> rows{
      {"Device", "Type", "Predicted", "Times as fast", "Memory-bound", "Arithmetic-bound", "Starting"}};
  double longest = 0;
  for (const DeviceReport& device : explanation.devices) longest = std::max(longest, device.evaluation.total.seconds);
  std::string bars = "<div class=\"bars\">\n";
  for (const DeviceReport& device : explanation.devices) {
    const cost::Total& total = device.evaluation.total;
    const auto share = [&](double seconds) { return total.seconds > 0 ? percent(seconds / total.seconds) : std::string(); };
    const bool supported = device.evaluation.device.supports(device.evaluation.precision);
    rows.push_back({html_text(device.evaluation.device.title),
                    std::string(cost::name_of(device.evaluation.precision)) + (supported ? "" : " (does not have it: at the rate of f32)") +
                        (device.fits ? "" : " (does not fit into its memory)"),
                    time_text(total.seconds), fmt::format("{:.2f}", total.seconds > 0 ? first.seconds / total.seconds : 0),
                    share(total.memory_seconds), share(total.arithmetic_seconds), share(total.overhead_seconds)});
    bars += html_bar_row(device.evaluation.device.title, html_bar(cost::name_of(total.bound), total.seconds / longest), time_text(total.seconds));
  }
  return html_section("Devices side by side", "Predicted time of the whole model; the colour says what most of it is bound by.",
                 legend(false) + bars + "</div>\n<br>\n" + html_table(rows, {2, 3, 4, 5, 6}));
}

std::string batch_section(const cost::BatchChoice& choice) {
  std::vector<std::vector<std::string>> rows{{"Batch", "Epochs", "Iterations", "An iteration", "Training", ""}};
  for (std::size_t i = 0; i < choice.rows.size(); ++i) {
    const cost::BatchChoice::Row& row = choice.rows[i];
    rows.push_back({std::to_string(row.batch), fmt::format("{:.1f}", row.epochs), fmt::format("{:.0f}", row.iterations),
                    time_text(row.iteration_seconds), fmt::format("{:.2f} h", row.seconds / 3600),
                    i == choice.best ? "<span class=\"gain\">the fastest</span>" : ""});
  }
  return html_section("Which batch trains fastest", "Time an iteration, predicted, times the iterations until the net is good enough.",
                 html_table(rows, {0, 1, 2, 3, 4}));
}

std::string advice_section(const Explanation& explanation) {
  const std::vector<const cost::Advice*> todo = things_to_do(explanation.devices[0]);
  std::string list;
  for (const cost::Advice& advice : explanation.devices[0].advice) {
    if (std::ranges::find(todo, &advice) != todo.end()) continue;
    list += "<li>" + html_text(advice.text) + ".</li>\n";
  }
  return list.empty() ? ""
                      : html_section("Also worth knowing", "What else was considered, and what would not help.",
                                "<ul class=\"advice\">\n" + list + "</ul>\n");
}

std::string facts(const Explanation& explanation) {
  const Evaluation& now = explanation.devices[0].evaluation;
  const double peak = now.device.peak(now.precision, true);
  std::string text =
      fmt::format("{} operations, {} read and written a {}; {} in arena and {} of weights.", base::format_count(now.total.operations),
                  bytes_text(now.total.bytes), explanation.training ? "training step" : "run",
                  base::format_bytes(explanation.memory.arena_bytes), base::format_bytes(explanation.memory.weight_bytes));
  if (peak > 0)
    text += fmt::format(" The device does {}op/s and {}B/s: below {:.1f} operations a byte, memory decides.", base::format_count(peak),
                        base::format_count(now.device.bandwidth), peak / now.device.bandwidth);
  if (explanation.training) text += fmt::format(" The step has {} matrix products and convolutions.", explanation.products);
  if (explanation.measured) {
    text +=
        fmt::format(" Measured on this CPU: {}; predictions are off by {} in total, {} in the median operator, {} at the 90th percentile.",
                    time_text(explanation.measured->total_seconds), percent(explanation.measured->total_error),
                    percent(explanation.measured->median_error), percent(explanation.measured->p90_error));
  }
  if (explanation.devices[0].unknown_nodes > 0)
    text +=
        fmt::format(" {} nodes have shapes that depend on data, or subgraphs, and are not counted.", explanation.devices[0].unknown_nodes);
  return "<p class=\"soft\">" + html_text(text) + "</p>\n";
}

}  // namespace

std::string explanation_html(const Explanation& explanation) {
  std::string body = "<h1>" + html_text(headline(explanation)) + ".</h1>\n" + facts(explanation) + things_section(explanation);
  body += html_section(
      "Roofline",
      "Each mark is a layer, its area its time. The higher, the more of the device it uses; the lines are what the device can do at most.",
      legend(false) + roofline_plots(explanation));
  body += layers_section(explanation);
  if (explanation.devices.size() > 1) body += comparison_section(explanation);
  if (explanation.batch_choice) body += batch_section(*explanation.batch_choice);
  if (explanation.memory.arena_bytes > 0)
    body += html_section("Memory over time", "Bytes of intermediate values in use at each step of the plan, below the arena that holds them.",
                    memory_plots(explanation));
  body += optimiser_section(explanation) + advice_section(explanation) + operators_section(explanation);
  return html_page("What holds " + explanation.model + " back", body);
}

}  // namespace tessera::report
