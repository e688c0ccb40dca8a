"""Trainings of one method that differ in more than seed, learning rate and options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from plusone.methods import METHODS

Result = dict[str, Any]
ALIKE = ("method", "seed", "lr", "options")  # settings that make no variant


def base(name: str) -> str:
    """The method behind a name.

    >>> base("gr (epochs = 3)"), base("gr")
    ('gr', 'gr')
    """
    return name if name in METHODS else name.partition(" (")[0]


def is_reference(name: str) -> bool:
    """Whether a method is meant to see more than single positives."""
    info = METHODS.get(base(name))
    return info is not None and info.scheme != "single"


def named(results: Sequence[Result]) -> list[Result]:
    """The results, those of variants with a method named by what is different.

    >>> runs = [{"method": "gr", "data": "d", "recipe": {"epochs": n}} for n in (3, 5)]
    >>> [run["method"] for run in named(runs)]
    ['gr (epochs = 3)', 'gr (epochs = 5)']
    """
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        key = tuple(str(result.get(name)) for name in ("data", "mode", "method"))
        groups.setdefault(key, []).append(result)
    names = {id(result): name for group in groups.values() for result, name in _names(group)}
    return [result | {"method": names[id(result)]} for result in results]


def _names(group: Sequence[Result]) -> list[tuple[Result, str]]:
    """A name for each result of one method."""
    settings = [_settings(result) for result in group]
    values = [
        {name: json.dumps(of[name], default=str) for name in of} for of in settings
    ]  # as text, to be compared
    every = sorted({name for of in values for name in of})
    varied = [name for name in every if len({of.get(name) for of in values}) > 1]
    labels = len({_digest(result) for result in group}) > 1
    found = []
    for result, of in zip(group, settings, strict=True):
        words = [f"{name} = {of[name]}" for name in varied if name in of]
        words += [f"labels {_digest(result)[:8]}"] if labels and not varied else []
        method = str(result["method"])
        found.append((result, f"{method} ({', '.join(words)})" if words else method))
    return found


def _settings(result: Result) -> dict[str, Any]:
    recipe = result.get("recipe") or {}
    return {name: value for name, value in recipe.items() if name not in ALIKE}


def _digest(result: Result) -> str:
    return str((result.get("observation") or {}).get("digest", "unknown"))
