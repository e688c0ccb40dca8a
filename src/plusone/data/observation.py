"""Applying observation schemes (`plusone.data.schemes`) to full labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from plusone.data.matrix import LabelMatrix
from plusone.data.schemes import Biased, Scheme, describe_scheme, parse_scheme
from plusone.data.table import LabelTable
from plusone.errors import InputError

Labels = TypeVar("Labels")


def observe(truth: Labels, scheme: str | Scheme = "single", seed: int = 1200) -> Labels:
    """Applies a scheme to full labels.

    Args:
        truth: All labels `[N, L]` as a `LabelMatrix`, a numpy array or a torch tensor; 1 is
            positive, 0 and -1 are negative.
        scheme: A scheme or its text, see `SCHEMES`.
        seed: The seed of the annotator.

    Returns:
        The observed labels in three states, in the same kind of container (int8).

    >>> observe(np.array([[1, 1, 0], [0, 0, 1]])).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    rule = parse_scheme(scheme) if isinstance(scheme, str) else scheme
    if isinstance(truth, LabelMatrix):
        return rule(truth, seed).labels  # type: ignore[return-value]
    if isinstance(truth, np.ndarray):
        matrix = LabelMatrix.from_dense(truth, default=-1)
        return rule(matrix, seed).labels.dense()  # type: ignore[return-value]
    import torch  # only for tensors: reading and observing tables must not need it

    if not isinstance(truth, torch.Tensor):
        kind = type(truth).__name__
        raise TypeError(f"truth must be a LabelMatrix, a numpy array or a tensor, not {kind}")
    seen = observe(truth.cpu().numpy(), rule, seed)
    return torch.from_numpy(seen).to(truth.device)  # type: ignore[return-value]


def observe_table(
    table: LabelTable, scheme: str | Scheme = "single", seed: int = 1200
) -> LabelTable:
    """Replaces the seen labels of a table by what the scheme lets through of its truth.

    Every split is observed on its own with a fresh generator, as one file per split is in the
    protocol. The validation rows of a table that `hold_out_validation` has split count as
    training rows here, so observe before holding out. Scheme, seed and the digest of the result
    are recorded in `observation`.
    """
    if table.truth is None:
        raise InputError(
            "this table holds only seen labels, so there is nothing to hide; observation schemes "
            "need all labels (read it with labels=complete if its zeros are negatives)"
        )
    rule = parse_scheme(scheme) if isinstance(scheme, str) else scheme
    order, labels, questions = [], [], []
    for name in ["train"] if table.split is None else list(dict.fromkeys(table.split.tolist())):
        rows = table.rows_of(name)
        result = _for_rows(rule, rows)(table.truth.take(rows), seed)
        order.append(rows)
        labels.append(result.labels)
        questions.append(result.questions)
    seen = LabelMatrix.concatenate(labels).take(np.argsort(np.concatenate(order)))
    record: dict[str, object] = {
        "scheme": describe_scheme(rule),
        "seed": seed,
        "digest": seen.digest(),
    }
    if questions[0] is not None:
        asked = np.concatenate([part for part in questions if part is not None])
        record |= {"questions": int(asked.sum()), "questions_per_item": float(asked.mean())}
    return replace(table, labels=seen, observation=record)


def _for_rows(rule: Scheme, rows: npt.NDArray[np.int64]) -> Scheme:
    """The rule for some rows of a table: weights per label are cut to them."""
    if isinstance(rule, Biased) and np.ndim(rule.weights) == 2:
        return Biased(np.asarray(rule.weights)[rows])
    return rule
