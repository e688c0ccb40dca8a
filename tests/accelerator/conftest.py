"""A second device, small data, and trainings on it and on the CPU."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import plusone.device
from plusone.inputs import forward as predict
from plusone.training import stack as linear
from plusone.training import trainer

HERE = Path(__file__).parent
collect_ignore = ["mimic_device.py"]  # it registers a device; tests/conftest.py imports it, once


def _load(path: Path, name: str) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


small = _load(HERE.parent / "training" / "conftest.py", "plusone_small_trainings")


@pytest.fixture
def mimic_device(monkeypatch):
    """The class of the device, for tests that choose its properties."""
    if "plusone_mimic_device" not in sys.modules:
        pytest.skip("a real accelerator is here, which `make test-accelerator` tests")
    monkeypatch.delenv("PLUSONE_DEVICE")
    return sys.modules["plusone_mimic_device"].MimicDevice


@pytest.fixture
def accelerator(monkeypatch):
    """A real accelerator; without one the test is skipped."""
    monkeypatch.delenv("PLUSONE_DEVICE")
    if (found := plusone.device.accelerator()) is None or found.type == "mimic":
        pytest.skip("no accelerator is here: torch.accelerator finds none")
    return found


@pytest.fixture
def device(mimic_device, monkeypatch):
    """The second device, strict: it has no float64. Images come in the batches of the CPU."""
    monkeypatch.setattr(predict, "IMAGES_ON_DEVICE", predict.ROWS["images"])
    with mimic_device(float64=False) as there:
        yield there


@pytest.fixture
def inside_steps(monkeypatch):
    """`inside_steps(block)`: every training step runs inside the context that `block()` makes."""

    def enter(block: Callable[[], AbstractContextManager[Any]]) -> None:
        step = trainer.training_step

        def watched(*args, **rest):
            with block():
                return step(*args, **rest)

        monkeypatch.setattr(trainer, "training_step", watched)
        monkeypatch.setattr(linear, "training_step", watched)

    return enter


@pytest.fixture
def reads_in_steps(inside_steps):
    """A block that collects the host reads of all training steps inside it."""

    @contextmanager
    def collecting(device) -> Iterator[list[str]]:
        reads: list[str] = []

        @contextmanager
        def noting() -> Iterator[None]:
            with device.reads() as noted:
                yield
            reads.extend(noted)

        inside_steps(noting)
        yield reads

    return collecting


@pytest.fixture
def second(request, reads_in_steps):
    """Name of the second device, and a block that collects the host reads of its steps.

    Beside a real accelerator there is none: the CPU again.
    """
    if "plusone_mimic_device" not in sys.modules:
        return "cpu", lambda: nullcontext([])
    device = request.getfixturevalue("device")
    return "mimic", lambda: reads_in_steps(device)


@pytest.fixture
def training():
    return small.make_training


@pytest.fixture
def feature_data():
    return small.feature_data


@pytest.fixture
def image_data():
    return small.image_data
