"""The class-relation term: its graph, its loss, its file."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from plusone.data.source import load_source
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.losses import reduce, self_corrected
from plusone.methods import METHODS
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


def test_a_run_says_that_it_has_no_relations_and_refuses_wrong_files(tmp_path, make):
    info = METHODS["class_graph"]
    assert "no relations" in info.make_options({}).remarks([3])[0]
    assert not info.make_options({"relations": "r.npy"}).remarks([3])
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
