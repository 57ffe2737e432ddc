#include "report/html/html_table.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "report/html/svg.h"

namespace tessera::report {
namespace {

std::string classes_of(const HtmlTable& table, std::size_t column) {
  static constexpr std::string_view kinds[] = {"name", "text", "sentence", "number"};
  std::string classes(kinds[static_cast<std::size_t>(table.columns[column].kind)]);
  return column == 0 ? classes + " pinned" : classes;
}

std::string table_row(const HtmlTable& table, const std::vector<HtmlCell>& cells) {
  std::string row = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string value = std::isnan(cells[i].value) ? "" : fmt::format(" data-value=\"{:.9g}\"", cells[i].value);
    row += fmt::format("<td class=\"{}\"{}>{}</td>", classes_of(table, i), value, cells[i].html);
  }
  return row + "</tr>\n";
}

// Lets a name wrap between its parts rather than within a word.
std::string breakable(std::string_view name) {
  std::string html;
  for (const char c : html_text(name)) {
    html += c;
    if (c == ':' || c == '/' || c == '_' || c == '.') html += "<wbr>";
  }
  return html;
}

}  // namespace

HtmlCell text_cell(std::string_view text) {
  return {html_text(text)};
}

HtmlCell number_cell(std::string_view text, double value) {
  return {html_text(text), value};
}

HtmlCell name_cell(std::string_view name) {
  constexpr std::size_t most = 64;
  if (name.size() <= most) return {breakable(name)};
  return {fmt::format("<span title=\"{}\">{}</span>", html_text(name), breakable(base::shortened(name, most)))};
}

std::string html_table(const HtmlTable& table) {
  std::string html =
      fmt::format("<div class=\"table\" data-shown=\"{}\"{}>\n", table.shown, table.sortable ? " data-sortable" : "");
  html += "<p class=\"hint\">The table is wider than the screen: scroll it sideways →</p>\n";
  html += fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n<thead><tr>",
                      html_text(table.label));
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool sorted = static_cast<int>(i) == table.sorted_column;
    html += fmt::format("<th scope=\"col\" class=\"{}\"{}>{}</th>", classes_of(table, i),
                        sorted ? " aria-sort=\"descending\"" : "", html_text(table.columns[i].title));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<HtmlCell>& row : table.rows) html += table_row(table, row);
  html += "</tbody>\n";
  if (!table.total.empty()) html += "<tfoot>\n" + table_row(table, table.total) + "</tfoot>\n";
  html += "</table></div>\n";
  if (table.rows.size() > table.shown) {
    html +=
        "<div class=\"tools\"><button type=\"button\" class=\"more\"></button><span class=\"count "
        "soft\"></span></div>\n";
  }
  return html + "</div>\n";
}

}  // namespace tessera::report
