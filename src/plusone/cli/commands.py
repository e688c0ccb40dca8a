"""The commands: where each lives, and its line in the list of all.

A command's module is loaded when the command is called or its own help is wanted. The list needs
none of them, so the sentences are written down here; a test compares them with the modules' own.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# Name: the module in plusone.cli that has a function of that name, and its first sentence.
COMMANDS = {
    "demo": (
        "demo",
        "Train eight methods on the embedded digits, one positive label per image, and compare.",
    ),
    "example": ("example", "Make a folder of pictures with one tag each, to try everything on."),
    "methods": ("methods", "List the methods with their papers and options."),
    "prepare": (
        "prepare",
        "Make a label table of a public data set, and check it against the papers' counts.",
    ),
    "inspect": (
        "labels",
        "Count what is in a data set, or list every problem found (exit code 2).",
    ),
    "observe": (
        "labels",
        "Hide labels of a fully labelled data set, as an annotator would who gives few.",
    ),
    "features": (
        "labels",
        "Extract features of all images once, for training in seconds afterwards.",
    ),
    "priors": (
        "priors",
        "Estimate how many labels an item has (k), and how often each class applies.",
    ),
    "choose": ("choose", "Choose method, learning rate and epoch by seen labels alone."),
    "train": ("train", "Train a multi-label model from one positive label per item."),
    "evaluate": ("use", "Measure a trained model on labelled data."),
    "predict": ("use", "Predict labels and their probabilities for new items."),
    "export": ("export", "Write a trained model into a folder to pass on, with a model card."),
    "maps": ("maps", "Show where a model looked for each class (methods with maps, such as lac)."),
    "suggest": (
        "suggest",
        "Find labels that items have and nobody gave, with calibrated probabilities.",
    ),
    "review": ("review", "Accept or reject suggested labels on a page of your own computer."),
    "bench": ("bench", "Compare methods over data sets, modes and seeds."),
    "sweep": ("sweep", "Train with several values of one setting: a curve for each method."),
    "ablate": (
        "sweep",
        "Switch the parts of a method off, one by one, as the tables of its paper do.",
    ),
    "loop": ("loop", "Measure what a reviewer's answers are worth, on fully labelled data."),
    "gradients": (
        "analyse",
        "Show how hard losses pull at a label, against its probability; nothing is trained.",
    ),
    "intervals": (
        "analyse",
        "Tell how well the positives per item (k) are known from a few labelled items.",
    ),
    "surface": (
        "analyse",
        "Compute the training loss around a run's weights, on two random directions.",
    ),
    "report": (
        "report",
        "Write one HTML file with tables, learning curves and the papers' analyses.",
    ),
}


class Loaded(MutableMapping[str, Any]):
    """The commands by name, each loaded when it is first asked for."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = dict.fromkeys(COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if self._found[name] is None:
            self._found[name] = _load(name)
        return self._found[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: object) -> bool:
        return name in self._found


class LazyGroup(TyperGroup):
    """Lists the commands without loading them, and loads the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Loaded()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command's name and sentence, for lists and completion."""
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(name=cmd_name, help=COMMANDS[cmd_name][1])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from plusone.cli.listing import show

        show(self, ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, None if command is None else self.commands[str(name)], rest


def _load(name: str) -> Any:
    """The command itself, with its options and its help."""
    function = getattr(import_module(f"plusone.cli.{COMMANDS[name][0]}"), name)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name)(function)
    return typer.main.get_command(alone)
