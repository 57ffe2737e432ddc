#include "report/explain/explain_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/explain/explain_words.h"
#include "report/explain/operator_totals.h"
#include "report/html/html.h"
#include "report/html/html_table.h"
#include "report/html/svg.h"

namespace tessera::report {
namespace {

using cost::Evaluation;
using cost::Layer;

HtmlCell time_cell(double seconds) {
  return number_cell(time_text(seconds), seconds);
}
HtmlCell share_cell(double share) {
  return number_cell(percent(share), share);
}
HtmlCell rate_cell(double operations, double seconds, cost::Precision precision) {
  if (operations <= 0 || seconds <= 0) return {};
  return number_cell(rate_text(operations / seconds, precision), operations / seconds);
}
HtmlCell change_cell(double from, double to) {
  return number_cell(change_text(from, to), from > 0 ? to / from : NAN);
}

// The operator's name. For operators of our own the domain is left out, which would widen each row.
HtmlCell operator_cell(std::string_view op) {
  constexpr std::string_view own = "tessera::";
  return name_cell(op.starts_with(own) ? op.substr(own.size()) : op);
}

double total_seconds(const Explanation& explanation) {
  return is_measured(explanation) ? explanation.measured->total_seconds
                                  : explanation.devices[0].evaluation.total.seconds;
}

// If both are known, measured times come before predicted ones.
void add_time_columns(const Explanation& explanation, std::vector<HtmlColumn>& columns) {
  if (is_measured(explanation)) columns.push_back({"Measured", ColumnKind::number});
  else columns.push_back({"Predicted", ColumnKind::number});
  columns.push_back({"Share", ColumnKind::number});
  if (is_measured(explanation)) columns.push_back({"Predicted", ColumnKind::number});
}

void add_time_cells(const Explanation& explanation, double measured, double predicted, std::vector<HtmlCell>& row) {
  const double seconds = is_measured(explanation) ? measured : predicted, total = total_seconds(explanation);
  row.push_back(time_cell(seconds));
  row.push_back(share_cell(total > 0 ? seconds / total : 0));
  if (is_measured(explanation)) row.push_back(time_cell(predicted));
}

// Adds how well a product fits the device's matrix units, and the batch from which on their speed decides.
void add_matrix_cells(const Explanation& explanation, const Layer& layer, std::vector<HtmlCell>& row) {
  const cost::Alignment& alignment = layer.alignment;
  std::string fit;
  if (alignment.applies) {
    fit = fmt::format("{}×{} tile, {} wave{}", alignment.tile.m, alignment.tile.n, alignment.waves,
                      alignment.waves == 1 ? "" : "s");
    for (const cost::AlignmentPadding& padding : alignment.misaligned)
      fit += fmt::format("; pad {} from {} to {}", padding.dimension, padding.from, padding.to);
  }
  row.push_back(alignment.applies ? share_cell(alignment.utilisation()) : HtmlCell{});
  row.push_back(text_cell(fit));
  if (layer.batch_factor > 0) {
    const double batch = std::max(1.0, std::ceil(layer.batch_factor * static_cast<double>(explanation.batch)));
    row.push_back(number_cell(fmt::format("{:.0f}", batch), batch));
  } else {
    row.push_back(number_cell("never", NAN));
  }
}

std::vector<HtmlCell> operator_row(const Explanation& explanation, std::size_t index, bool matrix) {
  const Evaluation& now = explanation.devices[0].evaluation;
  const Layer& layer = now.layers[index];
  const cost::Estimate& estimate = layer.estimate;
  const double measured = is_measured(explanation) ? explanation.measured->seconds[index] : 0;
  std::vector<HtmlCell> row{name_cell(cost::layer_name(layer.work)), operator_cell(layer.work.op)};
  add_time_cells(explanation, measured, estimate.seconds, row);
  if (is_measured(explanation)) row.push_back(measured > 0 ? share_cell(estimate.roof_seconds / measured) : HtmlCell{});
  row.push_back(text_cell(cost::name_of(estimate.bound)));
  row.push_back(number_cell(fmt::format("{:.2f}", estimate.intensity), estimate.intensity));
  row.push_back(number_cell(operations_text(estimate.operations, layer.work.precision), estimate.operations));
  row.push_back(rate_cell(estimate.operations, seconds_of(explanation, index), layer.work.precision));
  row.push_back(number_cell(bytes_text(estimate.bytes), estimate.bytes));
  if (matrix) add_matrix_cells(explanation, layer, row);
  return row;
}

std::string pass_list(const OptimiserReport& report) {
  if (report.passes.empty()) return "";
  HtmlTable table{"What each pass did",
                  {{"Pass", ColumnKind::name}, {"Nodes", ColumnKind::number}, {"What it does", ColumnKind::sentence}},
                  {}};
  for (const PassEffect& pass : report.passes) {
    const std::string nodes = pass.nodes_before == pass.nodes_after
                                  ? std::to_string(pass.nodes_after)
                                  : fmt::format("{} → {}", pass.nodes_before, pass.nodes_after);
    const double change = static_cast<double>(pass.nodes_after - pass.nodes_before);
    table.rows.push_back({name_cell(pass.name), number_cell(nodes, change), text_cell(pass.summary)});
  }
  return "<details>\n<summary>The passes that changed it</summary>\n" + html_table(table) + "</details>\n";
}

}  // namespace

std::string totals_section(const Explanation& explanation) {
  const std::vector<OperatorTotal> totals = operator_totals(explanation);
  if (totals.empty()) return "";
  const cost::Precision precision = explanation.devices[0].evaluation.precision;
  HtmlTable table{"Totals by type of operator", {{"Operator", ColumnKind::name}, {"Count", ColumnKind::number}}, {}};
  table.sorted_column = 2;
  add_time_columns(explanation, table.columns);
  for (const char* title : {"Operations", "Rate", "Bytes"}) table.columns.push_back({title, ColumnKind::number});
  const auto row = [&](HtmlCell name, const OperatorTotal& total) {
    const double seconds = is_measured(explanation) ? total.measured_seconds : total.seconds;
    std::vector<HtmlCell> cells{std::move(name),
                                number_cell(std::to_string(total.count), static_cast<double>(total.count))};
    add_time_cells(explanation, total.measured_seconds, total.seconds, cells);
    cells.push_back(number_cell(operations_text(total.operations, precision), total.operations));
    cells.push_back(rate_cell(total.operations, seconds, precision));
    cells.push_back(number_cell(bytes_text(total.bytes), total.bytes));
    return cells;
  };
  OperatorTotal all;
  for (const OperatorTotal& total : totals) {
    table.rows.push_back(row(operator_cell(total.op), total));
    all.count += total.count, all.seconds += total.seconds, all.measured_seconds += total.measured_seconds;
    all.operations += total.operations, all.bytes += total.bytes;
  }
  table.total = row(text_cell("all"), all);
  return html_section("Totals by type of operator",
                      "What the operators of each type take together. A multiply-add counts as two operations; bytes "
                      "are those read and written.",
                      html_table(table));
}

std::string operators_section(const Explanation& explanation) {
  const Evaluation& now = explanation.devices[0].evaluation;
  const bool matrix = now.device.has_matrix_units(now.precision);
  HtmlTable table{"All operators", {{"Layer", ColumnKind::name}, {"Operator", ColumnKind::name}}, {}};
  table.sorted_column = 2;
  add_time_columns(explanation, table.columns);
  if (is_measured(explanation)) table.columns.push_back({"Of the roof", ColumnKind::number});
  table.columns.push_back({"Bound by", ColumnKind::text});
  const std::string unit(operation_unit(now.precision));
  for (const std::string& title :
       {unit + "/byte", std::string("Operations"), std::string("Rate"), std::string("Bytes")})
    table.columns.push_back({title, ColumnKind::number});
  if (matrix) {
    table.columns.push_back({"Matrix units used", ColumnKind::number});
    table.columns.push_back({"How it fits them", ColumnKind::sentence});
    table.columns.push_back({"Bound by arithmetic from batch", ColumnKind::number});
  }
  for (const std::size_t i : slowest_first(explanation)) table.rows.push_back(operator_row(explanation, i, matrix));
  return fmt::format(
      "<section class=\"long\">\n<details class=\"operators\">\n<summary>All {} "
      "operators</summary>\n{}</details>\n</section>\n",
      table.rows.size(), html_table(table));
}

std::string optimiser_section(const Explanation& explanation) {
  const OptimiserReport::Side &before = explanation.optimiser.before, &after = explanation.optimiser.after;
  const cost::Precision precision = explanation.devices[0].evaluation.precision;
  HtmlTable table{"The model as in the file and optimised",
                  {{"", ColumnKind::name},
                   {"In the file", ColumnKind::number},
                   {"Optimised", ColumnKind::number},
                   {"Change", ColumnKind::number}},
                  {}};
  table.sortable = false;
  const auto row = [&](const char* name, const std::string& from, const std::string& to, double from_value,
                       double to_value) {
    table.rows.push_back(
        {text_cell(name), number_cell(from, from_value), number_cell(to, to_value), change_cell(from_value, to_value)});
  };
  row("Nodes", std::to_string(before.nodes), std::to_string(after.nodes), static_cast<double>(before.nodes),
      static_cast<double>(after.nodes));
  row("Operations", operations_text(before.operations, precision), operations_text(after.operations, precision),
      before.operations, after.operations);
  row("Bytes read and written", bytes_text(before.bytes), bytes_text(after.bytes), before.bytes, after.bytes);
  row("Predicted time", time_text(before.seconds), time_text(after.seconds), before.seconds, after.seconds);
  return html_section("What the optimiser did",
                      "The same model on the first device, as its file has it and as it runs. tessera optimize "
                      "--report shows the cost after each pass.",
                      html_table(table) + pass_list(explanation.optimiser), true);
}

std::string comparison_section(const Explanation& explanation, const std::string& legend) {
  const cost::Total& first = explanation.devices[0].evaluation.total;
  HtmlTable table{"Devices side by side", {{"Device", ColumnKind::name}, {"Type", ColumnKind::text}}, {}};
  for (const char* title : {"Predicted", "Speed-up", "Memory", "Arithmetic", "Starting"})
    table.columns.push_back({title, ColumnKind::number});
  double longest = 0;
  for (const DeviceReport& device : explanation.devices) longest = std::max(longest, device.evaluation.total.seconds);
  std::string bars = "<div class=\"bars\">\n";
  for (const DeviceReport& device : explanation.devices) {
    const Evaluation& evaluation = device.evaluation;
    const cost::Total& total = evaluation.total;
    const auto share = [&](double seconds) {
      return total.seconds > 0 ? share_cell(seconds / total.seconds) : HtmlCell{};
    };
    const double speed = total.seconds > 0 ? first.seconds / total.seconds : 0;
    table.rows.push_back(
        {text_cell(evaluation.device.title),
         text_cell(std::string(cost::name_of(evaluation.precision)) +
                   (evaluation.device.supports(evaluation.precision) ? "" : " (not supported: at the rate of f32)") +
                   (device.fits ? "" : " (does not fit into its memory)")),
         time_cell(total.seconds), number_cell(fmt::format("{:.2f}×", speed), speed), share(total.memory_seconds),
         share(total.arithmetic_seconds), share(total.overhead_seconds)});
    const double part = longest > 0 ? total.seconds / longest : 0;
    bars += html_bar_row(evaluation.device.title, html_bar(cost::name_of(total.bound), part), time_text(total.seconds));
  }
  return html_section("Devices side by side",
                      "Predicted time of the whole model, and the share of it that is bound by memory, by arithmetic "
                      "and by starting operators. "
                      "The colour says which of them takes the most.",
                      legend + bars + "</div>\n<br>\n" + html_table(table));
}

std::string batch_section(const cost::BatchChoice& choice) {
  HtmlTable table{"Batches", {{"Batch", ColumnKind::number}}, {}};
  for (const char* title : {"Epochs", "Iterations", "Time per iteration", "Training"})
    table.columns.push_back({title, ColumnKind::number});
  table.columns.push_back({"", ColumnKind::text});
  for (std::size_t i = 0; i < choice.rows.size(); ++i) {
    const cost::BatchChoice::Row& row = choice.rows[i];
    table.rows.push_back({number_cell(std::to_string(row.batch), static_cast<double>(row.batch)),
                          number_cell(fmt::format("{:.1f}", row.epochs), row.epochs),
                          number_cell(fmt::format("{:.0f}", row.iterations), row.iterations),
                          time_cell(row.iteration_seconds),
                          number_cell(fmt::format("{:.2f} h", row.seconds / 3600), row.seconds),
                          {i == choice.best ? "<span class=\"gain\">the fastest</span>" : ""}});
  }
  return html_section("Which batch trains fastest",
                      "The predicted time of an iteration, times the iterations until the model is good enough.",
                      html_table(table));
}

}  // namespace tessera::report
