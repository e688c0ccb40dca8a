"""The review page with many suggestions: how long a person waits.

Makes suggestions, serves them as `plusone review` does, and asks as its page asks. Prints a table.

    python benchmarks/review.py [--suggestions 100000]
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import tempfile
import time
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import numpy as np

from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.reviewing import reviewed_table
from plusone.reviewing.opening import open_suggestions
from plusone.reviewing.questions import Selection
from plusone.reviewing.review_page import make_server
from plusone.suggestions import Suggestions, write_suggestions

PER_ITEM, CLASSES, REPEATS = 5, 200, 15
# What a person takes for at once, and what one waits for once, in milliseconds.
AT_ONCE, ONCE = 100.0, 2000.0


def make(count: int) -> Suggestions:
    items = count // PER_ITEM
    rng = np.random.default_rng(0)
    ids = np.array([f"photos/{row:07d}.jpg" for row in range(items)])
    names = tuple(f"class {label:03d}" for label in range(CLASSES))
    table = LabelTable(ids, names, LabelMatrix.from_lists([[0]] * items, CLASSES))
    first = rng.integers(0, CLASSES - 1, (items, 1))
    label = 1 + (first + 7 * np.arange(PER_ITEM)) % (CLASSES - 1)
    p = -np.sort(-rng.random((items, PER_ITEM)), axis=1)
    row = np.repeat(np.arange(items), PER_ITEM)
    scores = p.ravel().astype(np.float32)
    return Suggestions(table, row, label.ravel().astype(np.int32), scores, scores, {})


class Page:
    """Asks what the page asks, over one connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.to = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        self.headers = {"Origin": f"http://{parts.netloc}", "Content-Type": "application/json"}
        self.session = secrets.token_hex(16)
        self.to.request("GET", f"/?{parts.query}")
        reply = self.to.getresponse()
        self.place = reply.read().decode().partition("url=")[2].partition('/"')[0]
        self.headers["Cookie"] = str(reply.getheader("set-cookie")).partition(";")[0]

    def get(self, path: str) -> None:
        self.to.request("GET", self.place + path, headers=self.headers)
        assert self.to.getresponse().read()

    def post(self, path: str, **body: object) -> dict[str, object]:
        text = json.dumps({"session": self.session} | body)
        self.to.request("POST", self.place + path, text, self.headers)
        reply = self.to.getresponse()
        found: dict[str, object] = json.loads(reply.read())
        assert reply.status == 200, found
        return found

    def first_screen(self) -> None:
        self.get("/")
        for name in ("review.css", "items.js", "page.js", "labels.js", "zoom.js"):
            self.get(f"/static/{name}")
        self.post("/api/next")

    def answer(self) -> None:
        item = self.post("/api/next")
        for question in item["questions"]:  # type: ignore[attr-defined]
            said = {"row": item["row"], "label": question["label"], "action": "yes"}
            self.post("/api/answer", step=secrets.token_hex(16), answers=[said])


def seconds(act: object, repeats: int = REPEATS) -> float:
    """The median time of an act."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        act()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suggestions", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    count = args.suggestions
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_suggestions(make(count), folder)
        rows: list[tuple[str, float, float]] = []
        for order in ("item", "worth"):
            opened = seconds(
                lambda order=order: open_suggestions(folder, selection=Selection(order)), 3
            )
            rows.append((f"reading the folder, order {order}", opened, ONCE))
        desk = open_suggestions(folder, selection=Selection("worth"))
        server = make_server(desk, title="bench")
        thread = Thread(target=server.run, args=(600,), daemon=True)
        thread.start()
        page = Page(server.url)
        acts = {
            "first screen: page, style, scripts, item": page.first_screen,
            "a page of one class": lambda: page.post("/api/page", label=7),
            f"an item and its {PER_ITEM} answers, on the disk": page.answer,
        }
        rows += [(what, seconds(act), AT_ONCE) for what, act in acts.items()]
        made = seconds(lambda: reviewed_table(desk), 3)
        rows.append(("labels with the answers in them", made, ONCE))
        server.stop()
        thread.join()
    print(f"| with {count:,} suggestions | ms |\n| --- | ---: |")
    for what, took, _ in rows:
        print(f"| {what} | {1000 * took:.1f} |")
    ratios = [
        {
            "name": f"review, ms: {what}",
            "value": 1000 * took,
            "goal": goal,
            "kind": "at most",
            "detail": f"median, {count:,} suggestions",
        }
        for what, took, goal in rows
    ]
    if args.json:
        args.json.write_text(json.dumps({"ratios": ratios}, indent=2) + "\n")


if __name__ == "__main__":
    main()
