"""The cost model: how it grows, what it counts exactly, and how well it predicts."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from plusone.methods import METHODS
from plusone.recipe import Recipe
from plusone.training import cost
from plusone.training.cost import Data, Machine, Sizes, estimate
from plusone.training.probe import BackboneSpeed, Speeds, activation_bytes, measure_speeds

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SPEEDS = Speeds(product=8e10, copy=1.7e10, table=4e9, call=3.4e-6, fresh=1.5e9)
SIZES = Sizes(items=100_000, classes=100, width=512, batch=256, held_out=5_000, number=2)
MACHINE = Machine(SPEEDS, SPEEDS, cores=2, decode=500.0)
NET = BackboneSpeed("lite0", 224, 1280, 3_000_000, forward=30.0, train=10.0, activations=80_000_000)


GRADIENT = sorted(name for name, info in METHODS.items() if not info.closed_form)
SORTING = {name for name, own in cost.AFTER_TIME.items() if own.get("sorting")}


@pytest.mark.parametrize("method", sorted(set(GRADIENT) - SORTING - {"role"}))
def test_the_time_of_an_epoch_is_linear_in_the_items(method):
    one, ten = (
        cost.epoch_seconds(method, replace(SIZES, items=n), SPEEDS) for n in (256_000, 2_560_000)
    )
    assert ten == pytest.approx(10 * one)


def test_role_moves_all_rows_in_every_step():
    one, ten = (
        cost.step_terms(replace(SIZES, items=n), SPEEDS)["estimate"] for n in (256_000, 2_560_000)
    )
    assert ten == pytest.approx(100 * one)
    assert cost.TIME["role"]["estimate"] > 0


def test_a_machine_twice_as_fast_takes_half_the_time():
    faster = {name: 2 * getattr(SPEEDS, name) for name in ("product", "copy", "table", "fresh")}
    twice = Speeds(**faster, call=SPEEDS.call / 2)
    for method in ("gr", "en", "lac"):
        slow, fast = (cost.epoch_seconds(method, SIZES, speeds) for speeds in (SPEEDS, twice))
        assert fast == pytest.approx(slow / 2)
    slow, fast = (cost.closed_form_seconds(SIZES, speeds) for speeds in (SPEEDS, twice))
    assert fast == pytest.approx(slow / 2)


def test_larger_batches_save_calls_and_moves_of_the_weights_alone():
    small, large = (cost.step_terms(replace(SIZES, batch=b), SPEEDS) for b in (100, 1_000))
    assert small["calls"] == pytest.approx(10 * large["calls"])
    assert small["weights"] == pytest.approx(10 * large["weights"])
    assert small["products"] == large["products"]
    assert small["labels"] == large["labels"]


BYTES_PER_LABEL = {"gr": 0, "ll_cp": 2, "em_apl": 8, "en": 10, "role": 20}


@pytest.mark.parametrize("method", BYTES_PER_LABEL)
def test_bytes_of_what_a_method_keeps_per_label(method):
    """As docs/scale.md has them: what is kept, and the copy of the best epoch."""
    few, many = (
        cost.state_bytes(method, {}, replace(SIZES, items=n)) for n in (100_000, 1_100_000)
    )
    assert (many - few) / (1_000_000 * SIZES.classes) == pytest.approx(BYTES_PER_LABEL[method])


def test_the_factored_estimate_keeps_nothing_per_label():
    options = {"estimator": "factored"}
    few, many = (
        cost.state_bytes("role", options, replace(SIZES, items=n)) for n in (100_000, 1_100_000)
    )
    assert (many - few) / 1_000_000 == pytest.approx(3 * 4 * 65)  # rank 64 and a bias


def test_features_larger_than_the_limit_stay_on_disk():
    held = cost.memory_terms(replace(SIZES, items=500_000))["features"]
    assert held == 500_000 * 512 * (2 + 4)
    assert cost.memory_terms(replace(SIZES, items=600_000))["features"] == 0
    closed = cost.memory_terms(replace(SIZES, items=600_000), closed_form=True)
    assert closed["features"] == 600_000 * 512 * 4  # a closed form reads them


def test_a_closed_form_has_no_folds_where_it_leaves_one_out():
    ridge = replace(SIZES, rounds=0, folds=False)
    whole, alone = (cost.solution_terms(sizes, SPEEDS) for sizes in (SIZES, ridge))
    assert alone["search"] == 0
    assert alone["cubes"] == 0
    assert alone["products"] < whole["products"]


def test_decompositions_of_a_closed_form():
    """One for each gamma, one for the map, exact or not, and one for each fold."""
    for n, m in ((2_000, 2_000), (10_000, 3_000)):
        sizes, per_second = replace(SIZES, items=n), SPEEDS.product
        assert cost.map_terms(sizes, SPEEDS)["cubes"] * per_second == 3 * 1_500**3 + m**3
        assert cost.solution_terms(sizes, SPEEDS)["cubes"] * per_second == 5 * m**3
    linear = cost.map_terms(replace(SIZES, kernel=False), SPEEDS)
    assert linear["cubes"] * SPEEDS.product == 512**3


def test_only_large_tables_take_new_pages():
    small, large = (replace(SIZES, items=n) for n in (80_000, 90_000))  # 32 MB are between
    for terms in (cost.step_terms, cost.after_terms):
        assert terms(small, SPEEDS)["fresh"] == 0
        assert terms(large, SPEEDS)["fresh"] > 0


def test_fine_tuning_shares_the_cores_with_decoding_and_an_accelerator_does_not():
    data = Data(train=30_000, val=3_000, test=0, classes=20, size=224)
    recipe = Recipe(method="gr", mode="finetune", epochs=2, cache_mb=0, workers=2)
    (shared,) = estimate(recipe, data, replace(MACHINE, backbone=NET))
    network, decoding = 2 * (30_000 / 10 + 3_000 / 30), 2 * 33_000 / (2 * 500)
    assert shared.seconds == pytest.approx(network + decoding)
    (apart,) = estimate(recipe, data, replace(MACHINE, backbone=NET, on_cpu=False))
    assert apart.seconds == pytest.approx(max(network, decoding))
    assert apart.device_bytes > recipe.batch_size * NET.activations
    assert apart.bytes < shared.bytes


@pytest.mark.parametrize(
    ("method", "views", "more"), [("lac", 2, 0), ("en_cl", 2, 2), ("ignore", 2, 1)]
)
def test_views_and_passes_without_gradients_are_counted(method, views, more):
    """Two views, two outputs of a teacher, a second look."""
    data = Data(train=30_000, val=3_000, test=0, classes=20, size=224)
    one, own = (
        estimate(
            Recipe(method=name, mode="finetune", epochs=1), data, replace(MACHINE, backbone=NET)
        )
        for name in ("gr", method)
    )
    difference = 30_000 * ((views - 1) / NET.train + more / NET.forward)
    assert own[0].seconds - one[0].seconds == pytest.approx(difference)


def test_features_are_extracted_once_and_rates_are_tried():
    data = Data(train=4_000, val=1_000, test=1_000, classes=20, size=224)
    recipe = Recipe(method="gr", mode="linear", crops="five", workers=2)
    machine = replace(MACHINE, backbone=NET)
    parts = estimate(recipe, data, machine, rate_open=True)
    assert [part.what for part in parts] == [
        "features of the images", "trying learning rates", "25 epochs of the head",
    ]  # fmt: skip
    assert parts[0].seconds == pytest.approx(6_000 * 5 / 30 + 6_000 / (2 * 500))
    assert parts[1].seconds == pytest.approx(4 * parts[2].seconds)


def test_what_was_not_measured_is_not_estimated():
    data = Data(train=4_000, val=1_000, test=0, classes=20, size=224)
    (part,) = estimate(Recipe(method="gr", mode="finetune"), data, MACHINE)
    assert part.seconds is None


def test_the_probe_gives_speeds_of_this_machine():
    speeds = measure_speeds(seconds=0.05)
    assert 1e8 < speeds.product < 1e15
    assert 1e7 < speeds.copy < 1e14
    assert 1e-8 < speeds.call < 1e-2


def test_activations_are_what_autograd_keeps():
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 4 * 4, 5), torch.nn.Sigmoid())
    kept = activation_bytes(torch.nn.Sequential(_Floats(), net), 3, 4)
    assert kept == 4 * (3 * 4 * 4 + 5)  # the input of the layer, the output of the sigmoid


class _Floats(torch.nn.Module):
    def forward(self, images):
        return images.float()


@pytest.fixture(scope="module")
def benchmark():
    """benchmarks/cost.py, and its measured points."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("cost_benchmark", BENCHMARKS / "cost.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module, json.loads(module.POINTS.read_text(encoding="utf-8"))


def test_the_coefficients_are_those_that_fit_the_measured_points(benchmark):
    module, rows = benchmark
    for name, fitted in module.fit(rows).items():
        nested = isinstance(next(iter(fitted.values())), dict)
        for key, value in fitted.items() if nested else [(None, fitted)]:
            own = getattr(cost, name) if key is None else getattr(cost, name)[key]
            assert own == pytest.approx(value, rel=0.01), (name, key)


def test_every_method_that_was_measured_has_coefficients(benchmark):
    _, rows = benchmark
    measured = {row["method"] for row in rows if "step" in row}
    assert cost.TIME.keys() == measured


def test_points_that_were_left_out_are_predicted(benchmark):
    """As docs/evidence/scale.md reports it."""
    module, rows = benchmark
    page = (BENCHMARKS.parent / "docs" / "evidence" / "scale.md").read_text(encoding="utf-8")
    for line in module.check(rows).splitlines():
        assert line in page
