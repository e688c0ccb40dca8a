"""Published mAP (%) of ResNet-50, to stand beside ours where data set, labels and mode agree.

A data set is known by its name and by its counts. The backbone may be another one: whoever shows
these figures must say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BACKBONE = "ResNet-50"
DATA = ("voc", "coco", "nuswide", "cub")
PARTS_OF_NAMES = {"voc": "voc", "coco": "coco", "nuswide": "nus", "cub": "cub"}

COLE = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021, Table 1"
COLE_A1 = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021, Table A1"
ZHOU = (
    "Zhou et al., Acknowledging the Unknown for Multi-label Learning with Single Positive Labels, "
    "ECCV 2022"
)
LASD = (
    "Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with One-Positive "
    "Annotations, submitted to ICLR 2023, Table 2"
)
CHEN = (
    "Chen et al., Boosting Single Positive Multi-label Classification with Generalized Robust "
    "Loss, IJCAI 2024, Table 2"
)
XIE = (
    "Xie et al., Label-Aware Global Consistency for Multi-Label Learning with Single Positive "
    "Labels, NeurIPS 2022, Table 2, with its label-wise embeddings (LEM)"
)

# Mode -> method -> source and the figures for VOC, COCO, NUS-WIDE, CUB.
Figures = tuple[str, tuple[float | None, float | None, float | None, float | None]]
FIGURES: dict[str, dict[str, Figures]] = {
    "linear": {
        "bce": (COLE, (86.7, 70.0, 50.7, 29.1)),
        "bce_ls": (COLE, (87.6, 70.2, 51.7, 29.3)),
        "iun": (COLE, (86.4, 67.0, 49.0, 19.4)),
        "iu": (COLE, (82.6, 60.8, 43.6, 16.1)),
        "an": (COLE, (84.2, 62.3, 46.2, 17.2)),
        "an_ls": (COLE, (85.3, 64.8, 48.5, 15.4)),
        "n_ls": (COLE_A1, (85.0, 64.4, None, None)),
        "wan": (COLE, (84.1, 63.1, 45.8, 17.9)),
        "pr": (COLE_A1, (84.2, 56.9, None, None)),
        "epr": (COLE, (83.8, 62.6, 46.4, 18.0)),
        "role": (COLE, (86.5, 66.3, 49.5, 16.2)),
    },
    "finetune": {
        "bce": (ZHOU, (89.42, 76.78, 52.08, 30.90)),
        "bce_ls": (COLE, (90.0, 76.8, 53.5, 32.6)),
        "iun": (COLE, (87.1, 70.5, 46.9, 21.3)),
        "iu": (COLE, (83.2, 59.7, 42.9, 17.9)),
        "an": (ZHOU, (85.89, 64.92, 42.27, 18.31)),
        "wan": (ZHOU, (86.98, 67.59, 45.71, 19.15)),
        "an_ls": (ZHOU, (87.90, 67.15, 43.77, 16.26)),
        "n_ls": (ZHOU, (88.12, 67.15, 43.86, 16.82)),
        "l1r": (ZHOU, (85.97, 64.44, 42.15, 17.59)),
        "l2r": (ZHOU, (85.96, 64.41, 42.72, 17.71)),
        "pr": (COLE_A1, (81.5, 56.3, None, None)),
        "focal": (ZHOU, (87.59, 68.79, 47.00, 19.80)),
        "asl": (ZHOU, (87.76, 68.78, 46.93, 18.81)),
        "asl_ps": (LASD, (87.32, 68.46, 46.96, 20.11)),
        "hill": (CHEN, (87.71, 71.43, None, None)),
        "epr": (LASD, (85.15, 63.94, 45.41, 19.53)),
        "role": (ZHOU, (87.77, 67.04, 41.63, 13.66)),
        "ll_r": (CHEN, (89.15, 71.77, 48.05, 19.00)),
        "ll_ct": (CHEN, (88.97, 71.20, 48.00, 19.31)),
        "ll_cp": (CHEN, (88.62, 70.84, 47.93, 19.01)),
        "splc": (CHEN, (88.43, 71.56, 47.24, 18.61)),
        "entmin": (ZHOU, (53.16, 32.52, 19.38, 13.08)),
        "em": (ZHOU, (89.09, 70.70, 47.15, 20.85)),
        "em_apl": (ZHOU, (89.19, 70.87, 47.59, 21.84)),
        "lasd": (LASD, (89.53, 72.22, 50.52, 22.01)),
        "gr": (CHEN, (89.83, 73.17, 49.08, 21.64)),
        "lac": (XIE, (89.6, 75.6, 51.1, 23.3)),
    },
    "linear_init": {
        "an_ls": (COLE, (86.5, 69.2, 50.5, 16.6)),
        "role": (ZHOU, (88.26, 69.12, 45.98, 14.86)),
    },
}


@dataclass(frozen=True)
class Published:
    """A published figure.

    Args:
        value: mAP in per cent.
        source: Where it was published.
    """

    value: float
    source: str


def published(result: Mapping[str, Any]) -> Published | None:
    """The published figure for the setting of a result, if there is one."""
    from plusone.data.observation import describe_scheme, parse_scheme
    from plusone.methods import METHODS

    method, mode = result["method"], result["mode"]
    data = _public_name(result)
    if data is None or method not in FIGURES.get(mode, {}):
        return None
    if result["observation"]["scheme"] != describe_scheme(parse_scheme(METHODS[method].scheme)):
        return None
    source, values = FIGURES[mode][method]
    value = values[DATA.index(data)]
    return None if value is None else Published(value, source)


def _public_name(result: Mapping[str, Any]) -> str | None:
    """Which public data set this is, with the split of the papers."""
    from plusone.data.public import PUBLIC

    if "labels" not in result:  # the truth is not known: no protocol of the papers
        return None
    items = result["items"]
    counts = (items["train"] + items["val"], items["test"], len(result["labels"]["classes"]))
    for name, public in PUBLIC.items():
        expected = public.expected
        known = (expected.train, expected.test, expected.classes)
        if counts == known and PARTS_OF_NAMES[name] in result["data"].lower():
            return name
    return None
