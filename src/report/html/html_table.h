// Tables of a page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

struct HtmlCell {
  std::string html;
  // What a column of numbers is sorted by. NaN: the cell has no number and stays behind those that have one.
  double value = std::numeric_limits<double>::quiet_NaN();
};

// `text` with the characters escaped that HTML would take for its own.
HtmlCell text_cell(std::string_view text);
HtmlCell number_cell(std::string_view text, double value);
// The end of a long name, where the names of layers differ; the whole one appears when it is pointed at.
HtmlCell name_cell(std::string_view name);

// A sentence has a column of many words.
enum class ColumnKind : std::uint8_t { name, text, sentence, number };

struct HtmlColumn {
  std::string title;  // text
  ColumnKind kind = ColumnKind::text;
};

// A table that scrolls within its card where the screen is narrower, says so, and shows `shown` rows until all are
// asked for.
struct HtmlTable {
  std::string label;  // what assistive technology calls it
  std::vector<HtmlColumn> columns;
  std::vector<std::vector<HtmlCell>> rows;
  std::vector<HtmlCell> total = {};  // stays below the rows, however these are sorted; may be empty
  bool sortable = true;              // by the names of its columns
  int sorted_column = -1;            // the rows are given in descending order of this column; -1: in no column's order
  std::size_t shown = 50;
};

std::string html_table(const HtmlTable& table);

}  // namespace tessera::report
