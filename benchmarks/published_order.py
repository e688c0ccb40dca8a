"""How far the order of methods in a comparison agrees with that of published tables.

    python benchmarks/published_order.py BENCH [--out FILE]

BENCH is a folder of `plusone bench`. For each paper's table and public data set: the rank
correlation (Spearman) of our test mAP with the published one, over the methods that both have.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from scipy.stats import spearmanr

from plusone.compare.reproduce import TABLES, figures_of
from plusone.io.files import write_text

SETS = ("voc", "coco", "nuswide", "cub")
TRAINED = ("finetune", "linear_init")  # modes of published figures that trained the backbone


def ours_of(folder: Path) -> dict[str, float]:
    """Method -> mean test mAP of its row in per cent."""
    rows = json.loads((folder / "results.json").read_text(encoding="utf-8"))["rows"]
    return {row["method"]: 100 * row["test_map"] for row in rows if row["test_map"] is not None}


def published(table: str, data: str) -> dict[str, float]:
    """Method -> published test mAP of its fine-tuned row."""
    found: dict[str, float] = {}
    for mode, rows in figures_of(table, data).items():
        if mode in TRAINED:
            found |= {name: getattr(figure, data) for name, figure in rows.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bench", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    ours = ours_of(args.bench)
    lines = [f"| table | {' | '.join(SETS)} |", "| --- |" + " --- |" * len(SETS)]
    for table in TABLES:
        cells = []
        for data in SETS:
            theirs = published(table, data)
            both = sorted(ours.keys() & theirs.keys())
            if len(both) < 4:
                cells.append("-")
                continue
            test = spearmanr([ours[name] for name in both], [theirs[name] for name in both])
            cells.append(f"{test.statistic:+.2f} of {len(both)}, p {test.pvalue:.2f}")
        if set(cells) != {"-"}:
            lines.append(f"| {table} | {' | '.join(cells)} |")
    text = "\n".join(lines)
    print(text)
    if args.out is not None:
        write_text(args.out, text + "\n")


if __name__ == "__main__":
    main()
