// A page that needs nothing else: no network, no other file; light and dark, wide and narrow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

// `body` is HTML. Plots in it (class "plot") get a line below that says what the pointed or walked-to mark is.
std::string html_page(std::string_view title, std::string_view body);

// A card with a title, a sentence below it and content, which is HTML; the others are text.
std::string html_section(std::string_view title, std::string_view explanation, std::string_view content);

// A row of <div class="bars">: a name, bars (HTML) beside it, a value. Of a bar, `share` of the width.
std::string html_bar_row(std::string_view name, std::string_view bars, std::string_view value);
std::string html_bar(std::string_view css_class, double share);

// Cells are HTML; the first row is the head. Columns named in `numbers` stand to the right.
std::string html_table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& numbers);

}  // namespace tessera::report
