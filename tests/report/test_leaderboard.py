"""The page of methods x data sets x heads, from the folders of comparisons."""

from __future__ import annotations

import json

import pytest

from plusone.errors import InputError
from plusone.report.leaderboard import boards_of, find_benches, half_interval, write_leaderboard


def row(method, score, **more):
    return {
        "data": "pets", "method": method, "mode": "linear", "val_map": score, "test_map": score,
        "lr": 0.01, "seeds": 4, "test_sd": 0.01, "head": "linear", "learned": 80,
        "searched": "lr: 4", "protocol": "papers", "digests": ["abcdefgh12"], "best": score > 0.6,
    } | more  # fmt: skip


@pytest.fixture
def benches(tmp_path):
    """Two comparisons of the same data; the second has another head for one method."""
    rows = [row("an", 0.5), row("em", 0.7), row("bce", 0.8, digests=["all"])]
    others = [row("gr", 0.6), row("recovery", 0.65, head="kernel", test_sd=0.0, seeds=4)]
    for name, each in (("own", rows), ("<b>others", others)):
        (tmp_path / name).mkdir()
        document = {
            "kind": "bench", "title": f"{name} & more", "command": f"plusone bench {name}",
            "version": "9.9", "date": "2026-01-01", "rows": each,
            "settings": {"rule": "by luck", "seeds": [0, 1, 2, 3]},
        }  # fmt: skip
        (tmp_path / name / "results.json").write_text(json.dumps(document))
    return tmp_path


def test_only_equals_share_a_column(benches, tmp_path):
    page, boards = write_leaderboard([benches], tmp_path / "site", "Ranks")
    found = {(board.head, board.labels): set(board.places) for board in boards}
    assert found == {
        ("linear", "abcdefgh"): {"AN", "EM", "BCE", "GR, paper"},
        ("kernel", "abcdefgh"): {"Recovery"},
    }
    text = page.read_text(encoding="utf-8")
    for words in (
        "plusone 9.9",
        "0, 1, 2, 3",
        "by luck",
        "&lt;b&gt;others &amp; more",
        "70.00 ± 1.59",
    ):
        assert words in text
    assert "<b>others" not in text
    assert text.count("http") == text.count("http-equiv")  # nothing is fetched


def test_columns_have_names_of_their_own(benches, tmp_path):
    rows = [row("an", 0.4, mode="finetune"), row("an", 0.3, digests=["other12345"])]
    document = {"kind": "bench", "title": "t", "command": "c", "rows": rows, "settings": {}}
    (tmp_path / "third").mkdir()
    document |= {"version": "9.9", "date": "2026-01-01"}
    (tmp_path / "third" / "results.json").write_text(json.dumps(document))
    _, boards = write_leaderboard([benches, tmp_path / "third"], tmp_path / "site", "Ranks")
    assert {board.name for board in boards} == {
        "pets, linear, papers, labels abcdefgh",
        "pets, linear, papers, labels other123",
        "pets, kernel, papers",
        "pets, finetune, linear, papers",
    }


def test_the_interval_is_of_the_mean_over_runs(benches):
    rows = {r.method: r for board in boards_of(find_benches([benches]))
            for each in board.places.values() for _, r in each}  # fmt: skip
    assert half_interval(rows["em"]) == pytest.approx(3.1824463 * 0.01 / 2)
    assert half_interval(rows["recovery"]) is None  # its runs are one and the same


def test_without_a_comparison(tmp_path):
    with pytest.raises(InputError, match="no finished comparison"):
        write_leaderboard([tmp_path], tmp_path / "site", "t")
