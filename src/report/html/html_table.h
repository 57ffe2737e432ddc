// Tables of HTML pages.
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
  // The number that the column is sorted by. NaN if the cell has no number; such cells come last.
  double value = std::numeric_limits<double>::quiet_NaN();
};

// A cell with `text`, in which characters that have a meaning in HTML are escaped.
HtmlCell text_cell(std::string_view text);
HtmlCell number_cell(std::string_view text, double value);
// A cell with the end of a long name, because layers' names differ at the end; pointing at it shows the whole name.
HtmlCell name_cell(std::string_view name);

// `sentence` is a column of longer text.
enum class ColumnKind : std::uint8_t { name, text, sentence, number };

struct HtmlColumn {
  std::string title;  // text
  ColumnKind kind = ColumnKind::text;
};

// A table. On screens narrower than it, it scrolls within its card and says so. It shows `shown` rows until all are
// requested.
struct HtmlTable {
  std::string label;  // its name for assistive technology
  std::vector<HtmlColumn> columns;
  std::vector<std::vector<HtmlCell>> rows;
  std::vector<HtmlCell> total = {};  // stays below the rows in any sort order; may be empty
  bool sortable = true;              // by clicking on the names of its columns
  int sorted_column = -1;  // the rows are given in descending order of this column; -1 if they are in no column's order
  std::size_t shown = 50;
};

std::string html_table(const HtmlTable& table);

}  // namespace tessera::report
