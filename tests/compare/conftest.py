"""Results as trainings give them, without the trainings."""

from __future__ import annotations

import numpy as np
import pytest

from plusone.compare import jobs as module


@pytest.fixture
def result():
    """`result("an", test=0.5)`: the result of a training."""

    def make(method="an", seed=0, lr=1e-3, val=0.5, test=0.5, **rest):
        options = rest.get("options", {})
        values = {
            "key": f"{rest.get('data', 'd')}-{method}-{seed}-{lr}-{options}-{rest.get('mode')}",
            "source": {"data": "/x/d.npz", "features": [], "format": "auto", "labels": "auto"},
            "stacked": 1,
            "method": method,
            "seed": seed,
            "val_map": val,
            "test_map": test,
            "best_epoch": 3,
            "seconds": 2.0 + seed,
            "data": "d",
            "lr": lr,
            "options": options,
            "mode": "linear",
            "k": None,
            "recipe": {"method": method, "seed": seed},
            "observation": {"scheme": "single(protocol='cole2021')", "seed": 1200, "digest": "ab"},
            "selected_on": "truth",
            "items": {"train": 80, "val": 20, "test": 30},
            "version": "1",
        }
        return module.JobResult.model_validate(values | rest)

    return make


@pytest.fixture
def arrays(tmp_path):
    """A small data set of feature vectors, with a test split."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5)).astype(np.float32)
    y = (x[:, :3] > 0).astype(np.int8)
    y[y.sum(axis=1) == 0, 0] = 1
    np.savez(tmp_path / "d.npz", xtr=x[:30], ytr=y[:30], xte=x[30:], yte=y[30:])
    return tmp_path / "d.npz"


@pytest.fixture
def trained(monkeypatch):
    """Trains in this process; lists the keys of the jobs that were trained."""
    keys = []

    def here(work, waiting, workers, name):
        while waiting:
            unit = waiting.popleft()
            outcome = work(unit)
            if isinstance(outcome, list):
                keys.extend(job.key for job in unit.jobs)
            yield outcome

    monkeypatch.setattr(module, "in_processes", here)
    return keys
