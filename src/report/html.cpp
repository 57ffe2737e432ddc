#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/svg.h"

namespace tessera::report {
namespace {

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --ground: #fbfbf9; --card: #fff; --ink: #1c1f23; --soft: #5c636b; --line: #d9dcdf; --memory: #1668b8; --arithmetic: #b8480b; --overhead: #7a5ba6; --roof: #3c434a; --other: #8a929a; --good: #1d7a43; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1d2125; --ink: #e8eaec; --soft: #a4abb3; --line: #3a4047; --memory: #62a8ee; --arithmetic: #f0955a; --overhead: #b79ae0; --roof: #cdd3d9; --other: #7d858d; --good: #62c78a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.25rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: .25rem 0 1rem; text-wrap: balance; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .25rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; margin: 1rem 0; }
p { margin: .25rem 0 .75rem; } .soft { color: var(--soft); font-size: .9rem; }
ol.todo { padding-left: 1.4rem; margin: .5rem 0 0; } ol.todo li { margin: .5rem 0; padding-left: .25rem; } ol.todo li::marker { font-weight: 700; }
ul.advice { padding-left: 1.2rem; margin: .25rem 0; } ul.advice li { margin: .35rem 0; }
.gain { color: var(--good); font-weight: 600; white-space: nowrap; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; font-size: .9rem; margin: .25rem 0 .5rem; }
.legend svg { width: .9rem; height: .9rem; vertical-align: -.1rem; margin-right: .35rem; }
.plot { width: 100%; height: auto; display: block; } .narrow { display: none; }
.plot text { fill: var(--soft); font-size: 12px; pointer-events: none; } .plot text.roofname { fill: var(--roof); paint-order: stroke; stroke: var(--card); stroke-width: 4px; } .plot text.othername { fill: var(--soft); paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
.grid { stroke: var(--line); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; } .roof { stroke: var(--roof); stroke-width: 2; } .cacheroof { stroke: var(--roof); stroke-width: 1.2; stroke-dasharray: 2 3; } .otherroof { stroke: var(--other); stroke-width: 1.3; stroke-dasharray: 7 4; }
.mark { fill-opacity: .55; stroke-width: 1.2; cursor: pointer; } .mark:focus { outline: none; }
.mark:hover, .mark:focus { fill-opacity: 1; stroke: var(--ink); stroke-width: 2.5; }
.memory { fill: var(--memory); stroke: var(--memory); } .arithmetic { fill: var(--arithmetic); stroke: var(--arithmetic); } .overhead { fill: var(--overhead); stroke: var(--overhead); }
.live { fill: var(--memory); fill-opacity: .3; stroke: none; } .step { fill: var(--memory); fill-opacity: 0; stroke: none; } .step:hover, .step:focus { fill-opacity: .55; stroke: none; }
.readout { min-height: 3rem; margin: .5rem 0 0; padding: .5rem .6rem; border-left: 3px solid var(--line); font-size: .9rem; overflow-wrap: anywhere; }
.bars { display: grid; grid-template-columns: minmax(6rem, 17rem) 1fr; gap: .3rem .75rem; align-items: center; font-size: .88rem; }
.bars .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; direction: rtl; text-align: left; } .bars .name bdi { direction: ltr; }
.bars .row { display: flex; align-items: center; gap: .5rem; min-width: 0; } .bar { height: .8rem; border-radius: .15rem; min-width: 2px; flex: none; }
.bar.memory { background: var(--memory); } .bar.arithmetic { background: var(--arithmetic); } .bar.overhead { background: var(--overhead); } .bar.measured { background: var(--other); height: .4rem; }
.bars .track { flex: 1; min-width: 0; } .bars .value { flex: none; white-space: nowrap; font-variant-numeric: tabular-nums; min-width: 5rem; text-align: right; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; min-width: 100%; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; } th { font-weight: 600; color: var(--soft); } .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
details summary { cursor: pointer; padding: .35rem 0; font-weight: 600; } summary:focus-visible, .scroll:focus-visible { outline: 2px solid var(--memory); outline-offset: 2px; }
@media (max-width: 600px) { .wide { display: none; } .narrow { display: block; } section { padding: .75rem; } h1 { font-size: 1.25rem; } .bars { grid-template-columns: minmax(0, 1fr); gap: 0; } .bars .name { margin-top: .45rem; } }
@media print { section { break-inside: avoid; } }
)css";

// Marks of a plot: one can be reached by Tab, the arrow keys walk on from it.
constexpr std::string_view kScript = R"js(
for (const plot of document.querySelectorAll("svg.plot")) {
  const marks = [...plot.querySelectorAll(".mark")], readout = plot.parentElement.querySelector(".readout");
  if (!readout || !marks.length) continue;
  const show = mark => { readout.textContent = mark.getAttribute("aria-label"); };
  marks.forEach((mark, i) => {
    mark.tabIndex = i ? -1 : 0;
    mark.addEventListener("pointerenter", () => show(mark));
    mark.addEventListener("click", () => mark.focus());
    mark.addEventListener("focus", () => show(mark));
    mark.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const to = event.key === "Home" ? 0 : event.key === "End" ? marks.length - 1 : step ? i + step : -1;
      if (to < 0 || to >= marks.length) return;
      event.preventDefault();
      mark.tabIndex = -1;
      marks[to].tabIndex = 0;
      marks[to].focus();
    });
  });
}
)js";

}  // namespace

std::string html_page(std::string_view title, std::string_view body) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n";
  page += "<link rel=\"icon\" href=\"data:,\">\n<title>" + html_text(title) + "</title>\n<style>";
  page += kStyle;
  page += "</style>\n</head>\n<body>\n<main>\n";
  page += body;
  page += "</main>\n<script>";
  page += kScript;
  page += "</script>\n</body>\n</html>\n";
  return page;
}

std::string html_section(std::string_view title, std::string_view explanation, std::string_view content) {
  return fmt::format("<section>\n<h2>{}</h2>\n<p class=\"soft\">{}</p>\n{}</section>\n", html_text(title), html_text(explanation), content);
}

std::string html_bar_row(std::string_view name, std::string_view bars, std::string_view value) {
  return fmt::format(
      "<div class=\"name\" title=\"{0}\"><bdi>{0}</bdi></div><div class=\"row\"><div class=\"track\">{1}</div><span "
      "class=\"value\">{2}</span></div>\n",
      html_text(name), bars, html_text(value));
}

std::string html_bar(std::string_view css_class, double share) {
  return fmt::format("<div class=\"bar {}\" style=\"width:{:.2f}%\"></div>", css_class, std::clamp(share, 0.0, 1.0) * 100);
}

std::string html_table(const std::vector<std::vector<std::string>>& rows, const std::vector<std::size_t>& numbers) {
  std::string table = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::string tag = r == 0 ? "th" : "td";
    table += r == 0 ? "<thead><tr>" : r == 1 ? "<tbody>\n<tr>" : "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const bool number = std::ranges::find(numbers, c) != numbers.end();
      table += "<" + tag + (r == 0 ? " scope=\"col\"" : "") + (number ? " class=\"number\">" : ">") + rows[r][c] + "</" + tag + ">";
    }
    table += r == 0 ? "</tr></thead>\n" : "</tr>\n";
  }
  return table + (rows.size() > 1 ? "</tbody>" : "") + "</table></div>\n";
}

}  // namespace tessera::report
