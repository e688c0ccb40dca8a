"""Which trainings go together."""

from __future__ import annotations

import pytest

from plusone.compare.jobs import (
    Failed,
    Job,
    Refused,
    Source,
    Unit,
    make_units,
    maybe_features,
    run_unit,
)
from plusone.recipe import make_recipe

FEATURES = Source("digits-features")


def jobs(source, methods=("an", "gr"), seeds=(0, 1), rates=(1e-2, 1e-3)):
    return [
        Job(source, make_recipe({"method": method, "seed": seed, "lr": lr, "epochs": 2}))
        for method in methods
        for lr in rates
        for seed in seeds
    ]


def sizes(units):
    return [len(unit.jobs) for unit in units]


def test_rates_and_seeds_go_together_on_features():
    made = jobs(FEATURES)
    units = make_units(made, 2)
    assert sizes(units) == [4, 4]
    assert [job for unit in units for job in unit.jobs] == made
    assert {job.recipe.method for job in units[0].jobs} == {"an"}


def test_other_settings_and_other_data_do_not():
    one = jobs(FEATURES, ["em"], [0, 1], [1e-3])
    other = [Job(FEATURES, make_recipe({"method": "em", "seed": 0, "options": {"alpha": 0.3}}))]
    elsewhere = jobs(Source("digits-features", labels="complete"), ["em"], [0, 1], [1e-3])
    assert sizes(make_units([*one, *other, *elsewhere], 1)) == [2, 1, 2]


def test_images_are_trained_one_by_one():
    assert sizes(make_units(jobs(Source("digits")), 2)) == [1] * 8


@pytest.mark.parametrize(
    ("workers", "expected"), [(1, [12]), (2, [6, 6]), (3, [3, 3, 6]), (20, [3] * 4), (0, [12])]
)
def test_groups_are_cut_only_to_keep_everybody_busy(workers, expected):
    assert sizes(make_units(jobs(FEATURES, ["an"], range(4), [1, 2, 3]), workers)) == expected


def test_nothing_to_do():
    assert make_units([], 2) == []


def test_what_may_be_features(tmp_path):
    assert maybe_features(Source("x.csv", ("f.npz",)))
    assert maybe_features(Source("yeast.NPZ"))
    assert not maybe_features(Source("digits"))
    assert not maybe_features(Source(str(tmp_path)))
    (tmp_path / "yeast.arff").touch()
    assert maybe_features(Source(str(tmp_path)))


def test_a_stack_gives_what_single_trainings_give(arrays):
    made = jobs(Source(str(arrays)), ["gr"])
    (unit,) = make_units(made, 1)
    stacked = run_unit(unit)
    assert [entry.stacked for entry in stacked] == [4] * 4
    for entry, job in zip(stacked, made, strict=True):
        (alone,) = run_unit(Unit((job,)))
        assert alone.stacked == 1
        assert entry.key == alone.key == job.key
        assert (entry.lr, entry.seed) == (job.recipe.lr, job.recipe.seed)
        assert entry.val_map == pytest.approx(alone.val_map, abs=1e-6)
        assert entry.test_ap == pytest.approx(alone.test_ap, abs=1e-6)
        assert len(entry.epochs) == 2


def test_what_cannot_be_stacked_says_why_and_is_cut_up(arrays):
    unit = Unit(tuple(jobs(Source(str(arrays)), ["role"], [0, 1], [1e-3])))
    refused = run_unit(unit)
    assert isinstance(refused, Refused)
    assert "parameters" in refused.why
    single = refused.unit.one_by_one(refused.why)
    assert sizes(single) == [1, 1]
    (entry,) = run_unit(single[0])
    assert (entry.alone, entry.stacked) == (refused.why, 1)


def test_names_for_messages():
    made = jobs(FEATURES, ["an"])
    assert Unit((made[0],)).name == "an, seed 0, lr 0.01"
    assert Unit(tuple(made)).name == "an, 4 trainings at once"


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_rates_of_a_seed_are_never_parted(workers):
    for unit in make_units(jobs(FEATURES, ["an"], range(3), [1, 2]), workers):
        for seed in unit.seeds:
            assert [job.recipe.lr for job in unit.jobs if job.recipe.seed == seed] == [1, 2]


@pytest.mark.slow
def test_a_training_that_diverges_harms_no_other():
    healthy, lost = jobs(FEATURES, ["an"], [0], [1e-3, 1e38])
    found = run_unit(Unit((healthy, lost)))
    assert isinstance(found, Refused)
    assert "lr 1e+38 and seed 0 is not finite" in found.why
    assert run_unit(Unit((healthy,)))[0].val_map > 0
    failed = run_unit(Unit((lost,)))
    assert isinstance(failed, Failed)
    assert "an, seed 0, lr 1e+38: a loss term of an is not finite" in failed.message
