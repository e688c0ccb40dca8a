"""Sentence encoders on the descriptions of Debian's packages: test mAP, speed and size.

    python benchmarks/texts.py make Packages.xz Translation-en.xz -o debian.csv
    python benchmarks/texts.py compare debian.csv

The two files are those of a Debian mirror, `dists/bookworm/main/binary-amd64/Packages.xz` and
`dists/bookworm/main/i18n/Translation-en.xz`. A text is the English description of a program, one
for each source package; its labels are its tags of the facets field, use and works-with, which
people gave. The programs are divided at random, 70 % for training, 10 % for validation.

`compare` encodes all texts by every encoder that is installed, hides all but one label of each
training item, and fits `recovery`; "all labels" is the same method with every label. TF-IDF is what
counting words gives, of the most frequent 2,000. Speeds are texts of the data per second of
processor time, on one thread. Means over draws of the seen labels.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from plusone.data.dataset import Dataset
from plusone.data.formats import read
from plusone.data.table import LabelTable
from plusone.data.text_encoder import ENCODERS, TextEncoder, is_installed, windows
from plusone.metrics import mean_average_precision
from plusone.training.api import fit

FACETS = ("field", "use", "works-with")
RARE = 60  # tags of fewer programs are left out
SPLITS = (("train", 0.7), ("val", 0.1), ("test", 0.2))
SEEDS = (1200, 1, 2)
WORDS = 2000
TIMED = 400  # texts
Vectors = Callable[[list[str]], np.ndarray]


def stanzas(path: Path) -> Iterator[dict[str, str]]:
    """The stanzas of one of Debian's index files, continued lines joined."""
    stanza: dict[str, str] = {}
    name = ""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            line = line.rstrip("\n")
            if not line:
                yield stanza
                stanza = {}
            elif line.startswith(" "):
                stanza[name] += "\n" + ("" if line == " ." else line[1:])
            else:
                name, _, value = line.partition(":")
                stanza[name] = value.strip()
    if stanza:
        yield stanza


def make(packages: Path, descriptions: Path, out: Path) -> None:
    """Writes the programs as a CSV with the columns id, text, labels and split."""
    texts = {one["Package"]: one["Description-en"] for one in stanzas(descriptions)}
    programs: dict[str, tuple[str, list[str]]] = {}
    for one in stanzas(packages):
        name, tags = one["Package"], [tag.strip() for tag in one.get("Tag", "").split(",")]
        source = one.get("Source", name).split()[0]
        own = [tag for tag in tags if tag.split("::")[0] in FACETS and not tag.endswith("TODO")]
        first = source not in programs or name == source
        if own and "role::program" in tags and name in texts and first:
            programs[source] = (name, own)
    counts = Counter(tag for _, own in programs.values() for tag in own)
    rows = []
    for name, own in sorted(programs.values()):
        if kept := [tag for tag in own if counts[tag] >= RARE]:
            rows.append((name, texts[name], "|".join(kept)))
    names, shares = zip(*SPLITS, strict=True)
    splits = np.random.default_rng(0).choice(names, size=len(rows), p=shares)
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("id", "text", "labels", "split"))
        writer.writerows((*row, split) for row, split in zip(rows, splits, strict=True))


def tf_idf(train: list[str]) -> Vectors:
    """Weighted counts of the words that are most frequent in some texts."""
    words = TfidfVectorizer(max_features=WORDS, sublinear_tf=True, stop_words="english").fit(train)
    return lambda texts: words.transform(texts).toarray().astype(np.float32)


def first_windows(encoder: TextEncoder) -> Vectors:
    """Vectors of the beginnings of texts only."""
    return lambda texts: encoder([windows(text)[0] for text in texts])


def scores(table: LabelTable, x: np.ndarray, observe: str, seed: int) -> float:
    """Test mAP of `recovery`, in percent."""
    fitted = fit(Dataset(table, x), method="recovery", observe=observe, observe_seed=seed)
    test = table.rows_of("test")
    truth = (table.truth.take(test).dense() == 1).astype(np.int8)
    return 100 * mean_average_precision(fitted.predict(x[test]), truth, empty="zero")


def main() -> None:
    """Parses the command line and runs one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    maker = commands.add_parser("make", help="write the data")
    maker.add_argument("packages", type=Path)
    maker.add_argument("descriptions", type=Path)
    maker.add_argument("-o", "--out", type=Path, default=Path("debian.csv"))
    comparer = commands.add_parser("compare", help="measure the encoders")
    comparer.add_argument("data", type=Path)
    comparer.add_argument("--draws", type=int, default=len(SEEDS))
    comparer.add_argument("--arms", nargs="*", help='only these, such as "minilm"')
    given = parser.parse_args()
    if given.command == "make":
        make(given.packages, given.descriptions, given.out)
        return
    table = read(given.data, labels="complete").table
    texts = list(table.texts or ())
    arms: dict[str, Callable[[], Vectors]] = {
        "tf-idf": lambda: tf_idf([texts[row] for row in table.rows_of("train")])
    }
    for name in filter(is_installed, ENCODERS):
        arms[name] = lambda name=name: TextEncoder(name)
        arms[f"{name}, first window"] = lambda name=name: first_windows(TextEncoder(name))
    counts = [
        int(value) for value in (len(table), *map(len, map(table.rows_of, ("train", "test"))))
    ]
    print(json.dumps({"items, train, test": counts, "classes": len(table.classes)}))
    for name in given.arms or arms:
        load = arms[name]
        started = time.perf_counter()
        encode = load()
        loaded = time.perf_counter() - started
        encode(texts[:2])
        started = time.process_time()
        encode(texts[:TIMED])
        speed = TIMED / (time.process_time() - started)
        x = encode(texts)
        single = [scores(table, x, "single", seed) for seed in SEEDS[: given.draws]]
        row = {
            "arm": name, "width": x.shape[1], "texts per second": round(speed),
            "seconds to load": round(loaded, 2), "draws": [round(value, 2) for value in single],
            "recovery": round(float(np.mean(single)), 2),
            "all labels": round(scores(table, x, "all", SEEDS[0]), 2),
        }  # fmt: skip
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
