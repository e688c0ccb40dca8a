(function () {
  "use strict";
  var root = document.documentElement;
  var kept = null;
  try { kept = localStorage.getItem("plusone-theme"); } catch (error) { kept = null; }
  if (kept === "light" || kept === "dark") { root.dataset.theme = kept; }
  document.getElementById("theme").addEventListener("click", function () {
    var dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("plusone-theme", root.dataset.theme); } catch (error) { return; }
  });

  // A contents list beside the text stays open; above it, on a phone, it starts closed.
  if (window.matchMedia("(max-width: 60rem)").matches) {
    document.querySelector("nav details").removeAttribute("open");
  }

  function value(row, place) {
    var cell = row.cells[place];
    return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent.trim();
  }
  function empty(found) { return found === "–" || found === ""; }
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") { return a - b; }
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }
  document.querySelectorAll("th[aria-sort] button").forEach(function (button) {
    button.addEventListener("click", function () {
      var head = button.closest("th");
      var body = head.closest("table").tBodies[0];
      var place = head.cellIndex;
      var first = head.classList.contains("number") ? "descending" : "ascending";
      var other = first === "ascending" ? "descending" : "ascending";
      var order = head.getAttribute("aria-sort") === first ? other : first;
      head.parentNode.querySelectorAll("th").forEach(function (cell) {
        cell.setAttribute("aria-sort", cell === head ? order : "none");
      });
      var sign = order === "ascending" ? 1 : -1;
      Array.from(body.rows).map(function (row, number) {
        return { row: row, number: number, value: value(row, place) };
      }).sort(function (a, b) {
        if (empty(a.value) !== empty(b.value)) { return empty(a.value) ? 1 : -1; }
        return sign * compare(a.value, b.value) || a.number - b.number;
      }).forEach(function (entry) { body.appendChild(entry.row); });
    });
  });
})();
