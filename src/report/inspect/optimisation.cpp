#include "report/inspect/optimisation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/text.h"
#include "report/explain/explain_words.h"
#include "report/html/html.h"
#include "report/html/html_table.h"
#include "report/html/svg.h"
#include "report/inspect/pass_effects.h"
#include "report/values/json_text.h"

namespace tessera::report {
namespace {

using nlohmann::json;

std::vector<const PassChange*> changes(const OptimiseReport& report) {
  std::vector<const PassChange*> list;
  for (const PassChange& change : report.passes) {
    if (change.changed) list.push_back(&change);
  }
  return list;
}

// "12 -> 9", or a single number if it does not change.
std::string from_to(const std::string& before, const std::string& after) {
  return before == after ? before : before + " -> " + after;
}
std::string nodes_text(std::int64_t before, std::int64_t after) {
  return from_to(std::to_string(before), std::to_string(after));
}
std::string operations_change(const GraphCost& before, const GraphCost& after) {
  return from_to(base::format_count(before.operations), base::format_count(after.operations));
}
std::string bytes_change(const GraphCost& before, const GraphCost& after) {
  return from_to(bytes_text(before.bytes), bytes_text(after.bytes));
}
std::string time_change(const GraphCost& before, const GraphCost& after) {
  return from_to(time_text(before.seconds), time_text(after.seconds));
}

std::string text_row(std::string_view pass, std::int64_t nodes_before, std::int64_t nodes_after,
                     const GraphCost& before, const GraphCost& after, double seconds) {
  return fmt::format("{:<26} {:>14}  {:>20}  {:>24}  {:>22}  {:>10}\n", pass, nodes_text(nodes_before, nodes_after),
                     operations_change(before, after), bytes_change(before, after), time_change(before, after),
                     time_text(seconds));
}

// The time of all passes, including those that changed nothing.
double seconds_of_passes(const OptimiseReport& report) {
  double seconds = 0;
  for (const PassChange& change : report.passes) seconds += change.seconds;
  return seconds;
}

std::string difference_text(const OutputDifference& each) {
  const std::string name = base::printable(base::shown(each.name));
  if (each.identical) return fmt::format("verified {}: identical", name);
  if (!each.mismatch.empty()) return fmt::format("DIFFERS  {}: {}", name, each.mismatch);
  const std::string ratios =
      each.has_ratios ? fmt::format("; signal-to-noise {:.1f} dB, cosine {:.7f}", each.snr_db, each.cosine) : "";
  return fmt::format("{} {}: largest difference {:.3g}, {:.3g} of the largest value{}",
                     each.close ? "verified" : "DIFFERS ", name, each.largest, each.relative, ratios);
}

// "ONNX opset 11", and why it differs from the model's.
std::string opset_text(const OptimiseReport& report) {
  if (report.opset == 0) return "";
  if (report.opset_before == 0 || report.opset == report.opset_before)
    return fmt::format("ONNX opset {}", report.opset);
  if (report.opset_raised_by.empty())
    return fmt::format("ONNX opset {} instead of {}", report.opset, report.opset_before);
  return fmt::format("ONNX opset raised from {} to {}: {} {} it", report.opset_before, report.opset,
                     fmt::join(report.opset_raised_by, ", "), report.opset_raised_by.size() == 1 ? "needs" : "need");
}

// "" unless the file is clearly larger than the original.
std::string growth_text(const Optimisation& optimisation) {
  const std::int64_t before = optimisation.model_bytes, after = optimisation.report.file_bytes;
  constexpr double kMuch = 1.2;
  constexpr std::int64_t kLeast = std::int64_t{64} << 10;
  if (before == 0 || after < before + kLeast || static_cast<double>(after) < kMuch * static_cast<double>(before))
    return "";
  const std::string why = optimisation.report.packings > 0
                              ? ", because weights that kernels have packed are stored beside the original ones"
                              : "";
  return fmt::format("the file is {:.1f} times as large as the model ({} instead of {}){}",
                     static_cast<double>(after) / static_cast<double>(before), base::format_bytes(after),
                     base::format_bytes(before), why);
}

// Remarks that complete the table.
std::vector<std::string> remarks(const Optimisation& optimisation) {
  const OptimiseReport& report = optimisation.report;
  std::vector<std::string> list;
  if (report.cost_before.unknown_nodes + report.cost_after.unknown_nodes > 0) {
    list.push_back(fmt::format(
        "{} nodes of the file and {} of the result have shapes that depend on data, or subgraphs, and are not counted",
        report.cost_before.unknown_nodes, report.cost_after.unknown_nodes));
  }
  if (!optimisation.measured) list.push_back("the figures of this CPU are rough ones: 'tessera calibrate' measures it");
  if (!report.why_not_packed.empty())
    list.push_back(
        "no weights are packed ahead, because no plan could be made with symbolic dimensions of 1 (fix them with "
        "--dim): " +
        report.why_not_packed);
  if (const std::string text = opset_text(report); report.opset != report.opset_before && report.opset_before != 0)
    list.push_back(text);
  if (const std::string text = growth_text(optimisation); !text.empty()) list.push_back(text);
  if (!report.own_operators.empty())
    list.push_back(fmt::format("other programs do not know {}", fmt::join(report.own_operators, ", ")));
  return list;
}

json cost_json(const GraphCost& cost) {
  return {{"operations", cost.operations},
          {"bytes", cost.bytes},
          {"seconds", cost.seconds},
          {"unknown_nodes", cost.unknown_nodes}};
}

// HTML with typographic arrows in place of "->".
std::string with_arrows(std::string text) {
  for (std::size_t at = text.find("->"); at != std::string::npos; at = text.find("->", at)) text.replace(at, 2, "→");
  return html_text(text);
}

HtmlCell pair_cell(const std::string& change, double before, double after) {
  return {with_arrows(change), before > 0 ? after / before : std::numeric_limits<double>::quiet_NaN()};
}

std::vector<HtmlCell> pass_row(HtmlCell name, std::int64_t nodes_before, std::int64_t nodes_after,
                               const GraphCost& before, const GraphCost& after, double seconds,
                               std::string_view summary) {
  return {std::move(name),
          pair_cell(nodes_text(nodes_before, nodes_after), static_cast<double>(nodes_before),
                    static_cast<double>(nodes_after)),
          pair_cell(operations_change(before, after), before.operations, after.operations),
          pair_cell(bytes_change(before, after), before.bytes, after.bytes),
          pair_cell(time_change(before, after), before.seconds, after.seconds),
          pair_cell(before.seconds == after.seconds ? "" : change_text(before.seconds, after.seconds), before.seconds,
                    after.seconds),
          {time_text(seconds), seconds},
          text_cell(summary)};
}

std::string passes_section(const OptimiseReport& report) {
  HtmlTable table{"Pass by pass", {{"Pass", ColumnKind::name}}, {}};
  for (const char* title : {"Nodes", "Operations", "Bytes read and written", "Predicted time", "Change", "Took"})
    table.columns.push_back({title, ColumnKind::number});
  table.columns.push_back({"What it does", ColumnKind::sentence});
  for (const PassChange* change : changes(report)) {
    table.rows.push_back(pass_row(name_cell(change->pass), change->nodes_before, change->nodes_after,
                                  change->cost_before, change->cost_after, change->seconds,
                                  pass_summary(change->pass)));
  }
  table.total = pass_row(text_cell("all passes"), report.nodes_before, report.nodes_after, report.cost_before,
                         report.cost_after, seconds_of_passes(report), "");
  return html_section(
      "Pass by pass",
      "In the order in which they ran; those that changed nothing are left out. A model whose shapes "
      "are all known goes through all passes twice. Columns are sorted by the ratio of after to before; "
      "the last number is the time that the pass itself took.",
      html_table(table), true);
}

std::string change_facts(const OptimiseReport& report) {
  const GraphCost &before = report.cost_before, &after = report.cost_after;
  const auto remark = [](double from, double to, const std::string& text) {
    const std::string change = change_text(from, to);
    return change.empty() || change == "same" ? std::string("as before") : fmt::format("{} before ({})", text, change);
  };
  const auto nodes_before = static_cast<double>(report.nodes_before),
             nodes_after = static_cast<double>(report.nodes_after);
  return html_facts(
      {{"Predicted time", time_text(after.seconds), remark(before.seconds, after.seconds, time_text(before.seconds))},
       {"Nodes", std::to_string(report.nodes_after),
        remark(nodes_before, nodes_after, std::to_string(report.nodes_before))},
       {"Arithmetic", operations_text(after.operations),
        remark(before.operations, after.operations, operations_text(before.operations))},
       {"Read and written", bytes_text(after.bytes), remark(before.bytes, after.bytes, bytes_text(before.bytes))},
       {"File written", base::format_bytes(report.file_bytes), ""}});
}

std::string times_section(const OptimiseReport& report) {
  std::string bars = "<div class=\"bars\">\n";
  double longest = report.cost_before.seconds;
  for (const PassChange* change : changes(report)) longest = std::max(longest, change->cost_after.seconds);
  if (longest <= 0) return "";
  const auto row = [&](std::string_view name, double seconds) {
    bars += html_bar_row(name, html_bar("memory", seconds / longest), time_text(seconds));
  };
  row("as in the file", report.cost_before.seconds);
  for (const PassChange* change : changes(report)) {
    if (change->cost_before.seconds != change->cost_after.seconds)
      row("after " + change->pass, change->cost_after.seconds);
  }
  return html_section("Predicted time of a run", "After each pass that changed it.", bars + "</div>\n");
}

std::string list_section(std::string_view title, std::string_view explanation,
                         const std::vector<std::string>& entries) {
  if (entries.empty()) return "";
  std::string list = "<ul class=\"advice\">\n";
  for (const std::string& entry : entries) list += "<li>" + html_text(entry) + "</li>\n";
  return html_section(title, explanation, list + "</ul>\n");
}

}  // namespace

std::string headline(const Optimisation& optimisation) {
  const GraphCost &before = optimisation.report.cost_before, &after = optimisation.report.cost_after;
  const std::string name = std::filesystem::path(optimisation.model).stem().string();
  const std::int64_t unknown = std::max(before.unknown_nodes, after.unknown_nodes);
  const std::string what =
      unknown > 0 ? fmt::format("{}, but for the {} nodes whose size is not known, is", name, unknown) : name + " is";
  if (time_text(before.seconds) == time_text(after.seconds))
    return fmt::format("{} predicted to take {} a run, as before", what, time_text(after.seconds));
  return fmt::format("{} predicted to take {} instead of {} a run ({})", what, time_text(after.seconds),
                     time_text(before.seconds), change_text(before.seconds, after.seconds));
}

std::string optimisation_text(const Optimisation& optimisation) {
  const OptimiseReport& report = optimisation.report;
  std::string text = fmt::format("{:<26} {:>14}  {:>20}  {:>24}  {:>22}  {:>10}\n", "pass", "nodes", "operations",
                                 "read and written", "predicted time", "took");
  for (const PassChange* change : changes(report))
    text += text_row(change->pass, change->nodes_before, change->nodes_after, change->cost_before, change->cost_after,
                     change->seconds);
  text += text_row("all passes", report.nodes_before, report.nodes_after, report.cost_before, report.cost_after,
                   seconds_of_passes(report));
  text += fmt::format("{}, on {}\n", headline(optimisation), optimisation.device);
  for (const std::string& each : report.not_lowered) text += "not lowered to integers: " + base::printable(each) + "\n";
  text += fmt::format("wrote {} ({}", optimisation.output, base::format_bytes(report.file_bytes));
  if (report.packings > 0)
    text += fmt::format(", {} packed weights with {}", report.packings, base::format_bytes(report.packed_bytes));
  else if (report.opset > 0) text += fmt::format(", ONNX opset {}", report.opset);
  text += ")\n";
  for (const std::string& each : remarks(optimisation)) text += each + "\n";
  if (!optimisation.verified_against.empty()) text += "verified against " + optimisation.verified_against + ":\n";
  for (const OutputDifference& each : optimisation.differences) text += difference_text(each) + "\n";
  return text;
}

std::string optimisation_json(const Optimisation& optimisation) {
  const OptimiseReport& report = optimisation.report;
  json passes = json::array(), outputs = json::array();
  for (const PassChange& change : report.passes) {
    passes.push_back({{"pass", change.pass},
                      {"changed", change.changed},
                      {"nodes_before", change.nodes_before},
                      {"nodes_after", change.nodes_after},
                      {"before", cost_json(change.cost_before)},
                      {"after", cost_json(change.cost_after)},
                      {"seconds", change.seconds}});
  }
  for (const OutputDifference& each : optimisation.differences) {
    outputs.push_back({{"name", each.name},
                       {"identical", each.identical},
                       {"mismatch", each.mismatch},
                       {"largest", each.largest},
                       {"relative", each.relative},
                       {"snr_db", each.has_ratios && std::isfinite(each.snr_db) ? json(each.snr_db) : json()},
                       {"cosine", each.has_ratios ? json(each.cosine) : json()}});
  }
  json result{{"model", optimisation.model},
              {"output", optimisation.output},
              {"device", optimisation.device},
              {"device_measured", optimisation.measured},
              {"nodes_before", report.nodes_before},
              {"nodes_after", report.nodes_after},
              {"before", cost_json(report.cost_before)},
              {"after", cost_json(report.cost_after)},
              {"passes", passes},
              {"not_lowered", report.not_lowered},
              {"packings", report.packings},
              {"packed_bytes", report.packed_bytes},
              {"file_bytes", report.file_bytes},
              {"why_not_packed", report.why_not_packed},
              {"own_operators", report.own_operators}};
  if (report.opset > 0)
    result["opset"] = {{"before", report.opset_before}, {"after", report.opset}, {"raised_by", report.opset_raised_by}};
  if (!optimisation.verified_against.empty()) {
    result["verified"] = outputs;
    result["verified_against"] = optimisation.verified_against;
  }
  return json_text(result, 2);
}

std::string optimisation_html(const Optimisation& optimisation) {
  const OptimiseReport& report = optimisation.report;
  std::string body = "<h1>" + html_text(headline(optimisation)) + ".</h1>\n";
  body += change_facts(report) + "<p class=\"soft\">" + html_text("Predicted for " + optimisation.device) + ".</p>\n";
  body += times_section(report) + passes_section(report);
  body += list_section("Not lowered to integers",
                       "These operators read quantised data and compute in float32, as the model says.",
                       report.not_lowered);
  std::vector<std::string> checks;
  for (const OutputDifference& each : optimisation.differences) checks.push_back(difference_text(each));
  body += list_section("Outputs of both on the same inputs",
                       "The written file, read back, and " + optimisation.verified_against + ".", checks);
  body += list_section("Also worth knowing", "About these figures and the file.", remarks(optimisation));
  return html_page("What the optimiser did to " + std::filesystem::path(optimisation.model).stem().string(), body);
}

}  // namespace tessera::report
