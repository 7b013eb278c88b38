"use strict";
// Sorting of tables, and the comparison of two runs. Text from data is only ever set as text.
(() => {
  const say = (text) => { document.getElementById("status").textContent = text; };

  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  const valueOf = (row, column) => {
    const cell = row.cells[column];
    const value = cell.dataset.value ?? cell.textContent.trim();
    return value !== "" && !Number.isNaN(Number(value)) ? Number(value) : value;
  };

  const compareValues = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };

  const sort = (table, header, column) => {
    const rising = header.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].filter((row) => row.cells.length > column);
    const left = [...body.rows].filter((row) => row.cells.length <= column);
    const isEmpty = (row) => valueOf(row, column) === "";
    rows.sort((one, two) => {
      if (isEmpty(one) !== isEmpty(two)) return isEmpty(one) ? 1 : -1;
      const order = compareValues(valueOf(one, column), valueOf(two, column));
      return rising ? order : -order;
    });
    body.append(...rows, ...left);
    say(`sorted by ${header.textContent}, ${rising ? "ascending" : "descending"}`);
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      if ("unsorted" in header.dataset) return;
      const button = make("button", header.textContent, { type: "button" });
      button.addEventListener("click", () => sort(table, header, column));
      header.replaceChildren(button);
    });
  }

  const data = document.getElementById("compare-data");
  if (!data) return;
  const runs = JSON.parse(data.textContent);
  const selects = ["compare-a", "compare-b"].map((id) => document.getElementById(id));
  const result = document.getElementById("compare-result");

  const compare = () => {
    const [one, two] = selects.map((select) => runs[select.selectedIndex]);
    const names = [...new Set([...Object.keys(one.values), ...Object.keys(two.values)])];
    const differing = names.filter((name) => (one.values[name] ?? "") !== (two.values[name] ?? ""));
    const table = make("table", "");
    table.append(make("caption", `${names.length - differing.length} values are equal and not shown.`));
    const head = table.createTHead().insertRow();
    for (const title of ["What", one.id, two.id]) head.append(make("th", title, { scope: "col" }));
    const body = table.createTBody();
    for (const name of differing) {
      const row = body.insertRow();
      row.append(make("th", name, { scope: "row" }));
      for (const run of [one, two]) row.append(make("td", run.values[name] ?? "–"));
    }
    result.replaceChildren(table);
    say(`${differing.length} values differ`);
  };

  selects.forEach((select, place) => {
    for (const run of runs) select.append(make("option", run.label));
    select.selectedIndex = Math.min(1 - place, runs.length - 1);
    select.addEventListener("change", compare);
  });
  document.getElementById("compare-form").hidden = false;
  compare();
  say("");
})();
