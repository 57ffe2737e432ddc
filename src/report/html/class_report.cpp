#include "report/html/class_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "report/html/html.h"
#include "report/html/html_table.h"

namespace tessera::report {
namespace {

constexpr std::size_t kMostListed = 100, kMostConfused = 20;

std::string share_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.4f}", *share) : "–";
}

HtmlCell share_cell(const std::optional<double>& share) {
  return number_cell(share_text(share), share.value_or(std::numeric_limits<double>::quiet_NaN()));
}

std::string safe_name(const std::string& name) {
  return base::printable(base::shown(name));
}

std::string figures_text(const std::vector<ClassReport::Figures>& classes) {
  std::size_t width = 5;
  for (const auto& each : classes) width = std::max(width, safe_name(each.name).size());
  std::string text = fmt::format("{:<{}}  precision  recall      f1  support\n", "class", width);
  for (const auto& each : classes)
    text += fmt::format("{:<{}}  {:>9}  {:>6}  {:>6}  {:>7}\n", safe_name(each.name), width, share_text(each.precision),
                        share_text(each.recall), share_text(each.f1), each.support);
  return text;
}

std::string confusion_text(const ClassReport& report) {
  const std::size_t count = report.classes.size();
  std::size_t width = 1, names = 5;
  for (const std::int64_t number : report.confusion) width = std::max(width, std::to_string(number).size());
  for (const auto& each : report.classes) names = std::max(names, safe_name(each.name).size());
  std::string text = "labels down, predictions across in the same order\n";
  for (std::size_t i = 0; i < count; ++i) {
    text += fmt::format("{:<{}}", safe_name(report.classes[i].name), names);
    for (std::size_t j = 0; j < count; ++j) text += fmt::format("  {:>{}}", report.confusion[i * count + j], width);
    text += "\n";
  }
  return text;
}

std::string figures_table(const std::vector<ClassReport::Figures>& classes) {
  HtmlTable table{"Figures of each class",
                  {{"class", ColumnKind::name},
                   {"precision", ColumnKind::number},
                   {"recall", ColumnKind::number},
                   {"F1", ColumnKind::number},
                   {"support", ColumnKind::number}},
                  {},
                  {},
                  true,
                  -1};
  for (const auto& each : classes)
    table.rows.push_back({name_cell(each.name), share_cell(each.precision), share_cell(each.recall),
                          share_cell(each.f1),
                          number_cell(std::to_string(each.support), static_cast<double>(each.support))});
  return html_table(table);
}

std::string confusion_table(const ClassReport& report) {
  HtmlTable table{"Confusion matrix", {{"label", ColumnKind::name}}, {}, {}, false, -1};
  const std::size_t count = report.classes.size();
  for (const auto& each : report.classes) table.columns.push_back({each.name, ColumnKind::number});
  for (std::size_t i = 0; i < count; ++i) {
    table.rows.push_back({name_cell(report.classes[i].name)});
    for (std::size_t j = 0; j < count; ++j) {
      const std::int64_t number = report.confusion[i * count + j];
      table.rows.back().push_back(number_cell(std::to_string(number), static_cast<double>(number)));
    }
  }
  return html_table(table);
}

}  // namespace

std::string evaluation_text(const EvaluationReport& report) {
  std::string text = fmt::format("{} {} {:.4f}", report.data, report.metric, report.value);
  for (const auto& [name, value] : report.metrics) {
    if (name != report.metric && name != "loss") text += fmt::format(", {} {:.4f}", name, value);
  }
  return report.metric == "loss" ? text : text + fmt::format(", loss {:.4f}", report.loss);
}

std::string class_report_text(const EvaluationReport& report) {
  if (!report.classes || report.classes->classes.size() > kMostListed) return "";
  const ClassReport& classes = *report.classes;
  return figures_text(classes.classes) + (classes.classes.size() <= kMostConfused ? confusion_text(classes) : "");
}

std::string class_report_section(const EvaluationReport& report) {
  if (!report.classes || report.classes->classes.size() > kMostListed) return "";
  const ClassReport& classes = *report.classes;
  std::string content = figures_table(classes.classes);
  if (classes.classes.size() <= kMostConfused) content += confusion_table(classes);
  return html_section("Classes",
                      fmt::format("Of the {} data at step {}. In the confusion matrix a row is what a sample is, a "
                                  "column what it was taken for.",
                                  report.data, report.step),
                      content, true);
}

}  // namespace tessera::report
