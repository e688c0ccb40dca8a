"""What the rows of a comparison share, what was searched, and what a table says of it."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from plusone.compare.bench import beyond, make_entries, run_bench
from plusone.compare.jobs import make_units, run_unit
from plusone.compare.protocol import unlike
from plusone.compare.results_files import write_outputs
from plusone.compare.results_table import table_notes
from plusone.compare.rows import summarise
from plusone.compare.spec import make_spec
from plusone.errors import RunError
from plusone.training.rates import rates_around

SETTINGS = {"epochs": 2}


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 6)).astype(np.float32)
    y = (x[:, :3] + 0.3 * rng.normal(size=(90, 3)) > 0).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    np.savez(tmp_path / "d.npz", xtr=x[:60], ytr=y[:60], xte=x[60:], yte=y[60:])
    return str(tmp_path / "d.npz")


def run(jobs):
    return [result for unit in _units(jobs) for result in unit]


def _units(jobs):
    done = {}
    for unit in make_units(jobs, 1):
        outcome = run_unit(unit)
        units = [unit] if isinstance(outcome, list) else unit.one_by_one("")
        for part in units:
            results = outcome if isinstance(outcome, list) else run_unit(part)
            done |= {result.key: result for result in results}
    yield [done[job.key] for job in jobs]


def spec(data, **values):
    given = {"methods": ["an", "recovery"], "seeds": [0], "settings": SETTINGS, "lr": [0.01]}
    return make_spec(given | values | {"data": [{"path": data}]}, source="s")


def test_all_rows_have_one_head_and_the_same_items(data, tmp_path):
    rows = run_bench(spec(data), tmp_path, run).summary.rows
    assert {(row.head, row.learned) for row in rows} == {("kernel", 48)}
    assert next(row.searched for row in rows if row.method == "recovery") == "leave-one-out"
    assert unlike(rows) is None
    rows = run_bench(spec(data, methods=["an", "em"]), tmp_path, run).summary.rows
    assert {row.head for row in rows} == {"linear"}
    rows = run_bench(spec(data, settings=SETTINGS | {"head": "linear"}), tmp_path, run).summary.rows
    assert {row.head for row in rows} == {"linear"}  # what the user gives comes first


def test_rows_that_differ_are_named_in_every_output(data, tmp_path):
    given = spec(data, protocol="product")
    bench = run_bench(given, tmp_path, run)
    assert {(row.head, row.learned) for row in bench.summary.rows} == {
        ("linear", 48), ("kernel", 60),
    }  # fmt: skip
    whole = write_outputs(
        tmp_path, given, bench.results, bench.summary, title="t", command="c", rule=bench.rule
    )
    assert whole["settings"]["protocol"] == "product"
    for name in ("table.md", "table.tex"):
        text = (tmp_path / name).read_text().lower()
        assert "protocol: product" in text
        assert "seen negatives are weighted" in text
        assert "rows differ in more than the method" in text
        assert "linear: an" in text
    with (tmp_path / "results.csv").open(newline="") as file:
        lines = {line["method"]: line for line in csv.DictReader(file)}
    assert (lines["an"]["protocol"], lines["an"]["head"]) == ("product", "linear")
    assert lines["recovery"]["learned"] == "60"
    assert "seen_negatives" not in json.loads(make_jobs_json(given))


def make_jobs_json(given):
    (entry, *_) = make_entries(given)
    return entry.jobs([{}], [0])[0].recipe.model_dump_json(exclude_defaults=True)


def test_without_rates_those_of_train_are_searched(data):
    given = {"lr": [], "rules": True, "methods": ["an", "role", "mime", "recovery"]}
    an, role, mime, recovery = make_entries(spec(data, **given))
    tried = [rate["lr"] for rate in an.rates(())]
    assert tried == rates_around(0.01)  # of the kernel head, which all rows have
    assert len(role.rates(())) == len(mime.rates(())) == 4
    assert recovery.rates(()) == [{}]
    an, role, mime, _ = make_entries(spec(data, protocol="product", **given))
    assert (len(an.rates(())), len(role.rates(())), len(mime.rates(()))) == (4, 1, 1)
    own = make_entries(spec(data, lr=[], rules=True, settings=SETTINGS | {"lr": 0.5}))[0]
    assert own.rates(()) == [{}]
    assert make_entries(spec(data, lr=[]))[0].rates(()) == [{}]  # a file without rules


def test_the_grid_grows_beyond_an_edge(result):
    """The best rate is 1: the search goes there and stops; a run beyond that fails ends it."""
    entry = make_entries(spec("digits", methods=["an"], seeds=[0, 1]))[0]
    grid = [{"lr": 0.01}, {"lr": 0.1}]

    def scored(jobs, highest=np.inf):
        if any(job.recipe.lr > highest for job in jobs):
            raise RunError("diverged")
        return [result(seed=j.recipe.seed, lr=j.recipe.lr, val=min(j.recipe.lr, 1)) for j in jobs]

    from plusone.compare.bench import search_rates

    (tried,) = search_rates([entry], [grid], [0, 1], scored, extend=True)
    assert [rate["lr"] for rate in tried] == [1.0, 10.0, 0.1, 0.01]
    (tried,) = search_rates([entry], [grid], [0, 1], lambda j: scored(j, 0.5), extend=True)
    assert [rate["lr"] for rate in tried] == [0.1, 0.01]
    (tried,) = search_rates([entry], [grid], [0, 1], scored, extend=False)
    assert [rate["lr"] for rate in tried] == [0.1, 0.01]
    assert beyond([{"lr": 0.01}, {"lr": 0.1}]) == {"lr": 0.001}


def test_edges_last_epochs_and_spreads_are_noted(result):
    epoch = {"stage": 0, "losses": {}, "val_map": 0.5, "selected_on": "truth", "best": True,
             "weights": "raw", "seconds": 1}  # fmt: skip
    epochs = {"epochs": [epoch | {"epoch": number} for number in (1, 2, 3)]}
    rows = summarise([result("an", seed, **epochs) for seed in (0, 1)]).rows
    notes = " ".join(table_notes(rows))
    assert "the best epoch is the last one" in notes
    assert "does not contain the draw of the observed labels" in notes
    rows = [row.model_copy(update={"at_edge": True, "head": "linear"}) for row in rows]
    assert "at the edge of those tried" in " ".join(table_notes(rows))
    seen = [{"scheme": "single", "seed": seed, "digest": str(seed)} for seed in (0, 1)]
    drawn = summarise([result("an", seed, observation=seen[seed]) for seed in (0, 1)]).rows
    assert len(drawn[0].digests) == 2
    assert "of the observed labels" in " ".join(table_notes(drawn))


def test_seeds_that_draw_labels_and_validation_items(data, tmp_path):
    """The spread of a closed form is 0 over seeds, and not over draws; the test is over draws."""
    given = {"seeds": [0, 1, 2], "methods": ["recovery", "ridge"]}
    fixed = run_bench(spec(data, **given), tmp_path, run)
    assert [row.test_sd for row in fixed.summary.rows] == [0, 0]
    assert all(row.p_seeds is None for row in fixed.summary.rows)
    drawn = run_bench(spec(data, draws=True, **given), tmp_path, run)
    assert [len(row.digests) for row in drawn.summary.rows] == [3, 3]
    assert all(row.test_sd > 0 for row in drawn.summary.rows)
    assert sum(row.p_seeds is not None for row in drawn.summary.rows) == 1
    first, other = (next(r for r in b.results if r.seed == 0) for b in (fixed, drawn))
    assert first.observation == other.observation  # seed 0 has the draw of the settings


def test_remarks_of_train_are_passed_on(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 24)).astype(np.float32)
    x[:, 0] *= 10_000
    y = np.eye(3, dtype=np.int8)[rng.integers(0, 2, 60)]
    y[::2, 0] = 1  # some items have two labels, so the table is complete
    np.savez(tmp_path / "d.npz", xtr=x[:50], ytr=y[:50], xte=x[50:], yte=y[50:])
    said: list[str] = []
    bench = run_bench(
        spec(str(tmp_path / "d.npz"), methods=["an"]), tmp_path, run, on_remark=said.append
    )
    assert any("some features are far larger than most" in text for text in said)
    assert any("no seen positive" in text for text in said)
    assert any("far larger" in text for text in bench.remarks["d"])
