#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

// A page that needs no other file and no network. `body` is HTML. Below each plot in it (class "plot") a line describes
// the mark that is pointed at or reached by keys; tables (html_table.h) can be sorted. If `reload_seconds` is above 0,
// the page reloads itself at that interval, for files that are still being updated.
std::string html_page(std::string_view title, std::string_view body, int reload_seconds = 0);

// A card with a title, a sentence below it, and content. The content is HTML, the others are text. In print, a card is
// not split across pages unless it is long.
std::string html_section(std::string_view title, std::string_view explanation, std::string_view content,
                         bool is_long = false);

// A figure for the top of a page, with its name and a remark in small print; all of them are text.
struct HtmlFact {
  std::string name, value, remark;
};
std::string html_facts(const std::vector<HtmlFact>& facts);

// A row of <div class="bars">: a name, bars (HTML) beside it, and a value.
std::string html_bar_row(std::string_view name, std::string_view bars, std::string_view value);
std::string html_bar(std::string_view css_class, double share);

}  // namespace tessera::report
