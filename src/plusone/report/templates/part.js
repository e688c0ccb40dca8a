// The outline on a picture shows the part of one label at a time: the one that is pointed at.
function showPart(chip) {
  "use strict";
  var article = chip.closest("article"), outline = article.querySelector(".part");
  if (!outline) { return; }
  outline.style.cssText = chip.dataset.part;
  article.querySelectorAll("[data-part]").forEach(function (one) {
    one.classList.toggle("shown", one === chip);
  });
}
["pointerover", "focusin", "click"].forEach(function (kind) {
  document.addEventListener(kind, function (event) {
    var chip = event.target.closest("[data-part]");
    if (chip) { showPart(chip); }
  });
});
document.querySelectorAll(".part").forEach(function (outline) {
  showPart(outline.closest("article").querySelector("[data-part]"));
});
