"""Large data: features that stay in their files, stated samples, bounded memory."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from plusone import fit
from plusone.data.dataset import Dataset
from plusone.data.lazy import LazyArray
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.inputs import sampling as _sampling
from plusone.inputs import task
from plusone.inputs.loader import ArrayInputs, MappedInputs, SomeInputs
from plusone.inputs.sampling import blockwise, sample
from plusone.parallel.division import Share
from plusone.recipe import Recipe
from plusone.training import summary
from plusone.training.closed_fit import fit_for

N, L, D = 600, 8, 12


def small(tmp_path: Path, dtype: str = "float16") -> Dataset:
    draw = np.random.default_rng(0)
    truth = draw.random((N, L)) < 0.3
    truth[truth.sum(1) == 0, 0] = True
    x = (draw.normal(size=(N, D)) + truth @ draw.normal(size=(L, D))).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    matrix = LabelMatrix.from_dense(truth.astype(np.int8), default=-1)
    split = np.repeat(["train", "test"], [500, 100])
    table = LabelTable.complete([f"i{i}" for i in range(N)], list("abcdefgh"), matrix, split=split)
    return Dataset(table, np.load(tmp_path / "x.npy", mmap_mode="r"), "small")


@pytest.mark.parametrize(
    ("method", "dtype"),
    [("an", "float16"), ("an", "float32"), ("role", "float16"), ("lasd", "float16")],
)
def test_mapped_features_train_to_the_same_bits(tmp_path, monkeypatch, method, dtype) -> None:
    data = small(tmp_path, dtype)
    settings = {"epochs": 2, "batch_size": 32, "lr": 1e-2, "expected_positives": 2.0}
    held = fit(data, method, **settings)
    monkeypatch.setattr(task, "LARGE", 1)
    mapped = fit(data, method, **settings)
    assert isinstance(held.training.task.train.inputs, ArrayInputs)
    assert isinstance(mapped.training.task.train.inputs, MappedInputs)
    for key, value in held.training.model.state_dict().items():
        assert torch.equal(value, mapped.training.model.state_dict()[key]), key
    one, other = (dict(run.metrics, seconds=0) for run in (held, mapped))
    assert one == other
    assert np.array_equal(held.predict(data.features), mapped.predict(data.features))


def test_k_is_estimated_alike(tmp_path, monkeypatch) -> None:
    data = small(tmp_path)
    recipe = Recipe(method="epr", expected_positives="estimate", epochs=1)
    held = fit_for(task.make_task(data, recipe), recipe).k
    monkeypatch.setattr(task, "LARGE", 1)
    monkeypatch.setattr("plusone.training.expected._estimates", {})
    assert fit_for(task.make_task(data, recipe), recipe).k == held


@pytest.mark.parametrize("share", [Share(), Share(0, 2), Share(1, 2)])
def test_batches_of_mapped_and_of_some_inputs(share) -> None:
    x = np.random.default_rng(0).normal(size=(37, 5)).astype(np.float16)
    order = torch.randperm(37, generator=torch.Generator().manual_seed(0))
    wanted = (order, 8, ("weak", "strong"), 0, share)
    plain = list(ArrayInputs(torch.from_numpy(x)).batches(*wanted))
    mapped = list(MappedInputs(LazyArray([x])).batches(*wanted))
    back = torch.argsort(order)
    turned = ArrayInputs(torch.from_numpy(x)[order])
    some = list(SomeInputs(turned, back).batches(*wanted))
    assert len(plain) == len(mapped) == len(some)
    for batches in zip(plain, mapped, some, strict=True):
        for views in zip(*batches, strict=True):
            assert views[0].dtype == views[1].dtype == torch.float32
            assert torch.equal(views[0], views[1])
            assert torch.equal(views[0], views[2])


def test_samples_are_ascending_and_always_the_same() -> None:
    assert sample(1000, 100, 100_000) is None
    rows = sample(5000, 100, 200_000)
    assert rows is not None
    assert rows.tolist() == sample(5000, 100, 200_000).tolist() == sorted(set(rows.tolist()))
    assert len(rows) == 2000
    assert len(sample(5000, 10**6, 10)) == _sampling.SMALLEST_SAMPLE


def test_blocks_give_what_one_call_gives(monkeypatch) -> None:
    monkeypatch.setitem(_sampling.ROWS, "features", 7)
    table = torch.rand(50, 3)
    rows = torch.randperm(50)[:40]
    calls = []

    def predict(some: torch.Tensor) -> torch.Tensor:
        calls.append(len(some))
        return table[some]

    assert torch.equal(blockwise(rows, 3, predict), table[rows])
    assert calls == [7, 7, 7, 7, 7, 5]


def test_figures_of_a_sample_say_so(tmp_path, monkeypatch) -> None:
    data = small(tmp_path)
    whole = fit(data, "role", epochs=2, expected_positives=2.0)
    assert "sampled" not in whole.metrics
    monkeypatch.setattr(_sampling, "SMALLEST_SAMPLE", 10)
    monkeypatch.setattr(task, "VALIDATION_LABELS", 60 * L)
    monkeypatch.setattr(summary, "TEST_LABELS", 50 * L)
    monkeypatch.setattr(summary, "RECOVERY_LABELS", 40 * L)
    some = fit(data, "role", epochs=2, expected_positives=2.0)
    assert some.metrics["sampled"] == {
        "val": {"items": 60, "of": 100},
        "test": {"items": 50, "of": 100},
        "recovery": {"items": 40, "of": 400},
    }
    assert some.metrics["items"] == {"train": 400, "val": 60, "test": 100}
    # The training saw all items, and the figures are those of the sampled ones.
    rows = torch.from_numpy(sample(400, L, 40 * L))
    train = some.training.task.train
    assert torch.equal(some.training.method.estimates(rows), some.training.method.estimates()[rows])
    scores = some.training.predict(train)[rows]
    found = summary.evaluate_recovery(
        scores, train.truth.dense(rows) == 1, train.observed.dense(rows)
    )
    assert some.metrics["recovery"]["recovery_map"] == pytest.approx(found["recovery_map"])
    assert some.metrics["recovery"]["hidden_positives"] == found["hidden_positives"]


SCRIPT = """
import re, sys
from pathlib import Path
import numpy as np, torch
from plusone.cli.app import main
from plusone.inputs import task
from plusone.training import summary
torch.set_num_threads(1)
task.LARGE = 1
task.VALIDATION_LABELS = summary.RECOVERY_LABELS = summary.TEST_LABELS = 1 << 21
before = re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
sys.argv = ["plusone", *sys.argv[1:]]
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(before, peak, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_no_table_of_all_labels_is_made(tmp_path: Path) -> None:
    """100,000 x 1,000 labels: one float table of them would add 400 MB."""
    n, n_classes, dim = 100_000, 1000, 16
    draw = np.random.default_rng(0)
    places = np.unique(np.repeat(np.arange(n), 2) * n_classes + draw.integers(0, n_classes, 2 * n))
    truth = LabelMatrix.from_entries(
        places // n_classes, places % n_classes, 1, (n, n_classes), default=-1
    )
    ids = np.char.add("i", np.arange(n).astype(np.str_))
    split = np.repeat(["train", "test"], [n - 10_000, 10_000])
    from plusone.data.formats import write

    names = [f"c{number}" for number in range(n_classes)]
    write(LabelTable.complete(ids, names, truth, split=split), tmp_path / "labels.npz")
    np.save(tmp_path / "x.npy", draw.normal(size=(n, dim)).astype(np.float16))
    turned = ids[::-1]  # another order than the labels: rows are looked up
    (tmp_path / "x.ids.txt").write_text("\n".join(turned.tolist()))
    command = [sys.executable, "-c", SCRIPT, "train", str(tmp_path / "labels.npz")]
    command += ["-x", str(tmp_path / "x.npy"), "-m", "an", "--epochs", "1", "--batch-size", "2048"]
    command += ["--observe", "single('fast')", "--out", str(tmp_path / "run"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(r"(\d+) (\d+)\s*$", done.stderr)
    assert found is not None
    before, peak = (int(value) / 1024 for value in found.groups())
    assert json.loads(done.stdout)["sampled"]["recovery"]["of"] == 72_000
    assert peak < before + 600, f"{before:.0f} MB after importing, at most {peak:.0f} MB"


TABLES = """
import re, sys
from pathlib import Path
import numpy as np
import torch
from plusone.data.matrix import LabelMatrix
from plusone.methods import recovery
from plusone.closed_form import recover, ridge
from plusone.closed_form.folds import fold_of
from plusone.closed_form.kernel import LinearMap
from plusone.types import TrainLabels

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

n, n_classes = int(sys.argv[1]), 300
recovery.KEPT = 0
recover.LEARNED = recover.SEARCHED = ridge.COMPARED = 100 * n_classes
ridge.LABELS = 200 * n_classes  # blocks of the same size for any number of folds
draw = np.random.default_rng(0)
seen = LabelMatrix.from_lists(draw.integers(n_classes, size=(n, 1)).tolist(), n_classes)
vectors = LinearMap(16).fit(torch.from_numpy(draw.normal(size=(n, 16)).astype(np.float32)))
method = recovery.Recovery(TrainLabels(seen), recovery.RecoveryOptions(rounds=2))
before = peak()
solution = method.solve(ridge.Ridge(vectors, folds=fold_of(n, 400)), seen)
solution.left_out(torch.arange(100))
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_recovery_keeps_no_table_of_items_and_classes() -> None:
    freed_at_once = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536"}  # by the C library
    small, large = (
        int(subprocess.check_output([sys.executable, "-c", TABLES, str(n)], env=freed_at_once))
        for n in (5_000, 50_000)
    )
    assert (large - small) * 1024 < 0.5 * 45_000 * 300 * 4  # less than half of one such table
