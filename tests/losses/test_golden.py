"""Agreement with values and gradients that the authors' programs produced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from plusone import losses

pytestmark = pytest.mark.rounding

COLE_EM = ("bce", "bce_ls", "iun", "iu", "pr", "an", "an_ls", "wan", "epr", "em_a0.1", "em_a0.2")
EXACT = (
    "gr_w0_b-2_mu0.5_s2_q1",
    "gr_w2_b-2_mu0.8_s0.5_q1",
    "gr_w10_b-8_mu0.8_s0.5_q1.5",
    "hill",
    "hill_no_margin",
    "asl_4_0_0.0",
    "asl_4_0_0.05",
    "asl_4_1_0.05",
)


def ours(name: str, z: Tensor, case: dict, params: dict) -> Tensor:
    seen = torch.tensor(case["observed"])
    true = torch.tensor(case["true"])
    all_labels = 2 * true - 1
    released = {"variant": "released"}
    if name.startswith("gr_"):
        options = {key: value for key, value in params.items() if key != "q1"}
        return losses.generalized_robust(z, seen, **options, **released)
    if name.startswith("asl_"):
        keys = {"gamma_neg": "gamma_neg", "gamma_pos": "gamma_pos", "shift": "margin"}
        return losses.asymmetric(z, seen, **{ours: params[key] for ours, key in keys.items()})
    if name.startswith("em_"):
        return losses.entropy_maximization(z, seen, alpha=params["alpha"])
    if name == "epr":
        terms = losses.expected_positives(z, seen, k=case["k"], **released)
        return terms["positives"] + terms["expected_positives"]
    return {
        "bce": lambda: losses.observed_bce(z, all_labels),
        "bce_ls": lambda: losses.observed_bce(z, all_labels, eps=0.1, **released),
        "iun": lambda: losses.observed_bce(z, torch.where(true == 0, -1, seen)),
        "iu": lambda: losses.observed_bce(z, torch.tensor(case["observed_one_negative"])),
        "pr": lambda: losses.pairwise_ranking(z, seen),
        "an": lambda: losses.assume_negative(z, seen),
        "an_ls": lambda: losses.assume_negative_smoothed(z, seen, **released),
        "wan": lambda: losses.weak_negative(z, seen),
        "hill": lambda: losses.hill(z, seen),
        "hill_no_margin": lambda: losses.hill(z, seen, margin=0.0, gamma=0.0),
    }[name]()


@pytest.fixture(scope="module")
def golden(shared: Path) -> list[dict]:
    return json.loads((shared / "golden" / "official_losses.json").read_text())["cases"]


@pytest.mark.parametrize("name", [*COLE_EM, *EXACT])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradient(name: str, dtype: torch.dtype, golden: list[dict]) -> None:
    for case in golden:
        entry = case["losses"][name]
        z = torch.tensor(case["logits"], dtype=dtype, requires_grad=True)
        table = ours(name, z, case, entry["params"])
        value = losses.reduce(table) if table.ndim else table
        value.backward()
        gradient = torch.tensor(entry["grad"], dtype=dtype)
        exact = name in EXACT
        value_share, gradient_share, tiny = (1e-5, 1e-5, 0.0) if exact else (2e-3, 2e-2, 2e-5)
        assert value.item() == pytest.approx(entry["value"], rel=value_share, abs=tiny)
        assert (z.grad - gradient).abs().max() <= gradient_share * gradient.abs().max()


def test_no_golden_entry_is_forgotten(golden: list[dict]) -> None:
    elsewhere = {"role", "em_apl", "ll_r", "ll_ct", "ll_cp", "splc_epoch0", "splc_epoch1"}
    for case in golden:
        assert set(case["losses"]) == {*COLE_EM, *EXACT} | elsewhere


def test_the_paper_variants_differ_from_the_released_ones(golden: list[dict]) -> None:
    case = golden[1]
    z, seen = torch.tensor(case["logits"]), torch.tensor(case["observed"])
    for name, paper in {
        "an_ls": losses.assume_negative_smoothed(z, seen),
        "epr": sum(losses.expected_positives(z, seen, k=case["k"]).values()),
        "gr_w2_b-2_mu0.8_s0.5_q1": losses.generalized_robust(z, seen, w=2.0, b=-2.0),
    }.items():
        difference = paper.mean().item() / case["losses"][name]["value"] - 1
        assert abs(difference) > 1e-4, name
