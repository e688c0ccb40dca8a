"""What requests of Label Studio say: which classes are offered, and which an annotator chose."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from plusone.errors import InputError
from plusone.io.readers import parse_xml
from plusone.suggestions.outputs import image_name

CONFIG = "the labelling configuration"
NO_CHOICES = (
    f"{CONFIG} has no Choices for an Image with classes of the model; label-studio.xml is one that "
    "has"
)


@dataclass(frozen=True)
class Control:
    """The Choices of a labelling configuration that the model answers.

    Args:
        name: Its name.
        image: The name of the Image that it is for.
        key: Where the data of a task has the address of the image.
        classes: The classes of the model that are offered.
        several: Whether an annotator may choose more than one.
    """

    name: str
    image: str
    key: str
    classes: frozenset[str]
    several: bool

    def chosen(self, result: object) -> frozenset[str]:
        """The classes that a result chooses."""
        names: set[str] = set()
        for region in _objects(result):
            value = region.get("value")
            if region.get("from_name") == self.name and isinstance(value, dict):
                listed = value.get("choices")
                names |= {one for one in _listed(listed) if isinstance(one, str)}
        return frozenset(names & self.classes)


class Annotated(NamedTuple):
    """What an annotator decided.

    Args:
        id: Number of the annotation.
        name: Name of the image; None if it is not one of ours.
        chosen: The classes that were chosen; nothing of one that was skipped.
        shown: The classes of the prediction that it was made from, as far as Label Studio says so.
        from_prediction: Whether it was made from a prediction.
        control: The Choices.
        skipped: Whether the annotator skipped the task.
    """

    id: int
    name: str | None
    chosen: frozenset[str]
    shown: frozenset[str]
    from_prediction: bool
    control: Control
    skipped: bool


@lru_cache(maxsize=64)
def read_control(config: str, classes: tuple[str, ...]) -> Control:
    """The first Choices for an Image that offers classes of the model.

    Raises:
        InputError: There is none, or the configuration is not XML.
    """
    images: dict[str, str] = {}
    controls: list[Control] = []
    wanted = frozenset(classes)

    def start(tag: str, given: dict[str, str], _: int) -> None:
        if tag == "Image" and given.get("value", "").startswith("$"):
            images[given.get("name", "")] = given["value"][1:]
        elif tag == "Choices":
            several = given.get("choice") == "multiple"
            controls.append(
                Control(given.get("name", ""), given.get("toName", ""), "", frozenset(), several)
            )
        elif tag == "Choice" and controls:
            name = given.get("alias") or given.get("value", "")
            last = controls[-1]
            controls[-1] = replace(last, classes=last.classes | ({name} & wanted))

    parse_xml(config.encode("utf-8", "replace"), start, name=CONFIG)
    for control in controls:
        if control.image in images and control.classes:
            return replace(control, key=images[control.image])
    raise InputError(NO_CHOICES)


def name_of(task: Mapping[str, Any], control: Control, prefix: str) -> str | None:
    """The name of the image of a task; None if its address does not begin with the prefix."""
    data = task.get("data")
    address = data.get(control.key) if isinstance(data, dict) else None
    return image_name(address, prefix) if isinstance(address, str) else None


def annotated(
    annotation: Mapping[str, Any], task: Mapping[str, Any], control: Control, prefix: str
) -> Annotated | None:
    """An annotation of a task; None if it has no number."""
    number = annotation.get("id")
    if not isinstance(number, int):
        return None
    snapshot = annotation.get("prediction")
    shown = control.chosen(snapshot.get("result")) if isinstance(snapshot, dict) else frozenset()
    return Annotated(
        number,
        name_of(task, control, prefix),
        control.chosen(annotation.get("result")),
        shown,
        annotation.get("parent_prediction") is not None,
        control,
        annotation.get("was_cancelled") is True,
    )


def pairs_of(event: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The annotations of an event, each with its task."""
    annotations, tasks = _listed(event.get("annotation")), _listed(event.get("task"))
    yield from zip(_objects(annotations), _objects(tasks), strict=False)


def pairs_in(export: object) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The annotations of tasks in Label Studio's JSON, each with its task."""
    for task in _objects(export):
        for annotation in _objects(task.get("annotations")):
            yield annotation, task


def control_in(export: object, classes: tuple[str, ...], prefix: str) -> Control:
    """The Choices of an export, which has no configuration: those of its first result with any.

    Raises:
        InputError: No result has choices, or no address begins with the prefix.
    """
    for annotation, task in pairs_in(export):
        data = task.get("data")
        fields = data.items() if isinstance(data, dict) else ()
        keys = [
            name
            for name, value in fields
            if isinstance(value, str) and image_name(value, prefix) is not None
        ]
        for region in _objects(annotation.get("result")):
            if region.get("type") == "choices" and keys:
                name, image = str(region.get("from_name")), str(region.get("to_name"))
                return Control(name, image, keys[0], frozenset(classes), True)
    raise InputError(f"no annotation in it has choices and an image that begins with {prefix}")


def answers(one: Annotated, shown: Collection[str], *, complete: bool) -> dict[str, bool]:
    """Which classes an annotator said yes or no to.

    A class that was shown as predicted and taken away is a no, and so is every other class with
    `complete`; where only one may be chosen, the others were not judged.
    """
    if one.skipped:
        return {}
    no: Sequence[str] = []
    if one.control.several:
        no = sorted((one.control.classes if complete else frozenset(shown)) - one.chosen)
    return dict.fromkeys(sorted(one.chosen), True) | dict.fromkeys(no, False)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
