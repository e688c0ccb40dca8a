// What all ways to review share: talking to the server, progress, images, keys.
// Names come from files and are only ever set as text, never as HTML.
import { drawText, offerSearch, startSearch } from "./texts.js";
import { openZoom, zoomKey } from "./zoom.js";

export const mode = document.body.dataset.mode;
export const find = (id) => document.getElementById(id);
export const state = {
  again: 0,     // what was skipped up to this row of the history is asked again
  busy: false,  // a request is under way: keys wait for the screen they are meant for
};
let waiting = null;
let tens = 0;  // of the items of an audit that are done
let before = { done: 0, share: 0 };  // what the bar showed last
let desk = null;  // the way to review: load(), do(what), keys

const root = document.documentElement;
const kept = read(localStorage, "plusone-theme");
if (kept === "light" || kept === "dark") { root.dataset.theme = kept; }
find("theme").addEventListener("click", function () {
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  write(localStorage, "plusone-theme", root.dataset.theme);
});
const session = await ownName();

function read(store, name) {
  try { return store.getItem(name); } catch (error) { return null; }
}
function write(store, name, value) {
  try { store.setItem(name, value); } catch (error) { /* private mode: forgotten on reload */ }
}
export function element(kind, style, text) {
  const made = document.createElement(kind);
  if (style) { made.className = style; }
  if (text !== undefined) { made.textContent = text; }
  return made;
}
export function percent(share) { return Math.round(100 * share) + " %"; }
export function plural(count, one) { return count.toLocaleString("en") + " " + one + (count === 1 ? "" : "s"); }

function random() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
// The name of this tab. It outlives a reload; a tab that was duplicated, and so began with the name
// of another that is still open, takes a new one.
async function ownName() {
  let name = read(sessionStorage, "plusone-session") || random();
  if (!(await claimed(name))) {
    name = random();
    await claimed(name);
  }
  write(sessionStorage, "plusone-session", name);
  return name;
}
// Whether no other tab has this name: a lock is held as long as the page lives. The page that a
// reload replaces gives it back within moments.
function claimed(name) {
  if (!navigator.locks) { return true; }
  return new Promise((say) => {
    const patience = { signal: AbortSignal.timeout(800) };
    navigator.locks.request("plusone-session-" + name, patience, () => {
      say(true);
      return new Promise(() => {});
    }).catch(() => say(false));
  });
}
function pause(ms) { return new Promise((go) => setTimeout(go, ms)); }
function complain(text) {
  find("trouble").textContent = text;
  find("trouble").hidden = !text;
}
// Sends until it is kept. The same step sent twice counts once, so trying again is safe.
export async function post(path, body) {
  const text = JSON.stringify(Object.assign({ session: session }, body));
  for (;;) {
    let reply;
    try {
      reply = await fetch(path, {
        method: "POST", body: text, headers: { "Content-Type": "application/json" },
      });
    } catch (error) {
      complain("The server does not answer. The last answer is not kept yet; trying again …");
      await pause(1000);
      continue;
    }
    if (reply.status === 403) {
      complain("The server was started anew: open the address it printed.");
      throw new Error("refused");
    }
    const found = await reply.json().catch(() => ({ error: "the reply cannot be read" }));
    if (!reply.ok) {
      complain("Not kept: " + found.error);
      throw new Error(found.error);
    }
    complain("");
    if (found.progress) { showProgress(found.progress); }
    return found;
  }
}
// Says something once; if it does not arrive, what is on this screen is asked elsewhere in time.
function mention(path) {
  fetch(path, {
    method: "POST", keepalive: true, body: JSON.stringify({ session: session }),
    headers: { "Content-Type": "application/json" },
  }).catch(() => {});
}
export function answer(answers) { return post("api/answer", { step: random(), answers: answers }); }

// Runs one thing at a time; what is pressed meanwhile was meant for another screen.
export async function alone(act) {
  if (state.busy) { return; }
  state.busy = true;
  document.body.setAttribute("aria-busy", "true");
  try { await act(); } catch (error) { /* it was said on the page */ } finally {
    state.busy = false;
    document.body.removeAttribute("aria-busy");
  }
}

function showProgress(now) {
  // More questions may become worth asking: then the bar waits, it does not run backwards.
  const done = now.answered + now.skipped, share = now.questions ? done / now.questions : 1;
  before = { done: done, share: done >= before.done ? Math.max(share, before.share) : share };
  find("bar").value = before.share;
  const what = mode === "annotate" ? "items" : "questions";
  find("counts").textContent = now.answered.toLocaleString("en") + " of "
    + now.questions.toLocaleString("en") + " " + what + " answered"
    + (now.skipped ? " · " + now.skipped.toLocaleString("en") + " skipped" : "")
    + (now.answered && now.at_first && now.at_first !== now.questions
      ? " · " + now.at_first.toLocaleString("en") + " at first; your answers changed which labels are likely"
      : "");
  const parts = [];
  if (mode === "annotate") {
    if (now.per_item !== null) { parts.push(now.per_item.toFixed(1) + " questions per item"); }
  } else if (now.accepted !== null) {
    parts.push("yes to " + Math.round(now.accepted * now.judged) + " of " + now.judged + " ("
      + percent(now.accepted) + "), expected " + percent(now.expected));
    parts.push("agreement " + percent(now.agreement));
    if (now.rest !== null) { parts.push("corrected: " + percent(now.rest) + " of the rest"); }
  }
  if (now.wrong) { parts.push(plural(now.wrong, "seen label") + " wrong"); }
  if (now.added) { parts.push(now.added + " added"); }
  if (now.repeated) { parts.push("asked twice " + now.repeated + ", same answer " + now.agreeing); }
  if (now.of) { parts.unshift(now.items + " of " + plural(now.of, "item") + " done"); }
  find("agreement").textContent = parts.join(" · ");
  if (find("promise") && Math.floor(now.items / 10) !== tens) {
    tens = Math.floor(now.items / 10);
    fetch("api/promise").then((reply) => reply.json()).then((found) => {
      find("promise").textContent = found.promise;
    }).catch(() => {});
  }
}
export function said(text) { find("last").textContent = text; }
export function show(which) {
  find("work").hidden = which !== "work";
  find("done").hidden = which !== "done";
}
export function showDone(now) {
  const others = now.left > 0;
  const what = mode === "annotate" ? "item" : "question";
  find("done-title").textContent = others
    ? "The rest is on other screens" : "Nothing is left to ask";
  find("done-text").textContent = others
    ? plural(now.left, what) + " open elsewhere; this page looks again by itself."
    : plural(now.answered, what) + " answered"
      + (now.skipped ? ", " + now.skipped + " skipped." : ".")
      + (now.without ? " " + plural(now.without, "item") + " got no label." : "");
  find("again").hidden = others || !now.skipped;
  find("again-text").textContent = "Ask the " + now.skipped + " skipped again";
  find("again").dataset.last = now.last;
  show("done");
  clearTimeout(waiting);
  if (others) { waiting = setTimeout(() => alone(() => desk.load()), 3000); }
}
// Shows an item. It ends when the image is there, or cannot be shown: nobody answers unseen.
export async function showItem(item) {
  find("name").textContent = item.name;
  find("name").title = item.name;
  const image = find("image"), none = find("noimage"), text = find("text");
  image.hidden = !item.image;
  text.hidden = item.text === null;
  none.hidden = item.image || item.text !== null;
  none.textContent = item.name;
  if (item.text !== null) { drawText(text, item.text); text.scrollTop = 0; }
  if (!item.image) { return; }
  const source = "image/large/" + item.row;
  if (image.getAttribute("src") !== source) { image.src = source; }
  image.alt = item.name;
  image.onclick = () => openZoom(item);
  image.classList.add("loading");
  try {
    await image.decode();
  } catch (error) {
    image.hidden = true;
    none.hidden = false;
    none.textContent = "This image cannot be shown.";
  }
  image.classList.remove("loading");
}

export async function undo(back) {
  const found = await post("api/undo", { step: random() });
  if (!found.undone.length) { said("nothing to undo in this tab"); return; }
  const count = found.undone.length;
  said(count === 1 ? "taken back: " + found.undone[0].action : plural(count, "answer") + " taken back");
  await back(found.undone[0], found.undone);
}

// The questions that are asked: order, least probability and number, for all tabs of this server.
function offerSelection() {
  const dialog = find("selection");
  find("choose").addEventListener("click", () => alone(async () => {
    const now = await (await fetch("api/selection")).json();
    find("selection-now").textContent = find("counts").textContent + ", of "
      + plural(now.suggestions, "suggestion") + ".";
    find("order").value = now.order;
    find("least").value = Number((100 * now.least).toPrecision(6));
    find("budget").value = now.budget === null ? "" : now.budget;
    dialog.showModal();
  }));
  find("cancel").addEventListener("click", () => dialog.close());
  dialog.querySelector("form").addEventListener("submit", () => alone(async () => {
    before = { done: 0, share: 0 };
    await post("api/selection", {
      order: find("order").value, least: Number(find("least").value) / 100,
      budget: find("budget").value ? Number(find("budget").value) : null,
    });
    await desk.load();
  }));
}

function askAgain() {
  state.again = Number(find("again").dataset.last);
  return desk.load();
}
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) { return; }
  const pressing = event.key === "Enter" || event.key === " ";
  const on = event.target.closest ? event.target : document.body;
  if (on.closest("select, input, #selection") || (pressing && on.closest("button, a"))) { return; }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (zoomKey(event, key)) { return; }
  if (key === "r" && !find("done").hidden && !find("again").hidden) {
    event.preventDefault();
    alone(askAgain);
  } else if (key === "/") {
    event.preventDefault();
    startSearch();
  } else if (desk.keys[key]) {
    event.preventDefault();
    alone(() => desk.do(desk.keys[key]));
  }
}

// Starts a way to review: an object with load(), do(what) and keys.
export function begin(chosen) {
  desk = chosen;
  document.addEventListener("keydown", onKey);
  document.querySelectorAll("[data-do]").forEach(function (button) {
    button.addEventListener("click", function () {
      button.blur();
      alone(() => desk.do(button.dataset.do));
    });
  });
  find("again").addEventListener("click", () => alone(askAgain));
  if (find("choose")) { offerSelection(); }
  offerSearch((row) => alone(() => desk.load(row)));
  setInterval(function () { if (!document.hidden) { mention("api/hold"); } }, 40000);
  window.addEventListener("pagehide", () => mention("api/release"));
  window.addEventListener("pageshow", function (event) {
    if (event.persisted) { location.reload(); }
  });
  alone(() => desk.load());
}
