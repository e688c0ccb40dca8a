from __future__ import annotations

import pytest

from plusone.prediction.run_folder import read_metrics
from plusone.report.curves import learning_curves


def test_mean_and_sd_over_the_seeds_that_reached_the_epoch(result):
    one, two = learning_curves(
        [
            result(val_maps=[0.1, 0.3, 0.5], recipe={"seed": 0}),
            result(val_maps=[0.9], lr=0.2),
            result(seed=1, val_maps=[0.3, 0.5], recipe={"seed": 1}),
        ]
    )
    assert (one.lr, one.seeds, two.lr, two.seeds) == (0.1, 2, 0.2, 1)
    assert one.epochs == (1, 2, 3)
    assert one.reached == (2, 2, 1)
    assert one.val_map.mean == pytest.approx((0.2, 0.4, 0.5))
    assert one.val_map.sd[:2] == pytest.approx((0.02**0.5, 0.02**0.5))
    assert one.val_map.sd[2] is None
    assert one.distance.mean == (None, None, None)
    assert set(one.losses) == {"loss"}


def test_several_terms_have_a_total_where_all_are_finite(result, epoch):
    both = [epoch(stage=1, losses={"a": 1.0, "b": b}) for b in (0.5, None)]
    (curve,) = learning_curves([result(epochs=both)])
    assert curve.losses["total"].mean == (1.5, None)
    assert curve.stage == (1, 1)


def test_a_run_folder_is_read(an_run):
    (curve,) = learning_curves([read_metrics(an_run)])
    assert len(curve.epochs) == 4
    assert curve.losses["loss"].mean[-1] < curve.losses["loss"].mean[0]
    assert curve.distance.mean[-1] > 0
    assert max(curve.val_map.mean) == read_metrics(an_run).val_map
