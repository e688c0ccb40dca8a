"""Related classes: the strong view agrees with predictions that were smoothed over a class graph.

The term for label relations of SCPNet (Ding et al. 2023, Exploring Structured Semantic Prior for
Multi Label Recognition with Incomplete Labels, CVPR) on any model, beside SPLC as there. SCPNet
itself fine-tunes CLIP with prompts, and takes the graph from CLIP's text encoder.

The similarities S `[L, L]` of the classes are cosines of their names by the sentence encoder of
`plusone hints`, or by another one that is installed (`plusone.data.class_relations`). `relations`
names a file of numpy to take them from instead; `plusone hints --relations` writes one. Each class
is related to the `neighbours` most similar other ones,

    A_ij = exp(S_ij / temperature) / sum over the neighbours of i,   G = own I + (1 - own) A

and with the probabilities p of the weak view as `G p`, without gradient, the loss is

    SPLC on the weak view + weight * cross-entropy of the strong view's p to G p

where the second part is charged for unobserved labels, mean over all labels.

We know of the paper: text similarities, 10 neighbours, temperature 0.02, a weight of the identity,
and that weak and strong views agree through the graph. `own`, `weight` and cross-entropy as the
measure of agreement are ours, `weight` by the score on seen labels; tau, margin and gamma are
SPLC's. Without file and encoder, and where classes are numbered only, every class is related to
itself alone, and a run says so. Features have one view: there the term smooths over classes only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from plusone.data.class_relations import (
    class_relations,
    described,
    has_words,
    names_encoder,
)
from plusone.errors import InputError, first_line
from plusone.extras import install_command
from plusone.io.arrays import mapped_file
from plusone.losses import reduce, self_corrected
from plusone.losses._logits import log_probabilities
from plusone.methods._base import Method, MethodInfo, Part, Range
from plusone.methods.splc import SplcOptions
from plusone.types import Batch, Clock, Outputs, TrainLabels

ALONE = "class_graph has no relations, so each class is related to itself alone"


@dataclass(frozen=True)
class ClassGraphOptions(SplcOptions):
    """Options of `splc`, and of the graph.

    Args:
        relations: Path of an npy file of similarities `[L, L]`; by default those of the names.
        neighbours: Related classes of each class.
        temperature: Of the softmax over them.
        own: Weight of a class itself.
        weight: Of the agreement.
    """

    relations: str = ""
    neighbours: int = 10
    temperature: float = 0.02
    own: float = 0.5
    weight: float = 0.03

    def __post_init__(self) -> None:
        if self.neighbours < 1 or self.temperature <= 0:
            raise ValueError("neighbours must be at least 1 and temperature positive")
        if not 0 <= self.own <= 1:
            raise ValueError(f"own must lie between 0 and 1, got {self.own}")

    def remarks(self, epochs: Sequence[int]) -> tuple[str, ...]:
        """Without relations the term is one of consistency."""
        if not self.asks_names or names_encoder() is not None:
            return ()
        return (
            f"{ALONE}: {install_command('hints')} installs an encoder of class names, or set "
            "options.relations to a file of similarities",
        )

    @property
    def asks_names(self) -> bool:
        """Whether similarities of the class names are needed."""
        return not self.relations and self.weight > 0 and self.own < 1


class ClassGraph(Method[ClassGraphOptions]):
    """Holds the graph G `[L, L]`, and whether it was made, so that a resumed run keeps it."""

    views = ("weak", "strong")
    fixed = ("relations", "neighbours", "temperature", "own")

    def __init__(self, labels: TrainLabels, options: ClassGraphOptions) -> None:
        super().__init__(labels, options)
        self.graph: Tensor
        self.register_buffer("graph", torch.eye(labels.n_classes))
        self.made: Tensor
        self.register_buffer("made", torch.tensor(False))
        named = options.asks_names and has_words(labels.classes)
        self._encoder = names_encoder() if named else None

    @property
    def side_information(self) -> str:
        if self.options.relations:
            return f"similarities of classes in {Path(self.options.relations).name}"
        if self._encoder is not None:
            return f"similarities of class names by {described(self._encoder)}"
        return ""

    def remarks(self) -> tuple[str, ...]:
        if self.made or not self.options.asks_names or has_words(self.labels.classes):
            return ()
        return (f"{ALONE}: classes are numbered; give them names, or set options.relations",)

    def begin_training(self, vectors: Callable[[], Tensor]) -> None:
        o, classes = self.options, self.labels.classes
        if self.made:
            return
        if o.relations:
            similar = _read(Path(o.relations), self.labels.n_classes)
        elif self._encoder is not None:
            similar = torch.tensor(class_relations(classes, self._encoder))
        else:
            return
        self.graph.copy_(class_graph(similar, o.neighbours, o.temperature, o.own))
        self.made.fill_(True)

    def loss(self, outs: tuple[Outputs, ...], batch: Batch, clock: Clock) -> dict[str, Tensor]:
        o, (weak, strong), y = self.options, outs, batch.observed
        correct = clock.epoch > 0
        seen = self_corrected(
            weak.logits, y, tau=o.tau, margin=o.margin, gamma=o.gamma, correct=correct
        )
        target = torch.sigmoid(weak.logits.detach()) @ self.graph.T
        log_p, log_not_p = log_probabilities(strong.logits)
        agreement = -target * log_p - (1 - target) * log_not_p
        return {
            "splc": reduce(seen),
            "relations": o.weight * reduce(agreement.masked_fill(y != 0, 0.0)),
        }


def class_graph(similar: Tensor, neighbours: int, temperature: float, own: float) -> Tensor:
    """The graph G `[L, L]`, whose rows add up to 1.

    Args:
        similar: Similarities of the classes `[L, L]`; the diagonal is not looked at.
        neighbours: Related classes of each.
        temperature: Of the softmax over them.
        own: Weight of a class itself.

    >>> class_graph(torch.tensor([[1.0, 0.2, 0.9], [0.2, 1.0, 0.1], [0.9, 0.1, 1.0]]), 1, 0.1, 0.5)
    tensor([[0.5000, 0.0000, 0.5000],
            [0.5000, 0.5000, 0.0000],
            [0.5000, 0.0000, 0.5000]])
    """
    n_classes = len(similar)
    eye = torch.eye(n_classes)
    if n_classes == 1:
        return eye
    others = similar.masked_fill(eye.bool(), -torch.inf)
    best, places = others.topk(min(neighbours, n_classes - 1), dim=1)
    related = torch.zeros_like(eye).scatter_(1, places, (best / temperature).softmax(1))
    return own * eye + (1 - own) * related


def _read(path: Path, n_classes: int) -> Tensor:
    """Similarities of a file, float32 `[L, L]`."""
    try:
        values = np.asarray(mapped_file(path), dtype=np.float32)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: is no npy file of similarities ({first_line(error)})") from None
    if values.shape != (n_classes, n_classes) or not np.isfinite(values).all():
        raise InputError(
            f"{path}: needs finite similarities of {n_classes} x {n_classes} classes, in their "
            f"order, and has the shape {values.shape}"
        )
    return torch.from_numpy(values.copy())


INFO = MethodInfo(
    name="class_graph",
    build=ClassGraph,
    options=ClassGraphOptions,
    paper="the relations of Ding et al., SCPNet, CVPR",
    year=2023,
    summary="splc, and predictions agree with those smoothed over related classes",
    small_rate=True,
    alone="it has a graph of its own",
    no_curve="its loss of a label depends on the probabilities of related classes",
    grid=({"weight": 0.3}, {"own": 0.9}),
    search_space={"weight": Range(0.01, 3.0, log=True), "own": Range(0.0, 1.0)},
    ablation=(
        Part("none: SPLC", {"weight": 0.0}),
        Part("SPLC + agreement of the views", {"own": 1.0}),
        Part("SPLC + agreement through the graph"),
    ),
    on_features="On features both views are the same: the agreement is one of related classes.",
)
