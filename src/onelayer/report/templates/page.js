// A table is sorted by the button in a column's head: numbers as numbers, what is not there last.
"use strict";
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sort(table.tBodies[0], column, down ? -1 : 1);
    });
  });
}

function sort(body, column, direction) {
  const absent = (text) => text === "" || text === "undefined";
  const rows = [...body.rows].map((row) => ({ row, text: row.cells[column].textContent }));
  const numbers = rows.every(({ text }) => absent(text) || Number.isFinite(Number(text)));
  const compare = numbers ? (a, b) => Number(a) - Number(b) : new Intl.Collator("en", { numeric: true }).compare;
  rows.sort((a, b) => {
    if (absent(a.text) || absent(b.text)) return absent(a.text) - absent(b.text);
    return direction * compare(a.text, b.text);
  });
  body.append(...rows.map(({ row }) => row));
}

// Browsers that do not know ::details-content print what is open.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const one of folded) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of folded) one.open = false;
});
