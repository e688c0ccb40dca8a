"""From a comparison to its entries: order, settings, modes that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from plusone.compare.bench import make_entries
from plusone.compare.spec import make_spec
from plusone.errors import InputError
from plusone.methods import METHODS


def spec(**values):
    return make_spec({"data": [{"path": "digits"}], "methods": ["an", "gr"]} | values, source="s")


def test_data_then_modes_then_methods():
    blocks = [{"path": "digits"}, {"path": "digits", "name": "again", "labels": "complete"}]
    entries = make_entries(spec(data=blocks, modes=["linear", "finetune"]))
    assert [(entry.data, entry.mode, entry.method) for entry in entries] == [
        (name, mode, method)
        for name in (None, "again")
        for mode in ("linear", "finetune")
        for method in ("an", "gr")
    ]
    assert make_entries(spec())[0].mode == "auto"
    assert [entry.method for entry in make_entries(spec(methods=["all"]))] == list(METHODS)


def test_settings_of_data_and_method_are_laid_over_each_other():
    entries = make_entries(
        spec(
            data=[{"path": "digits", "settings": {"epochs": 4, "batch_size": 8}}],
            settings={"epochs": 3, "options": {}},
            method={"gr": {"lr": 0.5, "epochs": 5, "options": {"w": 3.0}}},
        )
    )
    recipes = [entry.jobs([{}, {"lr": 0.1}], [0])[1].recipe for entry in entries]
    assert [(r.epochs, r.batch_size, r.lr) for r in recipes] == [(4, 8, 0.1), (5, 8, 0.1)]
    assert entries[1].jobs([{}], [0])[0].recipe.lr == 0.5
    assert entries[1].options == {"w": 3.0}


@pytest.mark.parametrize("mode", ["finetune", "linear_init"])
def test_modes_that_need_images(arrays, tmp_path, mode):
    (tmp_path / "l.csv").write_text("image,a\nx,1\n")
    np.savez(tmp_path / "f.npz", x=np.zeros((1, 2)), ids=np.array(["x"]))
    for block in (
        {"path": "digits-features"},
        {"path": str(arrays)},
        {"path": str(tmp_path / "l.csv"), "features": [str(tmp_path / "f.npz")]},
    ):
        with pytest.raises(InputError, match=f"{block['path']}: has features but no .* {mode} "):
            make_entries(spec(data=[block], modes=["linear", mode]))
        assert make_entries(spec(data=[block], modes=["linear"]))


def test_unknown_methods_are_refused_wherever_they_are():
    with pytest.raises(InputError, match="unknown method 'grr'"):
        make_entries(spec(method={"grr": {}}))
    with pytest.raises(InputError, match="nowhere: no such file"):
        make_entries(spec(data=[{"path": "nowhere"}]))


def test_data_is_there_once():
    with pytest.raises(InputError, match="digits: is there twice"):
        make_entries(spec(data=[{"path": "digits"}, {"path": "digits", "name": "b"}]))


def test_all_beside_others_is_all():
    assert len(make_entries(spec(methods=["all", "an"]))) == len(METHODS)


def test_a_rate_of_the_method_is_not_searched():
    made = make_entries(spec(lr=[0.1, 0.2], method={"gr": {"lr": 0.5}}))
    assert [entry.rates((0.1, 0.2)) for entry in made] == [[{"lr": 0.1}, {"lr": 0.2}], [{}]]
    (job,) = made[1].jobs(made[1].rates((0.1, 0.2)), [0])
    assert job.recipe.lr == 0.5
