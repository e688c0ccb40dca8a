"""`BenchSpec`: the validated description of a comparison, read from and written to TOML."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from plusone.data.source import EMBEDDED
from plusone.errors import InputError
from plusone.methods import get_method
from plusone.recipe import MOST_PROCESSES, first_of, read_toml, shortened, to_toml_value

Mode = Literal["linear", "finetune", "linear_init"]
Value = TypeVar("Value")


def _with_none(value: Any) -> Any:
    """Settings with None in place of the word none, since TOML has no null."""
    if isinstance(value, dict):
        return {name: _with_none(entry) for name, entry in value.items()}
    return None if isinstance(value, str) and value.lower() == "none" else value


def _without_none(value: Any) -> Any:
    """The inverse of `_with_none`."""
    if isinstance(value, dict):
        return {name: _without_none(entry) for name, entry in value.items()}
    return "none" if value is None else value


Settings = Annotated[dict[str, Any], AfterValidator(_with_none)]


def _different(values: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys(values))


def _is_path(name: str) -> str:
    if "\0" in name:
        raise ValueError("has a zero byte in it")
    return name


PathName = Annotated[str, AfterValidator(_is_path)]


class DataSpec(BaseModel):
    """One `[[data]]` block.

    Args:
        path: An embedded data set, or a path; relative paths start at the TOML file.
        hints: A file with scores from elsewhere, for the methods that use them.
        classes: A CSV with the columns class,parent; `classes.csv` beside the labels by default.
        name: Its name in tables; by default the one its reader gives.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    path: PathName
    features: tuple[PathName, ...] = ()
    hints: PathName | None = None
    classes: PathName | None = None
    format: str = "auto"
    labels: str = "auto"
    name: str | None = Field(None, min_length=1)
    settings: Settings = {}


class BenchSpec(BaseModel):
    """A comparison: methods x data sets x modes x seeds.

    Args:
        methods: Names of methods; "all" is every one.
        seeds: Seeds; tuning uses the first.
        modes: How to train; none = chosen by the data.
        lr: Learning rates to choose from; none = each method's default.
        tune: Choose each method's options on validation data too.
        search: How: a small grid, Optuna, or the learning rates alone.
        trials: Finished trials of a study, for Optuna.
        storage: Database of the studies; none = a journal file in the folder.
        method: Recipe settings of single methods, by name.
        rules: Whether rules that look at the data choose what is not given, as in `plusone train`.
            A file describes a comparison in full: in it, rules are off unless switched on.
        protocol: What rows share; see `plusone.compare.protocol`.
        draws: Whether a seed also draws the observed labels and the validation items.
        extend: Whether rates beyond the listed ones are tried where one at the edge is best.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    data: tuple[DataSpec, ...] = Field(min_length=1)
    methods: Annotated[
        tuple[str, ...],
        BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
        Field(min_length=1),
        AfterValidator(_different),
    ]
    seeds: Annotated[tuple[int, ...], Field(min_length=1), AfterValidator(_different)] = (0, 1, 2)
    modes: Annotated[tuple[Mode, ...], AfterValidator(_different)] = ()
    lr: Annotated[tuple[float, ...], AfterValidator(_different)] = ()
    tune: bool = False
    search: Literal["grid", "optuna", "rate"] = "grid"
    trials: int = Field(20, ge=1, le=1_000_000)
    storage: str | None = None
    settings: Settings = {}
    method: dict[str, Settings] = {}
    workers: int = Field(2, ge=1, le=MOST_PROCESSES)
    rules: bool = False
    protocol: Literal["papers", "product"] = "papers"
    draws: bool = False
    extend: bool = True

    def to_toml(self, folder: Path, plugins: Sequence[str] = ()) -> str:
        """The spec as TOML for a file in `folder`; paths are relative to that folder.

        The storage is left out: the address of a database may hold a password. Plug-ins are named
        in a comment alone: a file must not load code.
        """
        plain = self.model_dump(mode="json", exclude={"storage"})
        data, method = plain.pop("data"), _without_none(plain.pop("method"))
        plain["settings"] = _without_none(plain["settings"])
        if not self.tune:
            del plain["search"], plain["trials"]
        more = "".join(f" --plugin {name}" for name in plugins)
        again = f"plusone bench bench.toml --out .{more}"
        lines = [f"# The comparison of this folder; {again} continues it"]
        filled = {name: value for name, value in plain.items() if value not in ([], {})}
        lines += [f"{name} = {to_toml_value(value)}" for name, value in filled.items()]
        for block in data:
            block["settings"] = _without_none(block["settings"])
            block["path"] = _relative_to(folder, block["path"])
            block["features"] = [_relative_to(folder, path) for path in block["features"]]
            block["hints"] = block["hints"] and _relative_to(folder, block["hints"])
            lines += ["", "[[data]]"]
            lines += [f"{name} = {to_toml_value(value)}" for name, value in block.items() if value]
        for name, settings in method.items():
            lines += ["", f"[method.{json.dumps(name)}]"]
            lines += [
                f"{json.dumps(key)} = {to_toml_value(value)}" for key, value in settings.items()
            ]
        return "\n".join(lines) + "\n"


def read_spec(path: Path, flags: Mapping[str, Any], settings: Settings) -> BenchSpec:
    """Reads a comparison from TOML.

    A file does not say where files are written: its `cache_dir` is left out, its `storage` refused.
    Relative paths in it start at its folder. Flags replace its fields, and settings take precedence
    over all of its settings.
    """
    fields = read_toml(path)
    if "storage" in fields:
        raise InputError(f"{path}: the storage of studies is given by --storage, not by a file")
    tunes = {"tune": True} if "search" in fields else {}
    spec = make_spec({"methods": ["all"]} | tunes | fields | dict(flags), source=str(path))
    elsewhere = {"cache_dir": None}
    blocks = [
        block.model_copy(
            update={
                "path": _resolved(path.parent, block.path),
                "features": tuple(_resolved(path.parent, entry) for entry in block.features),
                "hints": block.hints and _resolved(path.parent, block.hints),
                "settings": _without(block.settings, settings | elsewhere),
            }
        )
        for block in spec.data
    ]
    methods = {name: _without(given, settings | elsewhere) for name, given in spec.method.items()}
    merged = merge_settings(_without(spec.settings, elsewhere), settings)
    spec = spec.model_copy(update={"data": tuple(blocks), "method": methods, "settings": merged})
    _check_settings(spec, "--set")
    return spec


def make_spec(values: Mapping[str, Any], *, source: str) -> BenchSpec:
    """Builds a spec, refusing unknown fields and wrong values."""
    try:
        spec = BenchSpec(**values)
    except ValidationError as error:
        raise InputError(f"{source}: {_explain(error)}") from None
    _check_settings(spec, source)
    return spec


def _check_settings(spec: BenchSpec, source: str) -> None:
    """Refuses settings that another field determines, so that none is silently ignored."""
    general = [spec.settings, *(block.settings for block in spec.data)]
    rules = (
        ("method", "methods", True, [*general, *spec.method.values()]),
        ("seed", "seeds", True, [*general, *spec.method.values()]),
        ("lr", "lr", bool(spec.lr), general),
        ("mode", "modes", bool(spec.modes), [*general, *spec.method.values()]),
    )
    for name, field, decided, places in rules:
        if decided and any(name in settings for settings in places):
            raise InputError(f"{source}: {name} is also among the settings; {field} decides it")


def merge_settings(first: Settings, second: Settings) -> Settings:
    """Both settings, the second taking precedence; `options` are merged key by key."""
    options = {**first.get("options", {}), **second.get("options", {})}
    return {**first, **second} | ({"options": options} if options else {})


def settings_of_row(settings: Settings, method: str) -> Settings:
    """Settings given for all methods, as one of them takes them.

    An observation scheme is for the methods that are compared under it. Those that are defined by
    the labels they see, such as `bce`, keep their own.
    """
    if get_method(method).scheme == "single":
        return settings
    return {name: value for name, value in settings.items() if name != "observe"}


def _without(settings: Settings, given: Settings) -> Settings:
    remaining = {name: value for name, value in settings.items() if name not in given}
    if isinstance(settings.get("options"), dict):
        pinned = given.get("options", {})
        options = settings["options"].items()
        remaining["options"] = {name: value for name, value in options if name not in pinned}
    return remaining


def _explain(error: ValidationError) -> str:
    """What is wrong with a spec, in one line the user can act on."""
    parts = []
    for problem in error.errors():
        place = problem["loc"]
        name = ".".join(str(part) for part in place)
        if problem["type"] == "extra_forbidden":
            known = DataSpec if place[0] == "data" else BenchSpec
            parts.append(f"unknown entry {name!r}; entries: {', '.join(known.model_fields)}")
        elif problem["type"] == "missing":
            parts.append(f"needs {'a [[data]] block with a path' if name == 'data' else name}")
        else:
            parts.append(f"{name} = {shortened(problem['input'])}: {problem['msg'].lower()}")
    return first_of(parts)


def _resolved(folder: Path, name: str) -> str:
    """The path that a file of `folder` means."""
    return name if name in EMBEDDED else os.fspath(folder / name)


def _relative_to(folder: Path, name: str) -> str:
    """A path as written in a file of `folder`."""
    if name in EMBEDDED:
        return name
    return Path(os.path.relpath(Path(name).resolve(), folder.resolve())).as_posix()
