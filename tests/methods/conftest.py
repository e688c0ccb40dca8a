"""Every method of the table, ready to compute a loss."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from plusone.data.matrix import LabelMatrix
from plusone.data.observation import observe
from plusone.methods import METHODS, Method, MethodInfo
from plusone.models.classifier import Classifier
from plusone.models.heads import LabelwiseHead
from plusone.training.step import look_again
from plusone.types import Batch, Clock, Outputs, Stage, TrainLabels

DIM = 5
CLOCK = Clock(stage=0, epoch=2, epochs=5, step=1, steps=4)


@dataclass
class Case:
    """A method with a small model and a way to run both."""

    name: str
    info: MethodInfo
    observed: Tensor
    method: Method
    model: Classifier
    x: Tensor

    def batch(self, rows=None, x=None, observed=None) -> Batch:
        rows = torch.arange(len(self.x)) if rows is None else torch.as_tensor(rows)
        x = self.x if x is None else x
        observed = self.observed if observed is None else observed
        views = (x[rows],) * len(self.method.views)
        batch = Batch(views, observed[rows], rows, self.averaged(views))
        if not self.method.looks_again:
            return batch
        with torch.no_grad():
            out = self.model(views[0])
        return replace(batch, again=look_again(self.model, self.method, batch, out))

    def averaged(self, views) -> tuple[Outputs, ...]:
        """What the moving average of the model says, if there is one: here the model itself."""
        if self.method.teacher is None:
            return ()
        with torch.no_grad():
            return tuple(self.model(view) for view in views)

    def outputs(self, batch: Batch) -> tuple[Outputs, ...]:
        return tuple(self.model(view) for view in batch.views)

    def terms(self, batch: Batch, clock: Clock = CLOCK) -> dict[str, Tensor]:
        """The terms of one step, as the training step computes them."""
        terms = self.method.loss(self.outputs(batch), batch, clock)
        return terms | self.method.penalty(self.model.head)

    def total(self, batch: Batch, clock: Clock = CLOCK) -> Tensor:
        return torch.stack(list(self.terms(batch, clock).values())).sum()

    def on_logits(self, logits: Tensor, observed: Tensor, clock: Clock = CLOCK) -> Tensor:
        """The loss as a function of the logits of the first rows."""
        rows = torch.arange(len(logits))
        features = torch.zeros(len(logits), DIM)
        out = Outputs(logits, features, self.model(self.x[rows]).embeddings)
        n_views, fixed = len(self.method.views), Outputs(logits.detach(), features)
        teacher = () if self.method.teacher is None else (fixed,) * n_views
        again = Outputs(torch.zeros_like(logits), features)
        batch = Batch((features,) * n_views, observed, rows, teacher, again=again)
        terms = self.method.loss((out,) * len(self.method.views), batch, clock)
        return torch.stack(list(terms.values())).sum()


def make_case(name: str, n: int = 8, n_classes: int = 6, options=None) -> Case:
    info = METHODS[name]
    generator = torch.Generator().manual_seed(0)
    truth = (torch.rand(n, n_classes, generator=generator) < 0.4).int()
    truth[~truth.any(1), 0] = 1
    observed = observe(truth, info.scheme, 1200).float()
    hints = torch.rand(n, n_classes, generator=generator)
    labels = TrainLabels(LabelMatrix.from_dense(observed.int().numpy()), 1.7, seed=3, hints=hints)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        method = info.build(labels, info.make_options(options or {}))
        images = info.inputs == "images"
        first = nn.Conv2d(4, DIM, 1) if images else nn.Linear(4, DIM)
        model = Classifier(nn.Sequential(first, nn.Tanh()), method.make_head(DIM))
        # Attention over a single token has nothing to choose: three tokens for such heads.
        tokens = [3, 4] if isinstance(model.head, LabelwiseHead) else [4]
        x = torch.randn(n, *([4, 3, 3] if images else tokens))
    model.eval()  # no dropout: the same loss twice
    if info.inputs == "vectors":
        method.begin_training(lambda: model.backbone(x).detach())
    method.begin_stage(Stage(inputs="features", epochs=CLOCK.epochs, lr=1e-3))
    return Case(name, info, observed, method, model, x)


@pytest.fixture(params=sorted(METHODS))
def case(request) -> Case:
    return make_case(request.param)


@pytest.fixture
def make():
    """Builds the case of a named method."""
    return make_case


@pytest.fixture
def same():
    """Compares a loss with one by a loop: its value, and its gradients for some inputs."""

    def check(mine: Tensor, naive: Tensor, *inputs: Tensor, **tolerance: float) -> None:
        torch.testing.assert_close(mine, naive, **tolerance)
        unused = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
        slopes = [torch.autograd.grad(loss, inputs, **unused) for loss in (mine, naive)]
        torch.testing.assert_close(*slopes, **tolerance)

    return check
