from __future__ import annotations

import json

import pytest

from plusone.analysis.curves import learning_curves
from plusone.training.run_folder import read_metrics


def result(seed, values, **rest) -> dict:
    epochs = [
        {"stage": 0, "losses": {"loss": value}, "val_map": value, "probe": None} for value in values
    ]
    known = {"data": "d", "method": "an", "mode": "linear", "lr": 0.1, "options": {}}
    return known | {"seed": seed, "recipe": {"seed": seed}, "epochs": epochs} | rest


def test_mean_and_spread_over_seeds_that_got_there():
    one, two = learning_curves(
        [result(0, [0.1, 0.3, 0.5]), result(0, [0.9], lr=0.2), result(1, [0.3, 0.5])]
    )
    assert (one.lr, one.seeds, two.lr, two.seeds) == (0.1, 2, 0.2, 1)
    assert one.epochs == (1, 2, 3)
    assert one.reached == (2, 2, 1)
    assert one.val_map.mean == pytest.approx((0.2, 0.4, 0.5))
    assert one.val_map.sd[:2] == pytest.approx((0.02**0.5, 0.02**0.5))
    assert one.val_map.sd[2] is None
    assert one.distance.mean == (None, None, None)
    assert set(one.losses) == {"loss"}
    json.dumps(one.to_dict(), allow_nan=False)


def test_several_terms_have_a_total():
    both = {"stage": 1, "losses": {"a": 1.0, "b": 0.5}, "val_map": 0.1, "probe": None}
    (curve,) = learning_curves([result(0, [0.1]) | {"epochs": [both]}])
    assert curve.losses["total"].mean == (1.5,)
    assert curve.stage == (1,)


def test_a_run_folder_is_read(an_run):
    (curve,) = learning_curves([read_metrics(an_run).to_json()])
    assert len(curve.epochs) == 4
    assert curve.losses["loss"].mean[-1] < curve.losses["loss"].mean[0]
    assert curve.distance.mean[-1] > 0
    assert max(curve.val_map.mean) == read_metrics(an_run).to_json()["val_map"]
