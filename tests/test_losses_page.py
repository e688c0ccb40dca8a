"""docs/losses.md: its training loops run and learn; skipped for packages that are not installed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from plusone.metrics import mean_average_precision

PAGE = Path(__file__).parents[1] / "docs" / "losses.md"
SETUP, *LOOPS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.M)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["torch", "lightning", "transformers"])
def test_a_loop_learns_labels_that_were_not_seen(package, tmp_path, monkeypatch, capsys):
    pytest.importorskip(package, reason=f"{package} is not installed")
    (block,) = LOOPS[:1] if package == "torch" else [one for one in LOOPS if f"{package}" in one]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(SETUP, str(PAGE), "exec"), names)
    assert (names["y"].sum(dim=1) == 1).all()
    exec(compile(block, str(PAGE), "exec"), names)
    truth = names["truth"].numpy()
    untrained = torch.nn.Linear(16, 5)(names["x"]).detach().numpy()
    learned = mean_average_precision(names["scores"].numpy(), truth)
    assert learned > 0.9 > mean_average_precision(untrained, truth)
