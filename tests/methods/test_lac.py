"""LAC: its terms, its queue, its two phases."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from plusone.data.matrix import LabelMatrix
from plusone.errors import InputError
from plusone.losses import assume_negative, label_aware_contrast, pseudo_label_consistency, reduce
from plusone.methods import METHODS
from plusone.methods.lac import TABLE
from plusone.types import Clock, Stage, TrainLabels

CLOCK = Clock(0, 0, 2, 0, 3)
SMALL = {"width": 8, "heads": 2, "feedforward": 16, "projection": 6}


@pytest.fixture
def lac(make):
    return lambda **options: make("lac", options=SMALL | options)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_terms_are_the_formulas(lac, variant):
    case = lac(variant=variant, lam_plc=0.5, lam_lac=2.0, delta=0.55)
    batch = case.batch()
    weak, strong = batch.views[0], 3 * batch.views[0].flip(0) + 1  # the views must not be the same
    outs, y = (case.model(weak), case.model(strong)), batch.observed
    assert ((outs[0].logits > 0.2) != (outs[1].logits > 0.2)).any()
    terms = case.method.loss(outs, batch, CLOCK)
    mean = "mean" if variant == "released" else "item"
    torch.testing.assert_close(terms["an"], reduce(assume_negative(outs[0].logits, y), mean))
    plc = pseudo_label_consistency(outs[1].logits, outs[0].logits, y, delta=0.55, variant=variant)
    torch.testing.assert_close(terms["plc"], 0.5 * plc)
    used, classes = [], []
    for out in outs:
        for i in range(len(y)):
            for j in range(y.shape[1]):
                if y[i, j] == 1 or outs[0].logits[i, j].sigmoid() >= 0.55:
                    z = case.method.projector(out.embeddings[i, j])
                    used.append(z / z.norm())
                    classes.append(j)
    contrast = label_aware_contrast(
        torch.stack(used), torch.tensor(classes), total=2 * y.numel(), variant=variant
    )
    torch.testing.assert_close(terms["lac"], 2.0 * contrast)


def test_a_seen_negative_is_never_contrasted(lac):
    case = lac(delta=0.5)
    batch = case.batch(observed=torch.full_like(case.observed, -1))
    assert case.method.loss(case.outputs(batch), batch, CLOCK)["lac"] == 0


def used(method, outs, batch):
    """The embeddings that count, without padding."""
    z, classes = method._embeddings(outs, batch.observed)
    return z[classes >= 0], classes[classes >= 0]


@pytest.mark.parametrize("size", [7, 3])
def test_the_queue_keeps_the_newest_embeddings(lac, size):
    case = lac(queue=size, delta=1.0)  # at delta 1 only seen labels count: two entries per item
    pushed = []
    for rows in ([0], [1, 2], [3], [4, 5]):
        batch = case.batch(rows)
        outs = case.outputs(batch)
        with torch.no_grad():
            pushed.append(used(case.method, outs, batch))
            case.method.after_step(outs, batch, CLOCK)
    z = torch.cat([entry[0] for entry in pushed])
    classes = torch.cat([entry[1] for entry in pushed])
    assert len(z) == 12
    assert torch.equal(case.method.queue, z[-size:])
    assert torch.equal(case.method.queue_classes, classes[-size:])
    assert case.total(batch).isfinite()


@pytest.mark.rounding
def test_labels_beyond_the_capacity_do_not_count(lac):
    case = lac(queue=0, delta=1.0)
    batch = case.batch()
    outs = case.outputs(batch)
    z, classes = used(case.method, outs, batch)
    case.method.options = replace(case.method.options, capacity=2)
    fewer, kinds = used(case.method, outs, batch)
    half = len(z) // 2
    torch.testing.assert_close(fewer, torch.cat((z[:2], z[half : half + 2])))
    assert torch.equal(kinds, torch.cat((classes[:2], classes[half : half + 2])))


def test_a_batch_beyond_the_capacity_is_said_with_its_cost(lac):
    case = lac(queue=0, delta=1.0, capacity=2)
    batch = case.batch([0, 1, 2])
    assert case.method.remarks() == ()
    case.method.after_step(case.outputs(batch), batch, CLOCK)
    chosen = int((batch.observed == 1).sum())
    (sentence,) = case.method.remarks()
    assert f"up to {chosen} seen or confident labels" in sentence
    assert f"options.capacity={chosen} contrasts all" in sentence
    case.method.options = replace(case.method.options, capacity=chosen)
    assert case.method.remarks() == ()


def test_all_positives_of_64_birds_are_contrasted_by_default(lac):
    options = lac(queue=512).method.options
    assert options.contrasted >= 64 * 31
    n = options.contrasted
    assert 2 * n * (2 * n + 512) <= TABLE < 2 * (n + 1) * (2 * n + 2 + 512)
    with pytest.raises(InputError, match="capacity must be at least 1"):
        lac(capacity=0)


def test_eq_7_to_the_letter(lac):
    """One embedding per label; the second view takes part where a label meets itself."""
    case = lac(second_view="self", delta=0.55, queue=4)
    batch = case.batch()
    weak, strong = batch.views[0], 3 * batch.views[0].flip(0) + 1
    outs, y = (case.model(weak), case.model(strong)), batch.observed
    ours = case.method.loss(outs, batch, CLOCK)["lac"]
    anchors = [
        (i, j)
        for i in range(len(y))
        for j in range(y.shape[1])
        if y[i, j] == 1 or outs[0].logits[i, j].sigmoid() >= 0.55
    ]

    def z(view, i, j):
        return functional.normalize(case.method.projector(outs[view].embeddings[i, j]), dim=0)

    total = torch.zeros(())
    for i, j in anchors:
        rivals = [z(0, i, j) @ z(0, *t) / 0.5 for t in anchors if t[1] != j]
        below = torch.stack(rivals).exp().sum().log()
        for other in anchors:
            if other[1] == j:
                mate = z(1, i, j) if other == (i, j) else z(0, *other)
                total = total + below - z(0, i, j) @ mate / 0.5
    torch.testing.assert_close(ours, total / y.numel())
    with torch.no_grad():
        case.method.after_step(outs, batch, CLOCK)
        newest = torch.stack([z(0, *anchor) for anchor in anchors[-4:]])
    torch.testing.assert_close(case.method.queue, newest)


def test_an_empty_queue_and_no_queue(lac):
    for size in (0, 5):
        case = lac(queue=size)
        batch = case.batch()
        assert case.total(batch).isfinite()
        with torch.no_grad():
            case.method.after_step(case.outputs(batch), batch, CLOCK)


def test_the_first_phase_has_no_contrast_and_leaves_the_projection_alone(lac):
    case = lac(delta_first=0.5)
    first, second = METHODS["lac"].phases
    case.method.begin_stage(Stage(inputs="features", epochs=2, lr=1e-3, options=first))
    batch = case.batch()
    outs = case.outputs(batch)
    terms = case.method.loss(outs, batch, CLOCK)
    assert set(terms) == {"an", "plc"}
    torch.testing.assert_close(
        terms["plc"],
        pseudo_label_consistency(outs[1].logits, outs[0].logits, batch.observed, delta=0.5),
    )
    sum(terms.values()).backward()
    assert all(weight.grad is None for weight in case.method.projector.parameters())
    case.method.after_step(outs, batch, CLOCK)
    assert (case.method.queue_classes == -1).all()
    case.method.begin_stage(Stage(inputs="features", epochs=2, lr=1e-3, options=second))
    sum(case.terms(batch).values()).backward()
    assert all(weight.grad is not None for weight in case.method.projector.parameters())


def test_end_to_end_is_one_phase_of_all_terms(lac):
    info = METHODS["lac"]
    assert len(info.phases_of({})) == 2
    (phase,) = info.phases_of({"end_to_end": True})
    case = lac(end_to_end=True, lam_lac=0.3)
    case.method.begin_stage(Stage(inputs="features", epochs=2, lr=1e-3, options=phase))
    assert case.method.options.lam_lac == 0.3
    assert set(case.terms(case.batch())) == {"an", "plc", "lac"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"heads": 3}, "width 8 cannot be split among 3 heads"),
        ({"queue": -1}, "queue must be at least 0, got -1"),
        ({"decoder_layers": 0}, "decoder_layers must be at least 1, got 0"),
        ({"width": 8.5}, "width must be a whole number, got 8.5"),
        ({"dropout": 2.0}, "dropout must lie in"),
        ({"delta": 0.3}, "must lie between 0.5 and 1"),
        ({"second_view": "none"}, "second_view must be all or self"),
        ({"second_view": "self", "variant": "released"}, "no variant"),
        ({"temperature": 0.0}, "temperature must be positive"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(lac, options, sentence):
    with pytest.raises(InputError, match=sentence):
        lac(**options)


def test_sizes_cannot_change_between_stages(lac):
    method = lac().method
    method.begin_stage(
        Stage(inputs="features", epochs=1, lr=0.1, options={"width": 8, "delta": 0.7})
    )
    assert method.options.delta == 0.7
    with pytest.raises(
        InputError, match=r"the option queue of .* cannot change from stage to stage"
    ):
        method.begin_stage(Stage(inputs="features", epochs=1, lr=0.1, options={"queue": 9}))


def test_vectors_get_a_smaller_model_unless_sizes_are_given():
    seen = LabelMatrix.from_dense([[1, 0], [0, 1]])
    info = METHODS["lac"]

    def width(places: bool, **options: int) -> int:
        method = info.build(TrainLabels(seen, places=places), info.make_options(options))
        head = method.make_head(5)
        out = head(torch.zeros(3, 5))
        assert out.embeddings.shape == (3, 2, method.options.width)
        return method.options.width

    assert width(True) == 256
    assert width(False) == 64
    assert width(False, width=32) == 32
