// Texts in place of images: shown with the words that were searched for, and found by these.
const find = (id) => document.getElementById(id);
let words = [];

// Shows a text in an element; names and texts are only ever set as text, never as HTML.
export function drawText(into, text) {
  const parts = [];
  const wanted = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  const cut = wanted ? text.split(new RegExp("(" + wanted + ")", "i")) : [text];
  cut.forEach((part, place) => {
    if (place % 2) {
      const mark = document.createElement("mark");
      mark.textContent = part;
      parts.push(mark);
    } else { parts.push(part); }
  });
  into.replaceChildren(...parts);
}

// The field that searches: what was found is a list, and `open` goes to one of its rows.
export function offerSearch(open) {
  const form = find("search"), list = find("found");
  if (!form) { return; }
  const field = form.querySelector("input");
  const close = () => { list.hidden = true; };
  async function search() {
    words = field.value.trim().split(/\s+/).filter(Boolean);
    if (!words.length) { close(); return; }
    const asked = field.value;
    const reply = await fetch("api/search?words=" + encodeURIComponent(asked)).catch(() => null);
    if (!reply || !reply.ok || field.value !== asked) { return; }
    const { count, found } = await reply.json();
    const lines = found.map((one) => {
      const line = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      drawText(button, one.text);
      button.title = one.name;
      button.addEventListener("click", () => { close(); open(one.row); });
      line.append(button);
      return line;
    });
    const last = document.createElement("li");
    last.className = "small";
    last.textContent = count + (count === 1 ? " text" : " texts")
      + (count > found.length ? ", the first " + found.length + " are shown" : "");
    list.replaceChildren(...lines, last);
    list.hidden = false;
  }
  field.addEventListener("input", search);
  field.addEventListener("focus", search);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const first = list.querySelector("button");
    if (first && !list.hidden) { field.blur(); first.click(); }
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { close(); field.blur(); }
  });
  document.addEventListener("click", (event) => { if (!form.contains(event.target)) { close(); } });
}
export function startSearch() {
  const form = find("search");
  if (form) { form.querySelector("input").focus(); }
}
