"""Computing all pieces of a source: in processes of this machine, or on a Ray cluster.

Every piece is one parquet file in the folder of results, written whole; those that are there are
not computed again, so that a stopped job continues where it was.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from plusone.batch.functions import ERROR, FeatureBatches, TagBatches
from plusone.batch.storage import (
    ROWS,
    Piece,
    find_pieces,
    finished_parts,
    opened,
    tables_of,
    write_part,
)
from plusone.errors import InputError
from plusone.extras import install_command
from plusone.io.keys import content_key, file_sample
from plusone.parallel.environment import children_import_nothing_from_here
from plusone.parallel.worker_pool import in_processes
from plusone.version import __version__

Engine = Literal["processes", "ray"]
FUNCTIONS: dict[str, Callable[..., Callable[[Any], Any]]] = {
    "features": FeatureBatches,
    "tags": TagBatches,
}
SAMPLES, SAMPLE_BYTES = 64, 4096  # pieces of a weights file that stand for it


@dataclass(frozen=True)
class Job:
    """What is computed of which items.

    Args:
        kind: Features of images, or tags by a run.
        settings: Arguments of the function of `plusone.batch.functions`, by name.
        source: A folder, a pattern or a file of any storage.
        out: The folder of results, on any storage.
        rows: Image files of a piece.
    """

    kind: Literal["features", "tags"]
    settings: tuple[tuple[str, Any], ...]
    source: str
    out: str
    rows: int = ROWS

    def about(self, key: str) -> dict[str, Any]:
        """What the results depend on, for the folder that holds them."""
        settings = {name: value for name, value in self.settings if name != "device"}
        if self.kind == "tags":
            model = Path(str(settings["run"])) / "model.safetensors"
            try:
                settings["model"] = content_key(file_sample(model, SAMPLES, SAMPLE_BYTES))
            except OSError:
                raise InputError(f"{model}: cannot be read; give the folder of a run") from None
        return {
            "plusone": __version__,
            "computes": self.kind,
            "settings": settings,
            "source": self.source,
            "key": key,
        }


@dataclass(frozen=True)
class Done:
    """A piece that was computed.

    Args:
        part: The name of its file.
        rows: Its rows.
        errors: Those of them that could not be read.
    """

    part: str
    rows: int
    errors: int


def run_job(
    job: Job, engine: Engine = "processes", workers: int = 1, gpus: float = 0
) -> tuple[int, int, Iterator[Done]]:
    """Computes what is missing of a job.

    Args:
        job: The job.
        engine: What drives it; "ray" connects to the cluster of `RAY_ADDRESS`, or starts one here.
        workers: Processes, each with a model of its own; 0 computes in this one.
        gpus: Cards of each worker, for Ray.

    Returns:
        The number of all pieces, of those that were there, and the others as they are finished.
    """
    found = find_pieces(job.source, job.rows)
    held = finished_parts(job.out, job.about(found.key))
    missing = [piece for piece in found.pieces if piece.part not in held]
    done = _on_ray(job, missing, workers, gpus) if engine == "ray" else _here(job, missing, workers)
    return len(found.pieces), len(found.pieces) - len(missing), done


def compute(job: Job, piece: Piece) -> Done:
    """Computes a piece and writes its part."""
    import pyarrow

    function = _function(job.kind, job.settings)
    try:
        tables = [function(table) for table in tables_of(job.source, piece)]
    except InputError as error:
        raise InputError(f"{piece.files[0]}: {error}") from None
    table = pyarrow.concat_tables(tables)
    write_part(job.out, piece.part, table)
    return Done(piece.part, len(table), len(table) - table.column(ERROR).null_count)


@cache
def _function(kind: str, settings: tuple[tuple[str, Any], ...]) -> Callable[[Any], Any]:
    """The function of a job; a process makes it once."""
    return FUNCTIONS[kind](**dict(settings))


def _here(job: Job, pieces: list[Piece], workers: int) -> Iterator[Done]:
    if not workers:
        yield from (compute(job, piece) for piece in pieces)
        return
    work, waiting = partial(compute, job), deque(pieces)
    yield from in_processes(work, waiting, min(workers, len(pieces)) or 1, lambda x: x.part)


class _RayWorker:
    """What Ray Data applies to batches of one piece each."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        done = [compute(self.job, piece) for piece in batch["piece"]]
        return {"done": [(one.part, one.rows, one.errors) for one in done]}


def _on_ray(job: Job, pieces: list[Piece], workers: int, gpus: float) -> Iterator[Done]:
    if not pieces:
        return
    system, path = opened(job.out)  # workers have another working folder
    job = replace(job, out=system.unstrip_protocol(path))
    with ray_data() as data:
        rows = data.from_items([{"piece": piece} for piece in pieces])
        pool = data.ActorPoolStrategy(size=max(1, min(workers, len(pieces))))
        results = rows.map_batches(
            _RayWorker,
            fn_constructor_args=[job],
            batch_size=1,
            compute=pool,
            num_gpus=gpus or None,
        )
        for row in results.iter_rows():
            yield Done(*row["done"])


@contextmanager
def ray_data() -> Iterator[Any]:
    """Ray Data, on the cluster of `RAY_ADDRESS` or one on this machine that ends with the block."""
    local: dict[str, Any] = {}
    if not os.environ.get("RAY_ADDRESS") and "ray" not in sys.modules:
        # Closed to everyone but this process; Ray reads the variables when it is imported.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        local = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        import ray
        import ray.data
    except ImportError:
        raise InputError(f"--engine ray needs ray: {install_command('ray')}") from None
    started = not ray.is_initialized()
    if started:
        # Ray's workers import first from what is the working folder here.
        with chdir(Path(sys.executable).anchor), children_import_nothing_from_here():
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **local)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield ray.data
    finally:
        if started:
            ray.shutdown()
