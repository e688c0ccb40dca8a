// Where the model finds a label: an outline over a picture, asked for while people look at it.
const known = new Map();  // row -> promise of the parts by class
const SVG = "http://www.w3.org/2000/svg";

export function partsOf(row) {
  if (!("parts" in document.body.dataset)) { return Promise.resolve({}); }
  if (!known.has(row)) {
    known.set(row, fetch("api/parts/" + row)
      .then((reply) => (reply.ok ? reply.json() : { parts: {} }))
      .then((found) => found.parts, () => ({})));
  }
  return known.get(row);
}
// Shows a part, or none. The outline is fitted into its place as the image is: whole, in the middle.
export function outline(image, part) {
  const place = image.parentElement, old = place.querySelector("svg.part");
  if (old) { old.remove(); }
  if (!part || !image.naturalWidth) { return; }
  const width = image.naturalWidth, height = image.naturalHeight;
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "part");
  svg.setAttribute("viewBox", "0 0 " + width + " " + height);
  svg.setAttribute("aria-hidden", "true");
  for (const kind of ["under", "over"]) {
    const line = document.createElementNS(SVG, "rect");
    line.setAttribute("class", kind);
    line.setAttribute("x", part[0] * width);
    line.setAttribute("y", part[1] * height);
    line.setAttribute("width", (part[2] - part[0]) * width);
    line.setAttribute("height", (part[3] - part[1]) * height);
    svg.append(line);
  }
  image.after(svg);
}
export function meaning(name) {
  return "Outlined: the part of the picture in which the model finds “" + name + "” most clearly, "
    + "one of four overlapping tiles that it looks at. It is not a detection.";
}
