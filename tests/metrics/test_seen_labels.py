"""The table of scores."""

import math

import numpy as np
import pytest

from plusone.errors import InputError
from plusone.metrics.seen_labels import DEFAULT, SCORES, get_score, score_name
from plusone.recipe import Recipe, make_recipe


@pytest.mark.parametrize("name", SCORES)
def test_every_score_is_higher_for_better_models(name):
    rng = np.random.default_rng(0)
    truth = rng.random((400, 6)) < 0.3
    truth[~truth.any(1), 0] = True
    seen = np.zeros(truth.shape, dtype=np.int8)
    for row, labels in enumerate(truth):
        seen[row, rng.choice(np.flatnonzero(labels))] = 1
    noise = rng.normal(size=truth.shape)
    values = [
        get_score(name).function(1 / (1 + np.exp(-(4 * truth - 2 + spread * noise))), seen)
        for spread in (0.1, 2.0, 8.0)
    ]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 3
    assert all(map(math.isfinite, values))


def test_names():
    assert score_name("auto") == DEFAULT
    assert get_score("auto") is SCORES[DEFAULT]
    with pytest.raises(InputError, match="did you mean 'seen_auc'"):
        score_name("seen-auc")


def test_a_recipe_refuses_unknown_scores():
    assert Recipe().select_by == "auto"
    assert make_recipe({"select_by": "seen_map"}).select_by == "seen_map"
    with pytest.raises(InputError, match=r"^recipe: select_by = 'best': unknown selection score"):
        make_recipe({"select_by": "best"})
