// The image or text of an item in a window of its own: click an image to enlarge it, scroll to move.
const find = (id) => document.getElementById(id);
const dialog = find("zoom"), sheet = find("zoom-sheet");

export function openZoom(item) {
  find("zoom-image").hidden = !item.image;
  find("zoom-text").textContent = item.text || "";
  if (item.image) { find("zoom-image").src = "image/full/" + item.row; }
  find("zoom-image").alt = item.name;
  find("zoom-name").textContent = item.name;
  enlarge(false);
  if (!dialog.open) { dialog.showModal(); }
  sheet.focus();
}
// Enlarges around the point that was clicked, given as shares of width and height.
function enlarge(on, across = 0.5, down = 0.5) {
  sheet.classList.toggle("enlarged", on);
  sheet.scrollTo(across * sheet.scrollWidth - sheet.clientWidth / 2,
    down * sheet.scrollHeight - sheet.clientHeight / 2);
}
// Whether a key was meant for the window. One that answers closes it first.
export function zoomKey(event, key) {
  if (!dialog.open) { return false; }
  if (key === "+" || key === "-") { enlarge(key === "+"); return true; }
  if (key === "z") { event.preventDefault(); }
  if (["z", "y", "n", "s", "w"].includes(key)) { dialog.close(); }
  return !["y", "n", "s", "w"].includes(key);
}
sheet.addEventListener("click", (event) => {
  if (find("zoom-image").hidden) { return; }
  const box = sheet.getBoundingClientRect();
  enlarge(!sheet.classList.contains("enlarged"),
    (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
});
find("zoom-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => {
  find("zoom-image").removeAttribute("src");
  find("zoom-labels").replaceChildren();
});
