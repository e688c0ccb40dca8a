"""What a sweep goes over: the setting, its values, and what they mean for a recipe."""

from __future__ import annotations

from typing import Any

from plusone.bench.plan import Settings
from plusone.errors import InputError
from plusone.methods import METHODS, get_method
from plusone.recipe import Recipe, parse_settings

KEEP = "keep"
LABELS = {
    "train_share": "share of the training items",
    KEEP: "share of the positives seen",
    "expected_positives": "expected positives per item (k)",
    "lr": "learning rate",
}
REFUSED = {
    "method": "name the methods with --methods",
    "seed": "name the seeds with --seeds",
    "options": "write options.NAME, such as options.alpha",
    "stages": "stages cannot be swept",
    "format": "it is not a setting of training",
}


def parse_over(text: str) -> tuple[str, tuple[Any, ...]]:
    """The setting and its different values; three dots continue a row of numbers.

    >>> parse_over("options.alpha=0.1,0.2,...,0.5")
    ('options.alpha', (0.1, 0.2, 0.3, 0.4, 0.5))
    >>> parse_over("observe=single,positives_and_negatives(1, 1)")
    ('observe', ('single', 'positives_and_negatives(1, 1)'))
    """
    name, equals, listed = text.partition("=")
    name, parts = name.strip(), _split(listed)
    if not equals or not name or not parts:
        raise InputError(f"--over {text!r}: write it as name=value,value,...")
    if name in REFUSED:
        raise InputError(f"--over {name}: {REFUSED[name]}")
    known = [*Recipe.model_fields, KEEP]
    if name not in known and not name.startswith("options."):
        swept = ", ".join(entry for entry in known if entry not in REFUSED)
        raise InputError(f"--over {name}: unknown setting; settings: {swept}, options.NAME")
    if "..." in parts:
        return name, _continued(text, parts)
    return name, tuple({repr(value): value for value in map(_parse, parts)}.values())


def settings_for(over: str, value: Any, method: str) -> Settings:
    """The recipe settings that give `over` a value.

    >>> settings_for("keep", 0.3, "em")
    {'observe': 'fraction(0.3)'}
    """
    info = get_method(method)
    if over == KEEP:
        if info.scheme != "single":
            raise InputError(
                f"{method} is defined by the labels it sees, so none can be hidden from it; "
                f"compare with it by --baseline {method}"
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise InputError(f"keep={value}: the share of positives must be above 0 and at most 1")
        return {"observe": f"fraction({value})"}
    if over == "expected_positives" and not info.needs_k:
        users = ", ".join(name for name, entry in METHODS.items() if entry.needs_k)
        raise InputError(f"{method} does not use expected_positives; methods that do: {users}")
    if over.startswith("options."):
        return {"options": {over.removeprefix("options."): value}}
    return {over: value}


def label_of(over: str) -> str:
    """What to write on the axis of the values."""
    return LABELS.get(over, over.removeprefix("options."))


def _split(text: str) -> list[str]:
    """Parts between commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _parse(text: str) -> Any:
    return parse_settings([f"value={text}"])["value"]


def _continued(text: str, parts: list[str]) -> tuple[float, ...]:
    """The numbers of "first, second, ..., last"."""
    numbers = [_parse(part) for part in parts if part != "..."]
    plain = all(isinstance(number, (int, float)) for number in numbers)
    if parts[2:3] != ["..."] or len(parts) != 4 or not plain:
        raise InputError(f"--over {text!r}: write three dots as in 0.1,0.2,...,1.0")
    first, second, last = numbers
    step = second - first
    steps = round((last - first) / step) if step else 0
    if steps < 1 or abs(first + steps * step - last) > 1e-9 * max(1, abs(last)):
        raise InputError(f"--over {text!r}: steps of {step:g} do not lead from {first} to {last}")
    return tuple(round(first + number * step, 12) for number in range(steps + 1))
