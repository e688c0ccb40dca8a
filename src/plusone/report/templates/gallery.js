(function () {
  "use strict";
  var root = document.documentElement;
  document.getElementById("theme").addEventListener("click", function () {
    var dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  var known = JSON.parse(document.getElementById("tags").textContent);
  var photos = document.getElementById("photos");
  var tag = document.getElementById("tag");
  var order = document.getElementById("order");
  var search = document.getElementById("name");
  var byTag = order.querySelector("[value=tag]");
  var cards = Array.from(photos.children).map(function (node) {
    var tags = new Map();
    node.querySelectorAll("[data-tag]").forEach(function (chip) {
      tags.set(chip.dataset.tag, Number(chip.dataset.p));
    });
    return {
      node: node, tags: tags, number: Number(node.dataset.number), doubt: Number(node.dataset.doubt),
      name: node.querySelector(".item").textContent.toLowerCase()
    };
  });

  function choice(value, name, count) {
    tag.add(new Option(name + " (" + count + ")", value));
  }
  choice("all", "all", cards.length);
  known.tags.forEach(function (one) { choice(String(one.tag), one.name, one.count); });
  if (known.untagged) { choice("none", "without a tag", known.untagged); }

  function matches(card) {
    var wanted = tag.value;
    var tagged = wanted === "all" || (wanted === "none" ? !card.tags.size : card.tags.has(wanted));
    return tagged && card.name.includes(search.value.trim().toLowerCase());
  }
  function filter() {
    var shown = 0;
    cards.forEach(function (card) {
      card.node.hidden = !matches(card);
      shown += card.node.hidden ? 0 : 1;
    });
    photos.querySelectorAll("[data-tag]").forEach(function (chip) {
      chip.setAttribute("aria-pressed", String(chip.dataset.tag === tag.value));
      if (chip.dataset.tag === tag.value && chip.dataset.part) { showPart(chip); }
    });
    document.getElementById("count").textContent = shown + " of " + cards.length + " photos";
    document.getElementById("none").hidden = shown > 0;
  }
  function sort() {
    var keys = {
      given: function () { return 0; },
      doubtful: function (card) { return -card.doubt; },
      sure: function (card) { return card.doubt; },
      tag: function (card) { return -(card.tags.get(tag.value) || 0); }
    };
    var key = keys[order.value];
    cards.sort(function (a, b) { return key(a) - key(b) || a.number - b.number; });
    photos.append.apply(photos, cards.map(function (card) { return card.node; }));
  }
  function chosen() {
    var one = tag.value !== "all" && tag.value !== "none";
    byTag.hidden = byTag.disabled = !one;
    if (!one && order.value === "tag") { order.value = "given"; }
    if (order.value === "tag" || !one) { sort(); }
    filter();
  }
  tag.addEventListener("change", chosen);
  order.addEventListener("change", sort);
  search.addEventListener("input", filter);
  photos.addEventListener("click", function (event) {
    var chip = event.target.closest("[data-tag]");
    if (!chip) { return; }
    tag.value = tag.value === chip.dataset.tag ? "all" : chip.dataset.tag;
    chosen();
  });
  var bar = document.getElementById("bar");
  bar.addEventListener("submit", function (event) { event.preventDefault(); });
  bar.hidden = false;
  filter();
})();
