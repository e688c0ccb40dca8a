"""A leaderboard: one page of methods x data sets x heads, from the folders of comparisons.

The comparisons may be anybody's: their `results.json` is read as data, and nothing in it is run. A
cell is the mean test mAP of a row of a comparison, with a 95 % interval of that mean over its runs
(Student's t). Figures of different comparisons stand side by side and are not ranked among each
other unless data, mode, head, protocol and observed labels are the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from plusone.compare.documents import Bench
from plusone.compare.results_table import spread, table_notes
from plusone.compare.rows import Row
from plusone.errors import InputError
from plusone.io.files import write_text
from plusone.report.blocks import Cell, Code, Facts, Section, Table
from plusone.report.material import folders, read_documents
from plusone.report.page import render

LEVEL = 0.95
PAGE = "index.html"
DEVIATION = "± is the standard deviation"  # in the notes of a table; here ± is the interval
NONE = "–"
UNKNOWN = "not recorded"  # by earlier versions


@dataclass(frozen=True)
class Board:
    """The rows that may be ranked among each other, and the comparisons they come from.

    Args:
        data: Name of the data set.
        mode: How models were trained.
        head: What was trained on features.
        protocol: What the rows share.
        labels: Digests of the observed labels of the runs.
        places: The row of each comparison, by method as papers write it.
        names_labels: Whether its name says which labels were observed: that of another board
            differs in nothing else.
    """

    data: str
    mode: str
    head: str
    protocol: str
    labels: str
    places: dict[str, list[tuple[int, Row]]]
    names_labels: bool = False

    @property
    def name(self) -> str:
        """Data set, how models were trained where that is no linear layer, head and protocol."""
        mode = [] if self.mode == "linear" else [self.mode]
        first = self.labels.partition(",")[0]
        labels = [f"labels {first}"] if self.names_labels else []
        return ", ".join([self.data, *mode, self.head, self.protocol, *labels])

    @property
    def best(self) -> Row | None:
        """The best of several methods that see single positives."""
        rivals = [row for each in self.places.values() for _, row in each if row.competes]
        return max(rivals, key=lambda row: row.score) if len(rivals) > 1 else None


def find_benches(places: Sequence[Path]) -> list[tuple[Path, Bench]]:
    """The comparisons in or below some folders."""
    return [
        (folder, document)
        for folder in folders(places)
        for document in read_documents(folder)
        if isinstance(document, Bench)
    ]


def half_interval(row: Row) -> float | None:
    """Half of the 95 % interval of the mean test mAP over runs.

    None with one run, and where runs do not differ: a closed form without draws of labels.

    >>> row = Row(data="d", method="an", val_map=0, test_map=0.5, test_sd=0.01, seeds=4)
    >>> round(half_interval(row), 4)
    0.0159
    """
    from scipy.stats import t  # type: ignore[import-untyped, unused-ignore]

    if row.test_map is None or not row.test_sd or row.seeds < 2:
        return None
    return float(t.ppf((1 + LEVEL) / 2, row.seeds - 1)) * row.test_sd / math.sqrt(row.seeds)


def boards_of(benches: Sequence[tuple[Path, Bench]]) -> list[Board]:
    """The boards of all comparisons, in order of appearance."""
    boards: dict[tuple[str, ...], Board] = {}
    for number, (_, bench) in enumerate(benches, start=1):
        drawn = {(row.data, row.mode): row.digests for row in bench.rows if row.competes}
        for row in bench.rows:
            labels = ", ".join(text[:8] for text in drawn.get((row.data, row.mode), row.digests))
            head, protocol = row.head or UNKNOWN, row.protocol or UNKNOWN
            same = Board(row.data, row.mode, head, protocol, labels, {})
            board = boards.setdefault((row.data, row.mode, head, protocol, labels), same)
            board.places.setdefault(row.paper_name, []).append((number, row))
    counts = Counter(board.name for board in boards.values())
    return [replace(board, names_labels=counts[board.name] > 1) for board in boards.values()]


def write_leaderboard(places: Sequence[Path], out: Path, title: str) -> tuple[Path, list[Board]]:
    """Writes the page into a folder; returns its path and what it shows.

    Raises:
        InputError: There is no finished comparison.
    """
    benches = find_benches(places)
    if not benches:
        raise InputError(
            f"{', '.join(map(str, places))}: holds no finished comparison; plusone bench makes one"
        )
    boards = boards_of(benches)
    sections = [_overview(boards), *_sections(boards), _sources(benches)]
    page = out / PAGE
    write_text(page, render(title, sections))
    return page, boards


def _overview(boards: Sequence[Board]) -> Section:
    """All methods x all boards: the best figure of each."""
    names = dict.fromkeys(name for board in boards for name in board.places)
    rows = []
    for name in names:
        cells = [Cell(name)]
        for board in boards:
            rows_here = [row for _, row in board.places.get(name, [])]
            best = max(rows_here, key=lambda row: row.score, default=None)
            cells.append(Cell(NONE) if best is None else _score(best, board))
        rows.append(tuple(cells))
    columns = [("method", "")]
    columns += [(board.name, _where(board)) for board in boards]
    table = Table("mAP in per cent ± half its 95 % interval", tuple(columns), tuple(rows))
    return Section(
        "summary",
        "All methods",
        "A column per data set, head, protocol and draw of labels. Figures of a column may be "
        "ranked, those of different columns not. Columns can be sorted.",
        (table,),
    )


def _sections(boards: Sequence[Board]) -> Iterator[Section]:
    for number, board in enumerate(boards, start=1):
        lines = [(name, *place) for name, each in board.places.items() for place in each]
        lines.sort(key=lambda line: (not line[2].competes, -line[2].score))
        table = Table(
            "mAP in per cent ± half its 95 % interval",
            (
                ("method", ""),
                ("mAP", "mean over the runs, and the interval of that mean by Student's t"),
                ("runs", "seeds, or draws of labels"),
                ("items", "that were learned from"),
                ("searched", "learning rates and options tried"),
                ("lr", "chosen learning rate"),
                ("from", "number of the comparison, in the list below"),
            ),
            tuple(_line(name, source, row, board) for name, source, row in lines),
            notes=tuple(
                f"{note[0].upper()}{note[1:]}.".replace(DEVIATION, "The interval is")
                for note in table_notes([line[2] for line in lines])
            ),
            words=("searched",),
            quiet=frozenset(i for i, (_, _, row) in enumerate(lines) if not row.competes),
        )
        yield Section(f"board-{number}", board.name, _where(board), (table,))


def _line(name: str, source: int, row: Row, board: Board) -> tuple[Cell, ...]:
    return (
        Cell(name, strong=row is board.best, hint="" if row.competes else "saw more labels"),
        _score(row, board),
        Cell(str(row.seeds), row.seeds),
        Cell(NONE) if row.learned is None else Cell(f"{row.learned:,}", row.learned),
        Cell(row.searched or NONE),
        Cell(NONE) if row.solved or row.lr is None else Cell(f"{row.lr:.3g}", row.lr),
        Cell(str(source), source),
    )


def _score(row: Row, board: Board) -> Cell:
    return Cell(spread(row.score, half_interval(row)), row.score, strong=row is board.best)


def _where(board: Board) -> str:
    labels = f"; digests of the observed labels {board.labels}" if board.labels else ""
    return f"{board.data}, {board.mode}, head {board.head}, protocol {board.protocol}{labels}"


def _sources(benches: Sequence[tuple[Path, Bench]]) -> Section:
    """What each comparison was: command, version, seeds, date."""
    blocks: list[Facts | Code] = []
    for number, (folder, bench) in enumerate(benches, start=1):
        seeds = ", ".join(map(str, bench.settings.seeds)) or NONE
        facts = (
            (f"comparison {number}", f"{bench.title} ({folder.name})"),
            ("seeds", seeds),
            ("made by", f"plusone {bench.version or NONE}, {bench.date or NONE}"),
            ("settings", bench.settings.rule or NONE),
        )
        blocks += [Facts(facts), Code("To repeat it", bench.command)]
    return Section(
        "comparisons",
        "Comparisons",
        "Each was made by the command below it; its bench.toml repeats it.",
        tuple(blocks),
    )
