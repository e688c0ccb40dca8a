// One class at a time: mark the items that have it, say that the rest has not, confirm the page.
import { callWrong, drawLabels } from "./labels.js";
import {
  alone, answer, begin, element, find, percent, post, said, show, showDone, state, undo,
} from "./page.js";
import { meaning, outline, partsOf } from "./parts.js";
import { openZoom } from "./zoom.js";

// As many tiles as fit on the screen: one key says no to the rest, so all must be in sight.
// The lengths are those of review.css, in rem.
function fitting() {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const width = window.innerWidth / rem, height = window.innerHeight / rem;
  const small = width <= 56;
  const gap = small ? 0.45 : 0.7, least = small ? 6.5 : 10.5;
  const inner = width - 2 * (small ? 0.7 : 1.4), free = height - (small ? 22.5 : 12);
  const columns = Math.max(1, Math.floor((inner + gap) / (least + gap)));
  const tile = (inner - gap * (columns - 1)) / columns + 2;
  return Math.min(200, columns * Math.max(1, Math.floor((free + gap) / (tile + gap))));
}

const grid = {
  page: null, marks: [], at: 0, waiting: new Set(),
  async load(label, before) {
    let wanted = label;
    if (wanted === undefined) {
      const reply = await fetch("api/classes");
      const classes = (await reply.json()).classes;
      const chosen = classes.find((one) => "#" + one.label === location.hash);
      const most = classes.slice().sort((a, b) => b.left - a.left)[0];
      wanted = (chosen && (chosen.left || state.again) ? chosen : most || { label: 0 }).label;
    }
    const tried = new Set();
    for (;;) {  // a class that is finished, or is all on other screens, leads to the next one
      const found = await post("api/page", { label: wanted, again: state.again, size: fitting() });
      tried.add(wanted);
      if (found.tiles.length) { this.page = found; break; }
      const other = found.classes.find((one) => (one.left || state.again) && !tried.has(one.label));
      if (!other) { this.page = null; showDone(found.progress); return; }
      wanted = other.label;
    }
    history.replaceState(null, "", "#" + wanted);
    const earlier = new Map((before || []).map((one) => [one.row, one.action]));
    this.marks = this.page.tiles.map((one) => earlier.get(one.row) || "open");
    this.at = 0;
    this.draw();
    show("work");
    this.focus();
  },
  draw() {
    find("class").textContent = this.page.name;
    find("classes").replaceChildren(...this.page.classes.map((one) => {
      const choice = element("option", "", one.name + " (" + one.left + " left)");
      choice.value = one.label;
      choice.selected = one.label === this.page.label;
      return choice;
    }));
    this.waiting = new Set();
    find("tiles").replaceChildren(...this.page.tiles.map((one, place) => this.tile(one, place)));
    this.paint();
    this.showParts(this.page);
  },
  // One picture after the other, as long as they are looked at.
  async showParts(page) {
    find("where").hidden = true;
    for (const [place, one] of page.tiles.entries()) {
      const part = (await partsOf(one.row))[one.label];
      const image = this.page === page && find("tiles").children[place].querySelector("img");
      if (this.page !== page) { return; }
      if (part && image) {
        await image.decode().catch(() => {});
        outline(image, part);
        find("where").hidden = false;
        find("where").textContent = meaning(page.name);
      }
    }
  },
  tile(one, place) {
    const tile = element("li"), picture = element("div", "picture");
    tile.tabIndex = -1;
    tile.setAttribute("role", "checkbox");
    if (one.image) {
      const image = element("img");
      image.alt = one.name;
      this.waiting.add(image);
      image.addEventListener("load", () => this.waiting.delete(image));
      image.addEventListener("error", () => {
        this.waiting.delete(image);
        picture.replaceChildren(element("p", "", one.name));
      });
      image.src = "image/small/" + one.row;
      picture.append(image);
    } else { picture.append(element("p", one.text === null ? "" : "excerpt", one.text || one.name)); }
    const below = element("div", "below");
    const likely = one.seen ? "" : percent(one.probability);
    below.append(element("span", "seen"), element("span", "", likely));
    const zoom = element("button", "enlarge", "⤢");
    zoom.type = "button";
    zoom.tabIndex = -1;
    zoom.setAttribute("aria-label", "Enlarge " + one.name);
    zoom.addEventListener("click", (event) => {
      event.stopPropagation();
      if (state.busy) { return; }
      this.at = place;
      this.paint();
      this.focus();
      this.zoom();
    });
    tile.append(picture, zoom, element("span", "mark"), below);
    tile.addEventListener("click", () => {
      if (state.busy) { return; }
      this.at = place;
      this.toggle();
      this.focus();
    });
    return tile;
  },
  paint() {
    const yes = this.marks.filter((one) => one === "yes").length;
    const skip = this.marks.filter((one) => one === "skip").length, open = this.open();
    find("confirm").textContent = "Confirm: " + yes + " yes, "
      + (this.marks.length - yes - skip - open) + " no" + (skip ? ", " + skip + " skipped" : "")
      + (open ? ", " + open + " open" : "");
    Array.from(find("tiles").children).forEach((tile, place) => {
      const mark = this.marks[place];
      tile.className = "marked-" + mark;
      this.describe(tile.querySelector(".seen"), this.page.tiles[place]);
      tile.setAttribute("aria-checked", mark === "skip" ? "mixed" : String(mark === "yes"));
      tile.tabIndex = place === this.at ? 0 : -1;
      tile.querySelector(".mark").textContent = { yes: "✓", no: "✕", skip: "skip", open: "?" }[mark];
    });
  },
  describe(line, one) {
    const names = (some) => some.map((other) => other.class).join(", ");
    const had = one.labels.filter((other) => other.has);
    line.textContent = names(had) || one.name;
    if (had.length) { line.prepend(element("i", "word", "seen ")); }
    line.title = one.name + (had.length ? ": " + names(had) : "");
  },
  // The image of the tile and its labels; what is said about them is kept at once.
  zoom() {
    const one = this.page.tiles[this.at];
    const changed = (label, has) => {
      if (label === this.page.label) { this.marks[this.at] = has ? "yes" : "no"; }
      drawLabels(find("zoom-labels"), one, changed);
      this.paint();
    };
    openZoom(one);
    drawLabels(find("zoom-labels"), one, changed);
  },
  focus() { const tile = find("tiles").children[this.at]; if (tile) { tile.focus(); } },
  mark(what) { this.marks[this.at] = what; this.paint(); },
  open() { return this.marks.filter((one) => one === "open").length; },
  // Yes, no, and open again.
  toggle() { this.mark({ open: "yes", yes: "no" }[this.marks[this.at]] || "open"); },
  columns() {
    return getComputedStyle(find("tiles")).gridTemplateColumns.split(" ").length;
  },
  move(by) {
    const to = this.at + by;
    if (to >= 0 && to < this.marks.length) { this.at = to; this.paint(); this.focus(); }
  },
  async do(what) {
    if (what === "undo") {
      return undo((first, all) => {
        if (first.asked || !this.page) { return this.load(first.label, all); }
        const kept = this.page.tiles.map((one, place) => (
          { row: one.row, action: this.marks[place] }));  // a correction: the page stays
        return this.load(this.page.label, kept);
      });
    }
    if (!this.page) { return undefined; }
    if (what === "zoom") { return this.zoom(); }
    if (what === "wrong") { return callWrong(this.page.tiles[this.at], () => this.paint()); }
    const now = this.marks[this.at];
    if (what === "confirm") {
      if (this.waiting.size) { said("the images are still loading"); return undefined; }
      if (this.open()) {
        said(this.open() + " are open: X says no to them, S skips one");
        return undefined;
      }
      const yes = this.marks.filter((one) => one === "yes").length;
      await answer(this.page.tiles.map((one, place) => (
        { row: one.row, label: one.label, action: this.marks[place] })));
      said(this.page.name + ": " + yes + " of " + this.marks.length + " have it");
      return this.load(this.page.label);
    }
    if (what === "all") {
      const every = this.marks.every((one) => one === "yes") ? "open" : "yes";
      this.marks = this.marks.map(() => every);
      return this.paint();
    }
    if (what === "rest") {
      this.marks = this.marks.map((one) => (one === "open" ? "no" : one));
      return this.paint();
    }
    if (what === "toggle") { return this.toggle(); }
    if (what === "skip") { return this.mark(now === "skip" ? "open" : "skip"); }
    if (what === "yes" || what === "no") { return this.mark(what); }
    if (what === "previous" || what === "following") {
      const all = this.page.classes;
      const place = all.findIndex((one) => one.label === this.page.label);
      const to = (place + (what === "previous" ? all.length - 1 : 1)) % all.length;
      return this.load(all[to].label);
    }
    const step = { left: -1, right: 1, up: -this.columns(), down: this.columns() }[what];
    return this.move(step);
  },
  keys: { " ": "toggle", y: "yes", n: "no", s: "skip", x: "rest", a: "all", u: "undo", Enter: "confirm",
    ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
    "[": "previous", "]": "following", w: "wrong", z: "zoom" },
};

find("classes").addEventListener("change", function () {
  alone(() => grid.load(Number(find("classes").value)));
});
begin(grid);
