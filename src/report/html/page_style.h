// The style sheet of the pages in this folder, for light and dark mode, screens from phones to wide ones, and print.
#pragma once

#include <string_view>

namespace tessera::report {

inline constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light; --ground: #fbfbf9; --card: #fff; --ink: #1c1f23; --soft: #5c636b; --line: #d9dcdf;
  --shade: rgb(0 0 0 / .16); --memory: #1668b8; --arithmetic: #b8480b; --overhead: #7a5ba6; --roof: #3c434a;
  --other: #8a929a; --good: #1d7a43; --series0: #1668b8; --series1: #b8480b; --series2: #1d7a43; --series3: #7a5ba6;
  --series4: #b0175a; --series5: #007a8a; --series6: #8a6a00; --series7: #3c434a; }
@media screen and (prefers-color-scheme: dark) { :root { color-scheme: dark; --ground: #14171a; --card: #1d2125;
  --ink: #e8eaec; --soft: #a4abb3; --line: #3a4047; --shade: rgb(0 0 0 / .6); --memory: #62a8ee;
  --arithmetic: #f0955a; --overhead: #b79ae0; --roof: #cdd3d9; --other: #7d858d; --good: #62c78a; --series0: #62a8ee;
  --series1: #f0955a; --series2: #62c78a; --series3: #b79ae0; --series4: #f27fb0; --series5: #4cc6d6;
  --series6: #d8bc4a; --series7: #e8eaec; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.25rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: .25rem 0 1rem; text-wrap: balance; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .25rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem; margin: 1rem 0;
  min-width: 0; }
p, li, dd { overflow-wrap: anywhere; }
p { margin: .25rem 0 .75rem; max-width: 60rem; text-wrap: pretty; } .soft { color: var(--soft); font-size: .9rem; }
ol.todo { padding-left: 1.4rem; margin: .5rem 0 0; } ol.todo li { margin: .5rem 0; padding-left: .25rem; }
ol.todo li::marker { font-weight: 700; }
ul.advice { padding-left: 1.2rem; margin: .25rem 0; } ul.advice li { margin: .35rem 0; }
.gain { color: var(--good); font-weight: 600; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr)); gap: .75rem 1rem;
  margin: 1rem 0; }
dl.facts div { border-left: 3px solid var(--line); padding-left: .6rem; min-width: 0; }
dl.facts dt { color: var(--soft); font-size: .85rem; } dl.facts dd { margin: 0; font-weight: 600; }
dl.facts .first { border-color: var(--good); } dl.facts small { display: block; color: var(--soft);
  font-weight: 400; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; font-size: .9rem; margin: .25rem 0 .5rem; }
.legend svg { width: .9rem; height: .9rem; vertical-align: -.1rem; margin-right: .35rem; }
.plot { width: 100%; max-width: 64rem; height: auto; display: block; } .narrow { display: none; }
.plot text { fill: var(--soft); font-size: 12px; pointer-events: none; }
.plot text.roofname, .plot text.othername { paint-order: stroke; stroke: var(--card); stroke-width: 4px; }
.plot text.roofname { fill: var(--roof); }
.grid { stroke: var(--line); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; }
.roof { stroke: var(--roof); stroke-width: 2; }
.cacheroof { stroke: var(--roof); stroke-width: 1.2; stroke-dasharray: 2 3; }
.otherroof { stroke: var(--other); stroke-width: 1.3; stroke-dasharray: 7 4; }
.mark { fill-opacity: .55; stroke-width: 1.2; cursor: pointer; } .mark:focus { outline: none; }
.mark:hover, .mark:focus { fill-opacity: 1; stroke: var(--ink); stroke-width: 2.5; }
.memory { fill: var(--memory); stroke: var(--memory); } .arithmetic { fill: var(--arithmetic);
  stroke: var(--arithmetic); }
.overhead { fill: var(--overhead); stroke: var(--overhead); }
.live { fill: var(--memory); fill-opacity: .3; stroke: none; }
.curve { fill: none; stroke: var(--memory); stroke-width: 1.8; }
.series0 { fill: var(--series0); stroke: var(--series0); } .series1 { fill: var(--series1); stroke: var(--series1); }
.series2 { fill: var(--series2); stroke: var(--series2); } .series3 { fill: var(--series3); stroke: var(--series3); }
.series4 { fill: var(--series4); stroke: var(--series4); } .series5 { fill: var(--series5); stroke: var(--series5); }
.series6 { fill: var(--series6); stroke: var(--series6); } .series7 { fill: var(--series7); stroke: var(--series7); }
.otherseries { fill: var(--other); stroke: var(--other); stroke-opacity: .5; } .curve[class*=series] { fill: none; }
.curve.arithmetic { fill: none; stroke: var(--arithmetic); } .curve.overhead { fill: none; stroke: var(--overhead); }
.curve.beside, .beside { stroke: var(--other); fill: var(--other); } .curve.beside { fill: none; }
.plot text.axisname { fill: var(--ink); }
pre.settings { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; margin: .25rem 0; }
.step { fill: var(--memory); fill-opacity: 0; stroke: none; }
.step:hover, .step:focus { fill-opacity: .55; stroke: none; }
.readout { min-height: 3rem; margin: .5rem 0 0; padding: .5rem .6rem; border-left: 3px solid var(--line);
  font-size: .9rem; overflow-wrap: anywhere; }
.bars { display: grid; grid-template-columns: minmax(6rem, 17rem) minmax(0, 1fr); gap: .3rem .75rem;
  align-items: center;
  font-size: .88rem; }
.bars .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; direction: rtl; text-align: left; }
.bars .name bdi { direction: ltr; }
.bars .row { display: flex; align-items: center; gap: .5rem; min-width: 0; }
.bar { height: .8rem; border-radius: .15rem; min-width: 2px; flex: none; }
.bar.memory { background: var(--memory); } .bar.arithmetic { background: var(--arithmetic); }
.bar.overhead { background: var(--overhead); } .bar.beside { background: var(--other); height: .4rem; }
.bars .track { flex: 1; min-width: 0; }
.bars .value { flex: none; white-space: nowrap; font-variant-numeric: tabular-nums; min-width: 5rem;
  text-align: right; }
.scroll { overflow-x: auto; background:
  linear-gradient(90deg, var(--card) 40%, transparent) left / 3rem 100% no-repeat local,
  linear-gradient(270deg, var(--card) 40%, transparent) right / 3rem 100% no-repeat local,
  linear-gradient(90deg, var(--shade), transparent) left / .8rem 100% no-repeat scroll,
  linear-gradient(270deg, var(--shade), transparent) right / .8rem 100% no-repeat scroll; }
.hint { margin: 0 0 .25rem; color: var(--soft); font-size: .85rem; } .hint:not(.needed) { display: none; }
.tools { display: flex; flex-wrap: wrap; align-items: center; gap: .25rem .75rem; margin: .5rem 0 0;
  font-size: .88rem; }
table { border-collapse: collapse; font-size: .85rem; min-width: 100%; }
th, td { text-align: left; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
th { font-weight: 600; color: var(--soft); vertical-align: bottom; } td.text { min-width: 5rem; max-width: 24rem; }
td.sentence { min-width: 18rem; max-width: 40rem; }
td.name { min-width: 8rem; max-width: 20rem; overflow-wrap: break-word; } tfoot td { font-weight: 600;
  border-bottom: none; }
.number { text-align: right; font-variant-numeric: tabular-nums; } td.number { white-space: nowrap; }
th button { all: unset; cursor: pointer; } th button:hover { color: var(--ink); text-decoration: underline; }
th button::after { content: "↕"; opacity: .45; margin-left: .2rem; font-size: .8em; }
th[aria-sort=ascending] button::after { content: "▲"; opacity: 1; }
th[aria-sort=descending] button::after { content: "▼"; opacity: 1; }
.tools button { font: inherit; color: var(--ink); background: var(--ground); border: 1px solid var(--line);
  border-radius: .35rem; padding: .25rem .7rem; cursor: pointer; }
details summary { cursor: pointer; padding: .35rem 0; font-weight: 600; }
summary:focus-visible, .scroll:focus-visible, button:focus-visible, th button:focus-visible {
  outline: 2px solid var(--memory); outline-offset: 2px; }
@media (max-width: 600px) {
  main { padding: .75rem .5rem 2rem; } section { padding: .75rem .6rem; }
  .wide { display: none; } .narrow { display: block; } h1 { font-size: 1.25rem; }
  .bars { grid-template-columns: minmax(0, 1fr); gap: 0; } .bars .name { margin-top: .45rem; }
  dl.facts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  table { font-size: .8rem; } th, td { padding: .3rem .6rem .3rem 0; }
  td.name { min-width: 6.5rem; max-width: 8.5rem; overflow-wrap: anywhere; }
  td.text { min-width: 4.5rem; max-width: 13rem; }
  td.sentence { min-width: 14rem; }
  .pinned { position: sticky; left: 0; background: var(--card); box-shadow: inset 0 -1px var(--line); }
  tfoot .pinned { box-shadow: none; }
}
@media print {
  body { font-size: 10pt; } main { max-width: none; padding: 0; } section { break-inside: avoid; padding: .5rem; }
  section.long { break-inside: auto; } tr { break-inside: avoid; } table { font-size: 8pt; }
  th, td { padding: .15rem .5rem .15rem 0; } td.text, td.name, td.sentence { min-width: 0; }
  .scroll { overflow: visible; background: none; } .tools button, th button::after, .readout, .hint { display: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

}  // namespace tessera::report
