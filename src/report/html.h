// A page that needs nothing else: no network, no other file; light and dark, wide and narrow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

// `body` is HTML. Plots in it (class "plot") get a line below that says what the pointed or walked-to mark is.
std::string html_page(std::string_view title, std::string_view body);

// Cells are HTML; the first row is the head. Columns named in `numbers` stand to the right.
std::string html_table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& numbers);

}  // namespace tessera::report
