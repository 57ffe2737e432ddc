// Writes an explanation as a page.
#include <fmt/format.h>

#include <algorithm>

#include "report/explain/explain.h"
#include "report/explain/explain_plots.h"
#include "report/explain/explain_tables.h"
#include "report/explain/explain_words.h"
#include "report/explain/operator_totals.h"
#include "report/html/html.h"
#include "report/html/svg.h"

namespace tessera::report {
namespace {

using cost::Bound;
using cost::Evaluation;
using cost::Layer;

std::string things_section(const Explanation& explanation) {
  const std::vector<const cost::Advice*> todo = things_to_do(explanation.devices[0]);
  if (todo.empty())
    return "<section><h2>What to do</h2>\n<p>Nothing that this model could change would make it faster "
           "here.</p></section>\n";
  static constexpr const char* titles[] = {"", "The one thing to do", "The two things to do", "The three things to do"};
  std::string html = fmt::format("<section>\n<h2>{}</h2>\n<ol class=\"todo\">\n", titles[todo.size()]);
  for (const cost::Advice* advice : todo) {
    html += fmt::format("<li>{}. <span class=\"gain\">{}</span></li>\n", html_text(advice->text),
                        html_text(gain_text(*advice)));
  }
  html += "</ol>\n";
  if (explanation.devices[0].evaluation.device.kind == cost::DeviceKind::cpu && !explanation.cpu_measured) {
    html +=
        "<p class=\"soft\">The figures of this CPU are rough: run <code>tessera calibrate</code> once to measure "
        "it.</p>\n";
  }
  return html + "</section>\n";
}

std::string legend(bool with_predictions) {
  const auto sign = [](Bound bound, const char* meaning) {
    const std::string shape = bound == Bound::memory       ? circle_path(8, 8, 6)
                              : bound == Bound::arithmetic ? square_path(8, 8, 6)
                                                           : diamond_path(8, 8, 6);
    return fmt::format(
        "<span><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><path class=\"{}\" d=\"{}\"/></svg>{}</span>",
        cost::name_of(bound), shape, meaning);
  };
  std::string html = "<div class=\"legend\">" + sign(Bound::memory, "bound by memory") +
                     sign(Bound::arithmetic, "bound by arithmetic") +
                     sign(Bound::overhead, "bound by starting the operator");
  if (with_predictions)
    html +=
        "<span><svg viewBox=\"0 0 16 16\" aria-hidden=\"true\"><rect x=\"1\" y=\"5\" width=\"14\" height=\"6\" "
        "fill=\"var(--other)\"/></svg>predicted</span>";
  return html + "</div>\n";
}

std::string layers_section(const Explanation& explanation) {
  const std::vector<Layer>& layers = explanation.devices[0].evaluation.layers;
  const bool measured = is_measured(explanation);
  const std::vector<std::size_t> order = slowest_first(explanation);
  if (order.empty()) return "";
  double longest = 0, rest = 0, all = 0;
  for (const std::size_t i : order)
    longest = std::max({longest, seconds_of(explanation, i), layers[i].estimate.seconds});
  constexpr std::size_t most = 25;
  std::string html = legend(measured) + "<div class=\"bars\">\n";
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Layer& layer = layers[order[k]];
    const double seconds = seconds_of(explanation, order[k]);
    all += seconds;
    if (k >= most) {
      rest += seconds;
      continue;
    }
    std::string bars = html_bar(cost::name_of(layer.estimate.bound), seconds / longest);
    if (measured) bars += html_bar("beside", layer.estimate.seconds / longest);
    html += html_bar_row(cost::layer_name(layer.work), bars, time_text(seconds));
  }
  html += "</div>\n";
  if (rest > 0) {
    html += fmt::format("<p class=\"soft\">{} more operators take {} together ({}).</p>\n", order.size() - most,
                        time_text(rest), percent(rest / all));
  }
  return html_section("Time per layer",
                      measured ? "Measured time of the slowest operators, and below it in grey what was predicted."
                               : "Predicted time of the slowest operators.",
                      html);
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
  const bool measured = is_measured(explanation);
  const double seconds = measured ? explanation.measured->total_seconds : now.total.seconds,
               peak = now.device.peak(counted_precision(now), true);
  std::vector<HtmlFact> list;
  if (measured) {
    const int threads = explanation.measured->threads;
    list.push_back(
        {"Measured", time_text(seconds), fmt::format("{} thread{} of this CPU", threads, threads == 1 ? "" : "s")});
  }
  list.push_back(
      {"Predicted", time_text(now.total.seconds), measured ? percent(explanation.measured->total_error) + " off" : ""});
  std::string share;
  if (seconds > 0 && peak > 0)
    share = fmt::format("{}, {} of the peak", rate_text(now.total.operations / seconds, now.precision),
                        percent(now.total.operations / seconds / peak));
  list.push_back({"Arithmetic", operations_text(now.total.operations, now.precision), share});
  list.push_back({"Read and written", bytes_text(now.total.bytes),
                  seconds > 0 ? count_text(now.total.bytes / seconds, "B/s") : ""});
  list.push_back({"Weights", base::format_bytes(explanation.memory.weight_bytes), ""});
  list.push_back({"Arena", base::format_bytes(explanation.memory.arena_bytes), "intermediate values"});
  if (explanation.training)
    list.push_back({"Products", std::to_string(explanation.products), "matrix products and convolutions"});
  return html_facts(list);
}

std::string remarks(const Explanation& explanation) {
  const Evaluation& now = explanation.devices[0].evaluation;
  const cost::Precision counted = counted_precision(now);
  const double peak = now.device.peak(counted, true);
  std::string text;
  if (counted != now.precision)
    text += fmt::format("The device does not have {}: counted at the rate of {}. ", cost::name_of(now.precision),
                        cost::name_of(counted));
  if (peak > 0)
    text += fmt::format("The device computes {} and moves {}: below {:.1f} operations per byte, memory decides. ",
                        rate_text(peak, counted), count_text(now.device.bandwidth, "B/s"), peak / now.device.bandwidth);
  if (explanation.measured) {
    const MeasuredReport& measured = *explanation.measured;
    if (!is_measured(explanation))
      text += fmt::format("Measured on this CPU: {}, predictions are {} off in total. ",
                          time_text(measured.total_seconds), percent(measured.total_error));
    text += fmt::format("Predictions of single operators are {} off in the median and {} at the 90th percentile. ",
                        percent(measured.median_error), percent(measured.p90_error));
  }
  if (const std::int64_t unknown = explanation.devices[0].unknown_nodes; unknown > 0) {
    text += fmt::format(
        "Not predicted: {} node{} with subgraphs, or with shapes that depend on data{}. ", unknown,
        unknown == 1 ? "" : "s",
        is_measured(explanation) ? ", which take " + time_text(explanation.measured->unpredicted_seconds) : "");
  }
  return text.empty() ? "" : "<p class=\"soft\">" + html_text(text) + "</p>\n";
}

}  // namespace

std::string explanation_html(const Explanation& explanation) {
  std::string body = "<h1>" + html_text(headline(explanation)) + ".</h1>\n" + facts(explanation) +
                     remarks(explanation) + things_section(explanation);
  body +=
      html_section("Roofline",
                   "Each mark is a layer; its area is its time. The higher it lies, the more of the device it uses. "
                   "The lines are the most that the device can do.",
                   legend(false) + roofline_plots(explanation));
  body += layers_section(explanation) + totals_section(explanation);
  if (explanation.devices.size() > 1) body += comparison_section(explanation, legend(false));
  if (explanation.batch_choice) body += batch_section(*explanation.batch_choice);
  if (explanation.memory.arena_bytes > 0)
    body +=
        html_section("Memory over time",
                     "Bytes of intermediate values in use at each step of the plan, below the arena that holds them.",
                     memory_plots(explanation));
  body += optimiser_section(explanation) + advice_section(explanation) + operators_section(explanation);
  return html_page("What holds " + explanation.model + " back", body);
}

}  // namespace tessera::report
