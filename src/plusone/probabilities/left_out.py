"""What a run keeps of its held-out items, from which thresholds with a guarantee follow.

A recall can be asked for at any level and an audit can name any item later, so scores are kept item
by item, in `memory.safetensors` beside the tables of the method: prediction itself does not read
them, and an export leaves them out. Of an item there are its known positives and the labels of a
probability of at least `LEAST`, a few of what may be thousands of classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plusone.probabilities.answers import mark_answers
from plusone.probabilities.calibration import Calibration, HeldOut
from plusone.probabilities.picks import CERTAIN, UNIFORM, PickModel, other_positives, pick
from plusone.probabilities.scores import blocks

LEAST = 0.02
PREFIX = "left_out."
NONE = -1


@dataclass(frozen=True)
class LeftOut:
    """Scores of held-out items, and what is known of their labels.

    Args:
        row: Row of each item in `observed.npz`, int64 `[n]`.
        complete: Whether all labels of the item are known, bool `[n]`.
        pick: Its seen positive, int32 `[n]`; `NONE` if it has none.
        weight: 1 / P(named | present) of the seen positive, float32 `[n]`.
        item: The item of each label that is kept, as a position in `row`, int32 `[m]`.
        label: Its class, int32 `[m]`.
        log_odds: Log-odds of its score before calibration, float32 `[m]`.
        positive: Whether it is known to be positive, bool `[m]`.
    """

    row: Tensor
    complete: Tensor
    pick: Tensor
    weight: Tensor
    item: Tensor
    label: Tensor
    log_odds: Tensor
    positive: Tensor

    def tensors(self) -> dict[str, Tensor]:
        """By name, for a file."""
        return {PREFIX + one.name: getattr(self, one.name) for one in fields(self)}

    def probabilities(self, calibration: Calibration) -> npt.NDArray[np.float64]:
        """The calibrated probability of each label that is kept, `[m]`."""
        offsets = torch.tensor(calibration.offsets)[self.label.long()]
        z = replace(calibration, offsets=(0.0,))(self.log_odds) + offsets
        return np.asarray(torch.sigmoid(z).double().numpy())

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> LeftOut | None:
        """From the tensors of a file; None if it has none of these."""
        names = [one.name for one in fields(cls)]
        if not all(PREFIX + name in tensors for name in names):
            return None
        return cls(**{name: tensors[PREFIX + name] for name in names})


def kept_scores(
    held_out: HeldOut,
    calibration: Calibration,
    row: npt.NDArray[np.int64],
    picks: PickModel = UNIFORM,
    seed: int = 0,
) -> LeftOut:
    """What a run keeps.

    Args:
        held_out: Scores and labels of the items.
        calibration: From scores to probabilities.
        row: Row of each of them in `observed.npz`, `[n]`.
        picks: How labels are picked.
        seed: Seed of the draw where an item has several seen positives.
    """
    n, n_classes = held_out.labels.shape
    rng = np.random.default_rng(seed)
    parts: list[dict[str, npt.NDArray[np.generic]]] = []
    for rows in blocks(np.arange(n), n_classes):
        those = None if held_out.named is None else held_out.named.take(rows)
        states = mark_answers(held_out.labels.take(rows), those)
        scores = held_out.log_odds[torch.from_numpy(rows)]
        z = calibration(scores.double())
        picked, positive = pick(states, rng), states >= 1
        any_seen = (states == 1).any(axis=1)
        certain = z.masked_fill(other_positives(states, picked), CERTAIN)
        present = picks.label_means(certain, picked).gather(1, picked.label[:, None])[:, 0]
        named = present.log() - picks.log_likelihood(certain, picked)
        item, label = np.nonzero((torch.sigmoid(z).numpy() >= LEAST) | positive)
        parts.append(
            {
                "row": row[rows],
                "complete": (states != 0).all(axis=1),
                "pick": np.where(any_seen, picked.label.numpy(), NONE).astype(np.int32),
                "weight": np.where(any_seen, named.exp().numpy(), 0).astype(np.float32),
                "item": rows[item].astype(np.int32),
                "label": label.astype(np.int32),
                "log_odds": scores.numpy()[item, label].astype(np.float32),
                "positive": positive[item, label],
            }
        )
    names = [one.name for one in fields(LeftOut)]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in names}
    return LeftOut(**{name: torch.from_numpy(value) for name, value in joined.items()})
