#include "report/html/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/html/page_script.h"
#include "report/html/page_style.h"
#include "report/html/svg.h"

namespace tessera::report {

std::string html_page(std::string_view title, std::string_view body, int reload_seconds) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, "
      "initial-scale=1\">\n";
  if (reload_seconds > 0) page += fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", reload_seconds);
  page += "<link rel=\"icon\" href=\"data:,\">\n<title>" + html_text(title) + "</title>\n<style>";
  page += kPageStyle;
  page += "</style>\n</head>\n<body>\n<main>\n";
  page += body;
  page += "</main>\n<script>";
  page += kPageScript;
  page += "</script>\n</body>\n</html>\n";
  return page;
}

std::string html_section(std::string_view title, std::string_view explanation, std::string_view content, bool is_long) {
  return fmt::format("<section{}>\n<h2>{}</h2>\n<p class=\"soft\">{}</p>\n{}</section>\n",
                     is_long ? " class=\"long\"" : "", html_text(title), html_text(explanation), content);
}

std::string html_facts(const std::vector<HtmlFact>& facts) {
  std::string list = "<dl class=\"facts\">\n";
  for (const HtmlFact& fact : facts) {
    const std::string remark = fact.remark.empty() ? "" : "<small>" + html_text(fact.remark) + "</small>";
    list += fmt::format("<div{}><dt>{}</dt><dd>{}{}</dd></div>\n", &fact == &facts[0] ? " class=\"first\"" : "",
                        html_text(fact.name), html_text(fact.value), remark);
  }
  return list + "</dl>\n";
}

std::string html_bar_row(std::string_view name, std::string_view bars, std::string_view value) {
  return fmt::format(
      "<div class=\"name\" title=\"{0}\"><bdi>{0}</bdi></div><div class=\"row\"><div class=\"track\">{1}</div><span "
      "class=\"value\">{2}</span></div>\n",
      html_text(name), bars, html_text(value));
}

std::string html_bar(std::string_view css_class, double share) {
  return fmt::format("<div class=\"bar {}\" style=\"width:{:.2f}%\"></div>", css_class,
                     std::clamp(share, 0.0, 1.0) * 100);
}

}  // namespace tessera::report
