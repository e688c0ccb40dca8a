// Item by item: the image, the labels seen, and the labels it may also have.
import { callWrong, drawLabels, startAdding } from "./labels.js";
import {
  answer, begin, element, find, percent, plural, post, said, show, showDone, showItem,
  state, undo,
} from "./page.js";
import { meaning, outline, partsOf } from "./parts.js";
import { openZoom } from "./zoom.js";

const MARKS = { yes: "✓", no: "✕", skip: "–" };
const items = {
  item: null, at: 0, parts: {},
  async load(row, label) {
    const found = await post("api/next", { again: state.again, row: row === undefined ? null : row });
    this.item = found.row === null ? null : found;
    if (!this.item) { showDone(found.progress); return; }
    const wanted = found.questions.findIndex((one) => one.open && one.label === label);
    this.at = wanted >= 0 ? wanted : Math.max(0, found.questions.findIndex((one) => one.open));
    const shown = showItem(found);
    this.parts = {};
    this.draw();
    show("work");
    await shown;
    if (!found.image) { return; }
    if (found.after !== null) { new Image().src = "image/large/" + found.after; }
    this.showParts(found);
  },
  // Not waited for: nobody has to wait for an outline.
  async showParts(found) {
    const parts = await partsOf(found.row);
    if (this.item !== found) { return; }
    this.parts = parts;
    this.drawPart();
    if (found.after !== null) { partsOf(found.after); }
  },
  drawPart() {
    const one = this.item.questions[this.at], part = one && this.parts[one.label];
    outline(find("image"), part);
    find("where").hidden = !part;
    find("where").textContent = part ? meaning(one.class) : "";
  },
  // After a correction, which may be the answer to a question, the server says what is left.
  corrected(label) {
    const at = this.item.questions[this.at];
    return this.load(this.item.row, at && at.label !== label ? at.label : undefined);
  },
  draw() {
    drawLabels(find("labels"), this.item, (label) => this.corrected(label), find("adding"));
    find("questions").replaceChildren(...this.item.questions.map((one, place) => {
      const line = element("li", one.answer ? "said-" + one.answer : "");
      if (place === this.at) { line.setAttribute("aria-current", "true"); }
      const likely = element("span", "likely"), part = element("i");
      part.style.width = one.seen ? 0 : 100 * one.probability + "%";
      likely.append(part);
      line.append(element("span", "class", one.seen ? "really " + one.class + "?" : one.class),
        element("span", "percent", one.seen ? "" : percent(one.probability)),
        element("span", "mark", one.answer ? MARKS[one.answer] : ""), likely);
      line.addEventListener("click", () => { if (!state.busy) { this.at = place; this.draw(); } });
      return line;
    }));
    const one = this.item.questions[this.at];
    find("now").textContent = !one ? "nothing more is asked about this item"
      : one.seen ? "really " + one.class + "?" : one.class + "? " + percent(one.probability);
    this.drawPart();
    const line = find("questions").children[this.at];
    if (line) { line.scrollIntoView({ block: "nearest" }); } else {
      find("questions").append(element("li", "small", "nothing more is asked about this item"));
    }
  },
  async say(action) {
    const one = this.item.questions[this.at];
    if (!one) { return; }
    await answer([{ row: this.item.row, label: one.label, action: action }]);
    one.answer = action;
    one.open = false;
    said(one.class + ": " + action);
    const left = this.item.questions.findIndex((other, place) => other.open && place > this.at);
    this.at = left >= 0 ? left : this.item.questions.findIndex((other) => other.open);
    if (this.at < 0) { await this.load(); } else { this.draw(); }
  },
  async do(what) {
    if (what === "undo") { return undo((first) => this.load(first.row, first.label)); }
    if (!this.item) { return undefined; }
    if (what === "rest") {
      const left = this.item.questions.filter((one) => one.open);
      if (!find("promise") || !left.length) { return undefined; }
      for (let at = 0; at < left.length; at += 200) {  // as many as the server takes at once
        await answer(left.slice(at, at + 200).map((one) => (
          { row: this.item.row, label: one.label, action: "no" })));
      }
      said("no to " + plural(left.length, "label"));
      return this.load();
    }
    if (what === "next") {
      const left = this.item.questions.filter((one) => one.open);
      if (left.length) {
        await answer(left.map((one) => ({ row: this.item.row, label: one.label, action: "skip" })));
        said(plural(left.length, "question") + " skipped");
      }
      return this.load();
    }
    if (what === "up" || what === "down") {
      const count = this.item.questions.length;
      if (!count) { return undefined; }
      this.at = (this.at + (what === "up" ? count - 1 : 1)) % count;
      return this.draw();
    }
    if (what === "zoom") { return this.item.image ? openZoom(this.item) : undefined; }
    if (what === "wrong") { return callWrong(this.item, (label) => this.corrected(label)); }
    if (what === "add") { return startAdding(); }
    return this.say(what);
  },
  keys: { y: "yes", n: "no", x: "rest", s: "skip", u: "undo", ArrowRight: "next", Enter: "next",
    ArrowUp: "up", ArrowDown: "down", w: "wrong", l: "add", z: "zoom" },
};

begin(items);
