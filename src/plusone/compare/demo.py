"""The demo: what plusone does with pictures that have one tag each, where the truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.data.checks import missing_images
from plusone.data.dataset import Dataset
from plusone.data.example import example_features, example_table, write_example
from plusone.errors import InputError
from plusone.methods import ASSUME_NEGATIVE
from plusone.probabilities.accept import summary
from plusone.suggestions import Suggestions, write_suggestions
from plusone.suggestions.find import find
from plusone.training.api import fit

ITEMS, NEW = 2000, 1000  # pictures with one tag, and pictures to test on
PRECISION = 0.7  # as estimated from single tags, which is cautious
STEPS = 4


@dataclass(frozen=True)
class Trained:
    """A method on the test pictures, against all their labels."""

    method: str
    test_map: float
    f1: float


@dataclass(frozen=True)
class Demo:
    """What the demo found.

    Args:
        trained: The default method, then the baseline that takes unobserved labels as negatives.
        hidden: Labels of the tagged pictures that are missing.
        accepted: Labels to accept, as `plusone suggest` gives them, with their true precision.
        right: Whether each suggestion is right, bool `[n]`.
    """

    items: int
    new: int
    trained: tuple[Trained, ...]
    hidden: int
    accepted: dict[str, Any]
    suggestions: Suggestions
    right: npt.NDArray[np.bool_]

    def sentence(self) -> str:
        """What became of the missing labels, in a sentence."""
        chosen = self.accepted
        start = f"{self.hidden:,} labels of the tagged pictures are missing"
        target = f"at an estimated precision of {100 * chosen['target']:.0f} %"
        if not chosen["accepted"]:
            return f"{start}; none can be accepted {target}"
        true = f"{100 * chosen['true_precision']:.1f} % of them are right"
        return f"{start}; {chosen['accepted']:,} can be accepted {target}, and {true}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "items": self.items,
            "new": self.new,
            "trained": [vars(one) for one in self.trained],
            "hidden": self.hidden,
            "accepted": self.accepted,
            "suggestions": len(self.suggestions),
        }


def run_demo(
    folder: Path,
    *,
    seed: int = 0,
    on_step: Callable[[str], None] | None = None,
) -> Demo:
    """Writes pictures with one tag each, trains on them, and suggests the tags that are missing.

    The models are fitted on fixed features: in closed form, and a linear layer. So figures differ
    little between machines. The folder gets `pictures/` and `suggestions/`; the pictures of an
    earlier demo are used again. `on_step` is called with the name of each step before it starts.
    """
    step = on_step or (lambda name: None)
    pictures = folder / "pictures"
    step("writing pictures")
    table, files = example_table(ITEMS, NEW, seed, pictures)
    if not pictures.exists():
        write_example(pictures, ITEMS, new=NEW, seed=seed)
    elif len(missing_images(table.ids, pictures)):
        raise InputError(f"{pictures}: has other pictures than this demo; choose a new folder")
    dataset = Dataset(table, example_features(files), "pictures")
    trained = []
    fits = []
    for method in (None, ASSUME_NEGATIVE):
        step(f"training {method or 'the default'}")
        fitted = fit(dataset, method, observe="given", select_on="observed", seed=seed)
        calibrated = fitted.metrics["test_calibrated"]
        name = fitted.training.recipe.method
        trained.append(Trained(name, fitted.metrics["test_map"], calibrated["of1"]))
        fits.append(fitted)
    step("finding missing tags")
    found = find(dataset, fits[0].training.recipe)
    truth, labels = found.truth, found.accept(PRECISION)
    assert truth is not None
    accepted = summary(labels, table.classes, truth, found.hidden)
    suggestions = found.suggestions()
    about = dict(suggestions.about) | {"accepted": accepted}
    suggestions = replace(suggestions, about=about)
    write_suggestions(suggestions, folder / "suggestions")
    right = truth.at(suggestions.row, suggestions.label) == 1  # the test pictures come last
    return Demo(ITEMS, NEW, tuple(trained), found.hidden, accepted, suggestions, right)
