// The labels of an item: a seen one can be called wrong, and one that was not suggested added.
import { alone, answer, element, find, said } from "./page.js";

let names = null;  // of all classes, fetched when they are first needed

async function choices() {
  if (names !== null) { return; }
  names = (await (await fetch("api/names")).json()).names;
  const list = element("datalist");
  list.id = "all-classes";
  list.append(...names.map((name) => {
    const choice = element("option");
    choice.value = name;
    return choice;
  }));
  document.body.append(list);
}
// Says whether an item has a label; the source file stays as it is, the export has what was said.
async function correct(item, label, has, changed) {
  await answer([{ row: item.row, label: label, action: has ? "yes" : "no" }]);
  const known = item.labels.find((one) => one.label === label);
  if (known) { known.has = has; } else {
    item.labels.push({ label: label, class: names[label], seen: 0, has: has });
  }
  const one = item.labels.find((other) => other.label === label);
  said(one.class + ": " + (one.seen && has !== (one.seen > 0) ? "the seen label is wrong"
    : one.seen ? "the seen label is right" : has ? "added" : "no"));
  await changed(label, has);
}
// Calls the seen label wrong, or right again; of several the first that is not yet wrong.
export async function callWrong(item, changed) {
  const seen = item.labels.filter((one) => one.seen > 0);
  if (!seen.length) { said("no label was seen"); return; }
  const one = seen.find((other) => other.has) || seen[seen.length - 1];
  await correct(item, one.label, !one.has, changed);
}
export function drawLabels(place, item, changed, adding = place) {
  const seen = item.labels.some((one) => one.seen > 0);
  const chips = item.labels.map((one) => {
    const chip = element(changed ? "button" : "span", "chip" + (one.has ? "" : " negative"));
    const wrong = one.seen && one.has !== (one.seen > 0);
    if (wrong) { chip.classList.add("wrong"); }
    chip.append(element(one.seen > 0 && wrong ? "s" : "span", "", (one.seen <= 0 && !one.has ? "not " : "") + one.class));
    if (changed) {
      chip.type = "button";
      const what = wrong ? "wrong" : one.seen ? "wrong?" : one.has ? "added" : "";
      if (what) { chip.append(" ", element("i", "", what)); }
      chip.title = wrong ? "the seen label is right" : one.seen ? "the seen label is wrong"
        : one.has ? "it does not have it" : "it has it";
      chip.addEventListener("click", () => alone(() => correct(item, one.label, !one.has, changed)));
    }
    return chip;
  });
  chips.unshift(element("span", "small", seen ? "seen" : "no label seen"));
  place.replaceChildren(...chips);
  if (changed) {
    adding.querySelectorAll(".add").forEach((one) => one.remove());
    adding.append(adder(item, changed));
  }
}
function adder(item, changed) {
  const form = element("form", "add"), field = element("input"), add = element("button", "", "Add");
  field.setAttribute("list", "all-classes");
  field.placeholder = "add a label";
  field.setAttribute("aria-label", "Add a label that was not suggested");
  field.autocomplete = "off";
  field.enterKeyHint = "done";
  field.addEventListener("focus", choices);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.preventDefault(); field.value = ""; field.blur(); }
  });
  add.type = "submit";
  form.append(field, add);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    alone(async () => {
      await choices();
      const label = names.indexOf(field.value.trim());
      if (label < 0) {
        said(field.value.trim() ? "no class has this name" : "type the name of a class");
        field.focus();
        return;
      }
      field.blur();
      await correct(item, label, true, changed);
    });
  });
  return form;
}
export function startAdding() {
  const field = find("work").querySelector(".add input");
  if (field) { field.focus(); }
}
