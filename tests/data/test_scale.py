"""A million items with ten thousand classes, in less than a gigabyte: what a fifth of them adds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

N, L = 200_000, 10_000

WRITE = """
import numpy as np
from plusone.data.formats import write
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable

n, n_classes, path = {n}, {n_classes}, {path!r}
rng = np.random.default_rng(0)
parts = np.array_split(rng.permutation(n), 16)
ids = np.concatenate([np.array([f"img/{{i:07d}}.jpg" for i in part]) for part in parts])
labels = LabelMatrix.from_entries(np.arange(n), rng.integers(0, n_classes, n), 1, (n, n_classes))
classes = tuple(f"class {{i:05d}}" for i in range(n_classes))
write(LabelTable(ids, classes, labels), path)
"""

READ = """
import json, sys
import numpy as np
from plusone.data.formats import read
from plusone.data.inspect import summarise
from plusone.data.observation import observe_table
from plusone.data.table import hold_out_validation

def peak():
    # Not ru_maxrss: a child inherits that of the test process it was forked from.
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["VmHWM"].split()[0]) / 1024

before = peak()
table = read({path!r}, labels={labels!r}).table
assert table.labels.shape == ({n}, {n_classes})
if table.truth is not None:
    table = observe_table(table, "single")
table = hold_out_validation(table)
summary = summarise(table)
assert summary.rows_without_positive == 0
assert summary.splits == {{"train": {n} * 4 // 5, "val": {n} // 5}}
order = np.random.default_rng(0).permutation(table.rows_of("train"))
for start in range(0, 10_000, 256):
    batch = table.labels.dense(order[start : start + 256])
    assert batch.shape == (256, {n_classes})
assert "torch" not in sys.modules
print(json.dumps([before, peak()]))
"""


def run(code: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/status")
@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_a_million_items_stay_below_a_gigabyte(tmp_path: Path, suffix: str) -> None:
    path = str(tmp_path / f"big.{suffix}")
    run(WRITE.format(n=N, n_classes=L, path=path))
    for labels in ("auto", "complete"):
        found = run(READ.format(n=N, n_classes=L, path=path, labels=labels))
        before, peak = json.loads(found)
        assert before + 1_000_000 / N * (peak - before) < 1024, (labels, before, peak)
