// The script of the pages in this folder. Without scripts, the pages still show everything.
#pragma once

#include <string_view>

namespace tessera::report {

inline constexpr std::string_view kPageScript = R"js(
// Marks of a plot: one can be reached by Tab, the arrow keys walk on from it.
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
// Tables: a column's name sorts by it (once more: the other way round; a third time: as it was), and of many rows the
// first ones are shown.
for (const holder of document.querySelectorAll(".table")) {
  const scroll = holder.querySelector(".scroll"), table = holder.querySelector("table"), body = table.tBodies[0];
  const hint = holder.querySelector(".hint"), more = holder.querySelector(".more");
  const count = holder.querySelector(".count");
  const original = [...body.rows], heads = [...table.tHead.rows[0].cells], shown = Number(holder.dataset.shown);
  let all = false;
  const limit = () => {
    [...body.rows].forEach((row, i) => { row.hidden = !all && i >= shown; });
    if (!more) return;
    more.textContent = all ? `Show the first ${shown} rows` : `Show all ${original.length} rows`;
    more.setAttribute("aria-expanded", all);
    count.textContent = all ? "" : `${shown} of ${original.length} rows are shown.`;
  };
  const fits = () => {
    const needed = scroll.scrollWidth > scroll.clientWidth + 1;
    hint.classList.toggle("needed", needed);
    if (needed) scroll.tabIndex = 0; else scroll.removeAttribute("tabindex");
  };
  const sort = (column, direction) => {
    const number = heads[column].classList.contains("number");
    const key = row => number ? parseFloat(row.cells[column].dataset.value) : row.cells[column].textContent.trim();
    const compare = (a, b) => {
      const x = key(a), y = key(b), x_last = number ? Number.isNaN(x) : !x, y_last = number ? Number.isNaN(y) : !y;
      if (x_last || y_last) return x_last - y_last;
      const order = number ? x - y : x.localeCompare(y, "en", { numeric: true });
      return direction === "ascending" ? order : -order;
    };
    body.append(...(direction === "none" ? original : [...original].sort(compare)));
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === column ? direction : "none"));
    limit();
  };
  heads.forEach((head, column) => {
    if (holder.dataset.sortable === undefined || !head.textContent) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    if (!head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
    const first = head.classList.contains("number") ? "descending" : "ascending";
    const second = first === "ascending" ? "descending" : "ascending";
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      sort(column, now === "none" ? first : now === first ? second : "none");
    });
  });
  if (more) more.addEventListener("click", () => { all = !all; limit(); fits(); });
  limit();
  fits();
  new ResizeObserver(fits).observe(scroll);
}
)js";

}  // namespace tessera::report
