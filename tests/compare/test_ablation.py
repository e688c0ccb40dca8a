"""Ablations: every row of the papers' tables, and what each of them really trains."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from plusone.compare import jobs as module
from plusone.compare.ablate import (
    parts_of,
    plan_part,
    run_ablation,
    summarise_ablation,
    write_ablation,
)
from plusone.data.matrix import LabelMatrix
from plusone.data.source import Source
from plusone.errors import InputError
from plusone.losses import assume_negative, entropy_maximization, reduce
from plusone.methods import METHODS, Part
from plusone.types import Batch, Clock, Outputs, TrainLabels

PAPER_ROWS = {
    "lasd": {"LASD Table 3, " + row for row in ("A by its figure", "B by its text", "C", "D")},
    "gr": {"GR Table 3, " + row for row in ("AN loss", *(f"row {n}" for n in range(1, 9)))},
    "lac": {f"LAC Table 3, row {n}" for n in range(1, 6)},
}


@pytest.fixture
def source(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(70, 5)).astype(np.float32)
    y = (x[:, :3] > 0).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    np.savez(tmp_path / "small.npz", xtr=x[:50], ytr=y[:50], xte=x[50:], yte=y[50:])
    return Source(str(tmp_path / "small.npz"))


def loss_of(method, options, epoch=0):
    """The loss of a pointwise method on fixed logits and labels."""
    logits = torch.linspace(-4, 4, 24).reshape(6, 4)
    seen = torch.zeros(6, 4)
    seen[torch.arange(6), torch.arange(6) % 4] = 1
    matrix = LabelMatrix.from_dense(seen.numpy().astype(np.int8))
    info = METHODS[method]
    built = info.build(TrainLabels(matrix, 1.5, 0), info.make_options(options))
    batch = Batch((logits,), seen, torch.arange(6))
    outs = (Outputs(logits, logits),)
    total = sum(built.loss(outs, batch, Clock(0, epoch, 10, 0, 1)).values())
    return total, (logits, seen)


@pytest.mark.parametrize("method", PAPER_ROWS)
def test_every_row_of_the_paper_is_there(method):
    paper_rows = {part.paper.split(", B by its figure")[0] for part in parts_of(method)}
    assert paper_rows >= PAPER_ROWS[method]


@pytest.mark.parametrize("method", [name for name, info in METHODS.items() if info.ablation])
def test_rows_are_possible_and_one_is_the_method_itself(method, source):
    parts = parts_of(method)
    assert sum(part.is_full for part in parts) == 1
    assert len({part.name for part in parts}) == len(parts)
    keys = {plan_part(part, method, source, [0], [None], {})[0].key for part in parts}
    assert len(keys) == len(parts)  # no two rows train the same


def test_parts_of_gr_that_are_off_leave_an():
    parts = {part.name: part.options for part in parts_of("gr")}
    off = dict(parts["v"]) | parts["khat"]  # neither khat, nor v, nor the robust losses
    for epoch in (0, 9):
        loss, (z, y) = loss_of("gr", off, epoch)
        torch.testing.assert_close(loss, reduce(assume_negative(z, y)), rtol=0.03, atol=0)
    # Each part changes something: first khat, then v, then the losses.
    alone = [loss_of("gr", parts[name], 9)[0] for name in ("khat", "v", "robust losses")]
    assert len({round(float(value), 4) for value in [loss, *alone]}) == 4


def test_parts_of_lasd_and_em_apl_are_other_methods():
    parts = {part.name: part.options for part in parts_of("lasd")}
    leverage = parts["leverage"] | {"lam_plus": 0.0}
    torch.testing.assert_close(
        loss_of("lasd", leverage)[0], loss_of("las", {"lam": 1 / (4 - 1.5)})[0]
    )
    em = next(part for part in parts_of("em_apl") if part.name == "EM")
    loss, (z, y) = loss_of("em_apl", em.options)
    torch.testing.assert_close(loss, reduce(entropy_maximization(z, y, alpha=0.2)))


def test_change_is_against_the_full_method(result):
    parts = [Part("less", {"a": 0}), Part("full"), Part("other", method="an")]
    results = [
        [result(test=0.5), result(test=0.7, seed=1)], [result(test=0.8)], [result(test=0.9)],
    ]  # fmt: skip
    rows = summarise_ablation(parts, results)
    assert [row.change for row in rows] == [pytest.approx(-0.2), 0.0, pytest.approx(0.1)]
    assert rows[0].test_sd == pytest.approx(0.02**0.5)
    untested = summarise_ablation(parts, [[result(test=None)]] * 3)
    assert [row.change for row in untested] == [None] * 3


def test_lasd_on_features_and_its_file(source, trained, tmp_path):
    def go():
        return run_ablation(
            source, "lasd", tmp_path, seeds=[0, 1], settings={"epochs": 2}, command="plusone ablate"
        )

    first = go()
    assert len(trained) == 10
    trained.clear()
    assert go() == first
    assert trained == []
    document = json.loads(write_ablation(first, tmp_path).read_text())
    assert (document["kind"], document["method"], document["data"]) == ("ablation", "lasd", "small")
    assert document["command"] == "plusone ablate"
    rows = {row["name"]: row for row in document["rows"]}
    assert list(rows) == [part.name for part in parts_of("lasd")]
    full = rows["leverage + disambiguation + consistency"]
    assert full["change"] == 0
    for row in rows.values():
        assert row["change"] == pytest.approx(row["test_map"] - full["test_map"])
        assert (row["seeds"], len(row["keys"])) == (2, 2)
    without = rows["leverage + disambiguation"]
    assert without["options"] == {"alpha": 0.0}
    assert without["test_map"] == pytest.approx(full["test_map"])  # as the note says
    assert "consistency is zero" in document["notes"][0]


def test_lac_end_to_end_is_another_training(source, trained, tmp_path):
    small = {"width": 8, "heads": 2, "feedforward": 8, "decoder_layers": 1, "projection": 4}
    done = run_ablation(
        source, "lac", tmp_path, seeds=[0], settings={"epochs": 1, "options": small}
    )
    assert len(done.rows) == len(trained) == 5
    stages = {
        json.dumps(entry.options, sort_keys=True): [set(record.losses) for record in entry.epochs]
        for entry in module.read_journal(tmp_path / "journal.jsonl")
    }
    with_contrast = [[("lac" in terms) for terms in course] for course in stages.values()]
    assert sorted(with_contrast) == [[False, False]] * 2 + [[False, True]] * 2 + [[True]]
    assert "apart from dropout" in done.notes[0]


def test_given_options_reach_the_rows_that_know_them(source):
    given = {"options": {"mu": 0.7, "q3": 1.5}}
    jobs = {
        part.name: plan_part(part, "gr", source, [0], [None], given)[0] for part in parts_of("gr")
    }
    assert jobs["khat + v + robust losses"].recipe.options == {"mu": 0.7, "q3": 1.5}
    assert jobs["khat + v"].recipe.options["q3"] == 0.01  # the row itself says so
    assert jobs["none: AN"].recipe.options == {}
    assert jobs["khat and v learned"].recipe.options == {"q3": 1.5}


@pytest.mark.parametrize(
    ("method", "settings", "sentence"),
    [
        ("em", {}, "em has no parts to switch off; methods: .*epr, "),
        ("grr", {}, "unknown method 'grr'; did you mean 'gr'"),
        ("lasd", {"options": {"beta": 1}}, "leverage: unknown method option 'beta'"),
    ],
)
def test_refused_before_anything_is_trained(source, trained, tmp_path, method, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        run_ablation(source, method, tmp_path / "a", settings=settings)
    assert trained == []
    assert not (tmp_path / "a").exists()
