"use strict";
// Columns sort when their heading is pressed: up, down, then as it was. Gaps stay last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const words = new Intl.Collator("en", { numeric: true });
  const sort = (column, down) => {
    const numeric = heads[column].classList.contains("n");
    const key = (row) => {
      const cell = row.cells[column];
      const text = cell.dataset.v ?? cell.textContent.trim();
      return numeric ? parseFloat(text.replace("−", "-")) : text;
    };
    const rows = original.map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (!numeric) return down ? words.compare(b, a) : words.compare(a, b);
      if (isNaN(a) || isNaN(b)) return isNaN(a) - isNaN(b);
      return down ? b - a : a - b;
    });
    body.append(...rows.map(([, row]) => row));
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const next = before === "ascending" ? "descending" : before === "descending" ? null : "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      table.classList.toggle("sorted", next !== null);
      if (next === null) {
        body.append(...original);
      } else {
        head.setAttribute("aria-sort", next);
        sort(column, next === "descending");
      }
    });
  });
}
// A link into a closed part opens it, in browsers that do not do so by themselves.
const reveal = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let part = target; part; part = part.parentElement) {
    if (part.tagName === "DETAILS") part.open = true;
  }
  target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();
