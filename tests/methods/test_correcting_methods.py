"""LL-R, LL-Ct, LL-Cp, SPLC, LASD and EM + APL: what they remember, and when."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

import plusone
from plusone.data import Dataset, LabelMatrix
from plusone.errors import InputError
from plusone.methods import METHODS
from plusone.models.heads import LinearHead, SpatialHead
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels


def make(name, labels, k=1.5, **options):
    info = METHODS[name]
    return info.build(TrainLabels(LabelMatrix.from_dense(labels), k), info.make_options(options))


def step(method, logits, labels, epoch, rows=None):
    index = torch.arange(len(logits)) if rows is None else torch.tensor(rows)
    outs = (Outputs(logits, logits),)
    batch = Batch((logits,), torch.as_tensor(labels).float(), index)
    clock = Clock(0, epoch, 10, 0, 1)
    value = method.loss(outs, batch, clock)["loss"]
    method.after_step(outs, batch, clock)
    return value


LABELS = np.array([[1, 0, 0, -1], [0, 1, 0, 0]])
LOGITS = torch.tensor([[0.5, 2.0, -1.0, 3.0], [1.0, 0.0, -2.0, 0.3]])


@pytest.mark.parametrize("name", ["ll_r", "ll_ct", "ll_cp"])
@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_large_losses_by_a_loop(name, epoch, same):
    z, total = LOGITS.clone().requires_grad_(), 0.0
    count = math.ceil(0.1 * 8 * (min(epoch, 1) if name == "ll_cp" else epoch))
    unobserved = [(i, j) for i in range(2) for j in range(4) if LABELS[i, j] == 0]
    marked = sorted(unobserved, key=lambda place: -z[place].item())[:count]
    for i in range(2):
        for j in range(4):
            lp, ln = softplus(-z[i, j]), softplus(z[i, j])
            if (i, j) in marked:
                total += 0.0 if name == "ll_r" else lp
            else:
                total += lp if LABELS[i, j] == 1 else ln
    same(step(make(name, LABELS, delta_rel=10.0), z, LABELS, epoch), total / 8, z)


def test_ll_cp_remembers_and_never_touches_observed_labels():
    method = make("ll_cp", LABELS, delta_rel=10.0)  # one label a step
    step(method, LOGITS, LABELS, 1)
    assert method.corrected.nonzero().tolist() == [[0, 1]]
    step(method, LOGITS, LABELS, 2)
    assert method.corrected.nonzero().tolist() == [[0, 1], [1, 0]]
    assert method.labels.observed.dense().tolist() == LABELS.tolist()
    assert method.estimates()[0].tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(("name", "delta"), [("ll_r", 0.5), ("ll_ct", 0.2), ("ll_cp", 0.1)])
def test_the_authors_settings_and_boosted_maps(name, delta):
    assert make(name, LABELS).options.delta_rel == delta
    head = make(name, LABELS, boost=5.0).make_head(3)
    assert (type(head), head.boost) == (SpatialHead, 5.0)
    assert type(make(name, LABELS).make_head(3)) is LinearHead
    info = METHODS[name]
    assert info.gives_maps({"boost": 5.0})
    assert not info.gives_maps({})
    with pytest.raises(InputError, match="boost must be at least 1"):
        info.make_options({"boost": 0.5})
    vectors = TrainLabels(LabelMatrix.from_dense(LABELS), places=False)
    with pytest.raises(InputError, match="boost = 5 needs class maps, and feature vectors have no"):
        info.build(vectors, info.make_options({"boost": 5.0})).make_head(3)


def test_role_starts_as_published():
    method = make("role", LABELS)
    p = method.estimates()
    assert p[0, 0].item() == pytest.approx(0.995)
    assert p[0, 3].item() == pytest.approx(0.005)
    assert ((p > 0.39) & (p < 0.61)).sum() == 5


def test_lasd_uses_three_views_only_when_it_compares_them():
    assert make("lasd", LABELS).views == ("plain", "weak", "weak")
    assert make("lasd", LABELS, alpha=0.0).views == ("weak",)
    assert make("lasd", LABELS, augment="strong").views == ("plain", "strong", "strong")
    with pytest.raises(InputError, match="augment must be one of"):
        make("lasd", LABELS, augment="crop")
    with pytest.raises(InputError, match="expected_positives"):
        make("lasd", LABELS, k=None)


def test_apl_counts_are_exact_and_labels_are_never_revised():
    n_items, epochs, warmup, theta = 50, 7, 2, 0.9
    labels = np.zeros((n_items, 3), dtype=int)
    labels[np.arange(n_items), np.arange(n_items) % 3] = 1
    method = make("em_apl", labels, warmup=warmup, theta=theta)
    generator = torch.Generator().manual_seed(0)
    unobserved = (labels == 0).sum(0)
    before = method.soft.clone()
    for epoch in range(epochs):
        logits = torch.randn(n_items, 3, generator=generator)
        method.after_epoch(Clock(0, epoch, epochs, 0, 1), lambda logits=logits: logits)
        known = before >= 0
        assert method.soft[known].equal(before[known])
        rounds = min(max(epoch + 2 - warmup, 0), epochs - warmup)
        for column in range(3):
            each = int(unobserved[column] * theta / (epochs - warmup) + 1e-9)
            labelled = method.soft[:, column] >= 0
            assert labelled.sum() == each * rounds
            new = labelled & (before[:, column] < 0)
            rest = ~labelled & torch.from_numpy(labels[:, column] == 0)
            p = torch.sigmoid(logits[:, column])
            if new.any():
                assert p[new].max() <= p[rest].min()
                torch.testing.assert_close(method.soft[new, column], p[new])
        before = method.soft.clone()
    assert (method.soft[torch.from_numpy(labels == 1)] < 0).all()


def test_em_apl_without_an_epoch_after_its_warm_up_says_that_it_is_em():
    options = METHODS["em_apl"].make_options({"warmup": 5})
    assert options.remarks([5, 6]) == ()
    assert "this is em" in options.remarks([3, 5])[0]
    x, y = (
        np.random.default_rng(0).normal(size=(40, 4)).astype("f"),
        np.eye(4, dtype=int)[[0, 1] * 20],
    )
    data = Dataset.from_arrays(x, y, complete=True)
    with pytest.warns(UserWarning, match="this is em"):
        plusone.fit(data, "em_apl", rules=False, epochs=2)


def test_lasd_takes_its_views_from_the_options_of_the_stage():
    method = make("lasd", LABELS)
    method.begin_stage(Stage(inputs="features", epochs=1, lr=0.1, options={"alpha": 0.0}))
    assert method.views == ("weak",)
    method.begin_stage(Stage(inputs="images", epochs=1, lr=0.1))
    assert method.views == ("plain", "weak", "weak")
