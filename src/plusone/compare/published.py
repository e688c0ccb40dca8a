"""Published mAP (%) of ResNet-50, to stand beside ours where data set, labels and mode agree.

The figures are in the `MethodInfo` of their method.
A data set is known by its name and by its counts. The backbone may be another one: whoever shows
these figures must say so.
"""

from __future__ import annotations

from dataclasses import dataclass

from plusone.results import RunResult

BACKBONE = "ResNet-50"
PARTS_OF_NAMES = {"voc": "voc", "coco": "coco", "nuswide": "nus", "cub": "cub"}


@dataclass(frozen=True)
class Published:
    """A published figure.

    Args:
        value: mAP in per cent.
        source: Where it was published.
    """

    value: float
    source: str


def published(result: RunResult) -> Published | None:
    """The published figure for the setting of a result, if there is one."""
    from plusone.data.observation import describe_scheme, parse_scheme
    from plusone.methods import METHODS

    info = METHODS.get(result.method)
    data = _public_name(result)
    if data is None or info is None:
        return None
    if result.observation["scheme"] != describe_scheme(parse_scheme(info.scheme)):
        return None
    for figure in info.published:
        value: float | None = getattr(figure, data)
        if figure.mode == result.mode and value is not None:
            return Published(value, figure.source)
    return None


def _public_name(result: RunResult) -> str | None:
    """Which public data set this is, with the split of the papers."""
    from plusone.data.public import PUBLIC

    if result.labels is None:  # the truth is not known: no protocol of the papers
        return None
    items = result.items
    counts = (items["train"] + items["val"], items["test"], len(result.labels.classes))
    for name, public in PUBLIC.items():
        expected = public.expected
        known = (expected.train, expected.test, expected.classes)
        if counts == known and PARTS_OF_NAMES[name] in result.data.lower():
            return name
    return None
