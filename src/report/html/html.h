#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

// `body` is HTML. Plots in it (class "plot") get a line below that says what the pointed or walked-to mark is; tables
// (html_table.h) can be sorted. The page needs no other file and no network. Above 0 it loads itself anew after so many
// seconds, where it is read from a file that grows.
std::string html_page(std::string_view title, std::string_view body, int reload_seconds = 0);

// A card with a title, a sentence below it and content, which is HTML; the others are text. On paper a card stays on
// one page unless it is long.
std::string html_section(std::string_view title, std::string_view explanation, std::string_view content,
                         bool is_long = false);

// Figures that come before all others, each with its name and a remark in small print; all of them text.
struct HtmlFact {
  std::string name, value, remark;
};
std::string html_facts(const std::vector<HtmlFact>& facts);

// A row of <div class="bars">: a name, bars (HTML) beside it, a value. Of a bar, `share` of the width.
std::string html_bar_row(std::string_view name, std::string_view bars, std::string_view value);
std::string html_bar(std::string_view css_class, double share);

}  // namespace tessera::report
