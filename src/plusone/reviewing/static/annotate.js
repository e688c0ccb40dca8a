// New items: one class after the other, in random order, until one applies.
import { drawLabels } from "./labels.js";
import { answer, begin, find, post, said, show, showDone, showItem, state, undo } from "./page.js";
import { openZoom } from "./zoom.js";

const annotate = {
  item: null,
  async load(row) {
    const found = await post("api/next", { again: state.again, row: row === undefined ? null : row });
    this.item = found.row === null ? null : found;
    if (!this.item) { showDone(found.progress); return; }
    const shown = showItem(found);
    drawLabels(find("labels"), found);
    find("asked-class").textContent = found.class;
    find("now").textContent = found.class + "?";
    find("number").textContent = "question " + found.number + " of at most " + found.classes;
    show("work");
    await shown;
  },
  async do(what) {
    if (what === "undo") { return undo((first) => this.load(first.row)); }
    if (!this.item) { return undefined; }
    if (what === "zoom") { return this.item.image ? openZoom(this.item) : undefined; }
    const { row, label } = this.item;
    if (what === "next") {
      await answer([{ row: row, label: -1, action: "skip" }]);
      said("put off: " + this.item.name);
      return this.load();
    }
    await answer([{ row: row, label: label, action: what }]);
    said(this.item.class + ": " + what);
    return what === "yes" ? this.load() : this.load(row);
  },
  keys: { y: "yes", n: "no", s: "skip", u: "undo", z: "zoom", ArrowRight: "next" },
};

begin(annotate);
