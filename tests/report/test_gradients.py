from __future__ import annotations

import json

import numpy as np
import pytest

from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.report.gradients import Gradients, at_probabilities, gradient_curves

pytestmark = pytest.mark.slow

ABLE = [name for name, info in METHODS.items() if not info.no_curve]
STOPPED = ("gr", "gr_learned")  # parts of their losses get no gradient
P = np.arange(1, 100) / 100
Z = np.log(P / (1 - P))
LP, LN = -np.log(P), -np.log(1 - P)
H = P * LP + (1 - P) * LN


def curve(name, epoch=1, **settings):
    options = {name: settings.pop("options")} if "options" in settings else {}
    (found,) = gradient_curves([name], at=[epoch], options=options, **settings).curves
    return found


def gr_gradient(w, b, mu, sigma, q2=0.01, q3=1.0):
    """GR Eq. 18, times v of Eq. 11."""
    khat = 1 / (1 + np.exp(-(w * P + b)))
    v = np.exp(-((P - mu) ** 2) / (2 * sigma**2))
    return v * ((1 - khat) * (1 - P) ** q3 * P - khat * P**q2 * (1 - P))


@pytest.mark.parametrize(
    ("name", "loss", "grad"),
    [
        ("an", LN, P),
        ("wan", LN / 19, P / 19),
        ("em", -0.1 * H, 0.1 * Z * P * (1 - P)),
        ("em_apl", -0.2 * H, 0.2 * Z * P * (1 - P)),
        ("hill", (1.5 - P) * P**2, 3 * P**2 * (1 - P) ** 2),
        ("focal", P**2 * LN, 2 * P**2 * (1 - P) * LN + P**3),
        ("las", P**4 * LN / 19, (4 * P**4 * (1 - P) * LN + P**5) / 19),
        ("en", LN, P),
        ("en_cl", LN, P),
        ("iu", 0 * P, 0 * P),
        ("pr", 0.5 + P, P * (1 - P)),
    ],
)
def test_unobserved_labels_have_their_closed_forms(name, loss, grad):
    found = curve(name)
    assert found.independent
    assert not found.of_batch
    np.testing.assert_allclose(found.unobserved.loss, loss, atol=1e-9)
    np.testing.assert_allclose(found.unobserved.grad, grad, atol=1e-9)


def test_gr_moves_from_its_start_to_its_end():
    first, last = gradient_curves(["gr"], at=[1, 8], epochs=8).curves
    assert (first.label, last.label) == ("gr, epoch 1", "gr, epoch 8")
    np.testing.assert_allclose(first.unobserved.grad, gr_gradient(0, -2, 0.5, 2), atol=1e-9)
    np.testing.assert_allclose(last.unobserved.grad, gr_gradient(2, -2, 0.8, 0.5), atol=1e-9)
    coco = curve("gr", 8, epochs=8, options={"w": 10.0, "b": -8.0, "q3": 1.5})
    expected = gr_gradient(10, -8, 0.8, 0.5, q3=1.5)
    np.testing.assert_allclose(coco.unobserved.grad, expected, atol=1e-9)


@pytest.mark.parametrize("name", ["an", "em", "las", "lasd", "wan", "iun"])
def test_seen_positives_cost_minus_log_p(name):
    found = curve(name)
    np.testing.assert_allclose(found.observed.loss, LP, atol=1e-9)
    np.testing.assert_allclose(found.observed.grad, P - 1, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in ABLE if name not in STOPPED])
def test_slopes_are_those_of_the_losses(name):
    found = curve(name, epoch=3)
    for side in (found.observed, found.unobserved):
        steps = np.diff(side.loss)
        expected = np.diff(Z) * (np.array(side.grad)[1:] + np.array(side.grad)[:-1]) / 2
        wrong = np.abs(steps - expected) > 0.01 + 0.02 * np.abs(steps)
        assert wrong.sum() <= 1, name  # a threshold is a jump of the loss


def test_epochs_that_are_alike_are_given_once():
    found = gradient_curves(["an", "splc", "splc", "ll_ct"], at=[1, 5, 9], points=19)
    labels = ["an", "splc, epoch 1", "splc, epoch 5", "ll_ct, epoch 1", "ll_ct, epoch 5"]
    assert [entry.label for entry in found.curves] == labels


def test_the_largest_loss_of_an_item_is_rejected_or_turned():
    rejected, turned = gradient_curves(["ll_r", "ll_ct"], at=[2], rest=0.6).curves
    assert not rejected.independent
    below = P < 0.595
    np.testing.assert_allclose(rejected.unobserved.grad, np.where(below, P, 0), atol=1e-9)
    np.testing.assert_allclose(turned.unobserved.grad, np.where(below, P, P - 1), atol=1e-9)


def test_the_count_of_epr_depends_on_the_other_labels():
    many, few = (curve("epr", k=2.0, rest=rest) for rest in (0.5, 0.01))
    assert not many.independent
    assert many.of_batch  # k is that of the batch
    assert "alone in its batch" in many.marked
    k_hat = 19 * 0.5 + P
    np.testing.assert_allclose(
        many.unobserved.grad, 20 * 2 * (k_hat - 2) / 400 * P * (1 - P), atol=1e-9
    )
    assert min(many.unobserved.grad) > 0 > max(few.unobserved.grad)
    assert many.unobserved.loss[49] == 0.0


def test_values_at_some_probabilities_and_json():
    found = gradient_curves(["an"])
    grad = found.curves[0].unobserved.grad
    assert at_probabilities(found, grad) == pytest.approx([0.05, 0.25, 0.5, 0.75, 0.95])
    again = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert again["kind"] == "gradients"
    assert Gradients.from_json(again, "gradients.json") == found


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"methods": ["role"]}, "role has no such curve.*these have: bce"),
        ({"methods": ["nope"]}, "unknown method 'nope'"),
        ({"methods": ["an"], "at": [11]}, "epoch 11 is not one of the epochs 1 to 10"),
        ({"methods": ["an"], "options": {"gr": {"w": 1.0}}}, "given for gr, which is not shown"),
        ({"methods": ["gr"], "options": {"gr": {"ww": 1.0}}}, "unknown method option 'ww'"),
        ({"methods": ["wan"], "options": {"wan": {"gamma": 3.0}}}, "options of wan: gamma must"),
        ({"methods": ["an"], "rest": 1.0}, "rest between 0 and 1"),
    ],
)
def test_what_cannot_be_shown_is_refused(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        gradient_curves(**arguments)
