// Sends one item to the service and shows its tags.
const $ = (id) => document.getElementById(id);
const SHOWN = 20;

const thresholds = new Map(
  [...document.querySelectorAll("#thresholds tbody tr")].map((row) => [
    row.cells[0].textContent,
    Number(row.dataset.threshold),
  ]),
);

function show(tags) {
  const chosen = new Set(tags.labels);
  $("labels").textContent = tags.labels.length ? tags.labels.join(", ") : "no label above its threshold";
  const ordered = Object.entries(tags.probabilities).sort((a, b) => b[1] - a[1]).slice(0, SHOWN);
  $("rows").replaceChildren(
    ...ordered.map(([name, probability]) => {
      const row = document.createElement("tr");
      if (chosen.has(name)) row.className = "chosen";
      const meter = document.createElement("meter");
      meter.value = probability;
      const cells = [name, probability.toFixed(3), thresholds.get(name).toFixed(3)].map((text) => {
        const cell = document.createElement("td");
        cell.textContent = text;
        return cell;
      });
      cells[1].append(" ", meter);
      row.append(...cells);
      return row;
    }),
  );
}

async function ask() {
  if ($("try").dataset.images === "yes") {
    const file = $("file").files[0];
    const kind = file.type.startsWith("image/") ? file.type : "application/octet-stream";
    return fetch("predict", { method: "POST", body: file, headers: { "content-type": kind } });
  }
  const body = JSON.stringify(
    $("text") ? { text: $("text").value } : { features: JSON.parse($("features").value) },
  );
  return fetch("predict", { method: "POST", body, headers: { "content-type": "application/json" } });
}

$("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("trouble").hidden = true;
  $("result").hidden = true;
  try {
    const reply = await ask();
    const answer = await reply.json();
    if (!reply.ok) throw new Error(answer.error);
    show(answer);
    $("result").hidden = false;
  } catch (error) {
    $("trouble").textContent = error.message;
    $("trouble").hidden = false;
  }
});
