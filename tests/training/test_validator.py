"""How epochs are validatord: on all labels by mAP, on seen labels by a selection score."""

import dataclasses

import numpy as np
import pytest
import torch

from plusone.errors import InputError
from plusone.metrics import mean_average_precision
from plusone.metrics.seen_labels import DEFAULT, SCORES
from plusone.recipe import Recipe
from plusone.training.task import make_task
from plusone.training.trainer import Validator


@pytest.fixture
def val(feature_data):
    return make_task(feature_data(), Recipe(method="an")).val


@pytest.fixture
def found(val):
    return torch.from_numpy(np.random.default_rng(0).random((len(val), 4)))


def test_all_labels_are_validatord_by_map(val, found):
    validator = Validator(val, Recipe(select_by="pick_likelihood"))
    said = validator(found)
    assert (validator.selected_on, validator.selected_by) == ("truth", "map")
    assert said.score == said.val_map == mean_average_precision(found, val.truth.dense() == 1)


@pytest.mark.parametrize("name", ["auto", *SCORES])
def test_seen_labels_are_validatord_by_a_score(val, found, name):
    validator = Validator(val, Recipe(select_on="observed", select_by=name))
    said, seen = validator(found), val.observed.dense()
    assert validator.selected_on == "observed"
    assert validator.selected_by == (DEFAULT if name == "auto" else name)
    assert said.score == SCORES[validator.selected_by].function(found, seen)
    assert said.val_map == mean_average_precision(found, seen == 1)


def test_what_cannot_be_validatord_is_refused(val):
    blind = dataclasses.replace(val, truth=None)
    assert Validator(blind, Recipe()).selected_on == "observed"
    with pytest.raises(InputError, match="select_on = 'truth' needs"):
        Validator(blind, Recipe(select_on="truth"))
    nothing = type(val.observed).from_dense(np.zeros((len(val), 4), dtype=np.int8), default=0)
    with pytest.raises(InputError, match="no validation item has a positive label"):
        Validator(dataclasses.replace(blind, observed=nothing), Recipe())
