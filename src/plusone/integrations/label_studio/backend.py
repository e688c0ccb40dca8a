"""The work behind the requests: a run that predicts, the answers it got, and training on these.

| in the folder | content |
| --- | --- |
| `answers.sqlite` | the history of answers, as of `plusone review` |
| `labels.npz` | the labels of the run and all answers, as `plusone train` takes them |
| `shown.jsonl` | the classes that were predicted for each image |
| `runs/1`, `runs/2`, ... | the runs trained on answers; the last complete one predicts |
| `label-studio.xml` | a labelling configuration with the classes of the run |
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock, RLock, Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from plusone.build import plan_of
from plusone.data.checks import id_fault, missing_images
from plusone.data.classes_file import CLASSES, write_parents
from plusone.data.dataset import Dataset
from plusone.data.feature_store import features_folder
from plusone.data.formats import write as write_table
from plusone.data.images import IMAGE_SUFFIXES
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, first_line
from plusone.integrations.label_studio.tasks import (
    Annotated,
    Control,
    annotated,
    answers,
    name_of,
    pairs_of,
    read_control,
)
from plusone.io.files import alone_in, write_text
from plusone.io.jsonl import append_jsonl, read_jsonl
from plusone.io.keys import content_key, file_key
from plusone.prediction.items import Items
from plusone.prediction.load import Predictor, load_run
from plusone.prediction.run_folder import read_observed
from plusone.prediction.tags import predict_all
from plusone.probabilities.thresholds import read_thresholds
from plusone.reviewing.reviewed_labels import apply_answers
from plusone.reviewing.store import Answer, Ledger, Pair, Store
from plusone.suggestions.find import find, run_k, run_recipe
from plusone.suggestions.outputs import choices, labelling_config

ANSWERED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")
LABELS, RECIPE, SHOWN = "labels.npz", "recipe.toml", "shown.jsonl"
HALF = 0.5  # above it a missing label is predicted, as by plusone suggest
STOP_SECONDS = 10.0  # until a process that was told to stop has

Flags = npt.NDArray[np.bool_]
Probabilities = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Serving:
    """A run that predicts.

    Args:
        folder: The run.
        version: What Label Studio calls it.
        predictor: The model.
        cuts: Probability above which a class of a new image is predicted, `[L]`.
        rows: The row of each item of the run in `found`.
        found: Probabilities of the labels of the items of the run, `[n, L]`, each by a model that
            was not fitted on the item.
    """

    folder: Path
    version: str
    predictor: Predictor
    cuts: npt.NDArray[np.float64]
    rows: Mapping[str, int]
    found: Probabilities

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the model."""
        return self.predictor.classes

    def likely(self, paths: Mapping[str, Path]) -> dict[str, tuple[Probabilities, Flags]]:
        """Probabilities and predicted classes of images, by name; unreadable ones are left out."""
        known = {name: self.found[self.rows[name]] for name in paths if name in self.rows}
        likely = {name: (p, p > HALF) for name, p in known.items()}
        new = {name: path for name, path in paths.items() if name not in known}
        items = Items(tuple(new), tuple(new.values()))
        for part in predict_all(self.predictor, [items] if new else [], features_folder()):
            for name, p in zip(part.ids, part.probabilities.double().numpy(), strict=True):
                likely[name] = (p, p > self.cuts)
        return likely


def load_serving(folder: Path, images: Path, name: str, device: str) -> Serving:
    """Loads a run; the items of one in closed form are predicted without what they taught it.

    Args:
        folder: The run.
        images: The folder of its images.
        name: What the version begins with.
        device: What computes.
    """
    predictor = load_run(folder, device)
    if not predictor.images or predictor.shape[0] != 3:
        raise InputError(f"{folder}: Label Studio shows image files; this model does not take them")
    version = f"{name}-{file_key(folder / 'model.safetensors', 8)}"
    cuts = read_thresholds(folder, predictor.classes).array
    table = replace(read_observed(folder), root=images)
    rows: dict[str, int] = {}
    found: Probabilities = np.zeros((0, len(predictor.classes)))
    closed = plan_of(predictor.recipe, images=True).closed_form
    if closed and is_run(folder) and not missing_images(table.ids, images):
        found = find(
            Dataset(table, name=name),
            run_recipe(folder, device),
            positives=run_k(folder, table),
            features_folder=features_folder(),
            run=folder,
        ).calibrated.probabilities
        rows = {item: row for row, item in enumerate(table.ids.tolist())}
    return Serving(folder, version, predictor, cuts, rows, found)


def is_run(folder: Path) -> bool:
    """Whether a folder is a run, which has its labels; an export has none."""
    return (folder / "metrics.json").is_file()


class Backend:
    """Predicts, keeps answers, and trains; its methods may be called from any thread.

    Args:
        run: The run to begin with.
        images: The folder of the images; the items of the run are named below it.
        prefix: What the addresses of images in Label Studio have before these names.
        folder: Where answers and new runs are kept; it is locked until `close`.
        train_every: Annotations after which a run is trained; 0 to train only when asked.
        complete: Whether classes that an annotator did not choose are absent.
        device: What computes.
        plugins: Files with methods, for the training.
        say: Told what happens.
    """

    def __init__(
        self,
        run: Path,
        images: Path,
        prefix: str,
        folder: Path,
        *,
        train_every: int = 0,
        complete: bool = False,
        device: str = "auto",
        plugins: Sequence[Path] = (),
        say: Callable[[str], None] = print,
    ) -> None:
        self.run, self.images, self.prefix, self.folder = run, images.resolve(), prefix, folder
        self.train_every, self.complete = train_every, complete
        self.device, self.plugins, self.say = device, plugins, say
        self._ledger = Ledger()
        self._own: dict[str, dict[Pair, str]] = {}  # what each annotation says now
        self._lock, self._predicting = RLock(), Lock()
        self._new = 0  # annotations since the last run began
        self._thread: Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._again = self._closed = False
        with ExitStack() as opened:
            opened.enter_context(alone_in(folder))
            self.serving = load_serving(self._latest(), self.images, self._name(), device)
            self._store = Store(folder / "answers.sqlite")
            opened.callback(self._store.close)
            self._shown = self._read_shown()
            write_text(folder / "label-studio.xml", labelling_config(self.serving.classes))
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Ends the run that is being trained, and lets go of the folder."""
        with self._lock:
            self._closed = True
            process, thread = self._process, self._thread
        if process is not None:
            with suppress(OSError):
                process.terminate()
        if thread is not None:
            thread.join(STOP_SECONDS)
        self._opened.close()

    @property
    def untrainable(self) -> str:
        """Why answers are kept and no run is trained on them; "" if they can be."""
        if not is_run(self.run):
            return f"{self.run} is an export, without the labels that it was trained on"
        ids = read_observed(self.run).ids
        if missing := missing_images(ids, self.images):
            return f"{len(missing)} of the {len(ids)} images of {self.run} are not in {self.images}"
        return ""

    def control(self, config: object) -> Control:
        """The Choices of a labelling configuration."""
        if not isinstance(config, str):
            raise InputError("the request has no labelling configuration")
        return read_control(config, self.serving.classes)

    def predict(self, config: object, tasks: Sequence[Mapping[str, Any]]) -> list[Any]:
        """A prediction for each task, or `[]` for one whose image is not there."""
        serving = self.serving  # a new run may take its place meanwhile
        control = self.control(config)
        names = [name_of(task, control, self.prefix) for task in tasks]
        paths = {name: path for name in names if name and (path := self._path(name)) is not None}
        with self._predicting:
            likely = serving.likely(paths)
        offered = np.array([name in control.classes for name in serving.classes])
        predicted: dict[str, Any] = {}
        for name, (p, chosen) in likely.items():
            predicted[name] = _prediction(serving, control, p, chosen, offered)
        self._keep_shown(
            {name: sorted(control.chosen(one["result"])) for name, one in predicted.items()}
        )
        return [predicted.get(name or "", []) for name in names]

    def event(self, event: Mapping[str, Any]) -> str:
        """What a webhook tells; returns what was done about it."""
        action = event.get("action")
        if action == "START_TRAINING":
            return self.train()
        if action == "ANNOTATIONS_DELETED":
            deleted = event.get("annotations")
            listed = deleted if isinstance(deleted, list) else []
            numbers = [one.get("id") for one in listed if isinstance(one, dict)]
            for number in numbers:
                self._record(f"annotation {number}", {})
            return f"{len(numbers)} annotations deleted"
        if action not in ANSWERED:
            return "ignored"
        project = event.get("project")
        config = project.get("label_config") if isinstance(project, dict) else None
        return self.annotations(self.control(config), pairs_of(event))

    def annotations(
        self, control: Control, pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]
    ) -> str:
        """Keeps annotations, each with its task; trains if there are enough new ones."""
        kept = elsewhere = 0
        for annotation, task in pairs:
            one = annotated(annotation, task, control, self.prefix)
            if one is None:
                continue
            if one.name is None or self._path(one.name) is None:
                elsewhere += 1
                continue
            self._annotation(one.name, one)
            kept += 1
        with self._lock:
            self._new += kept
            enough = 0 < self.train_every <= self._new
        if enough:
            self.train()
        what = f"{kept} annotations kept"
        return f"{what}, {elsewhere} of images that are not ours left out" if elsewhere else what

    def _annotation(self, name: str, one: Annotated) -> None:
        shown = one.shown
        if one.from_prediction and not shown:
            shown = self._shown.get(name, frozenset()) & one.control.classes
        decided = answers(one, shown, complete=self.complete)
        given = {(name, label): "yes" if yes else "no" for label, yes in decided.items()}
        self._record(f"annotation {one.id}", given)

    def _record(self, session: str, given: Mapping[Pair, str]) -> None:
        """Keeps what an annotation says now, instead of what it said before, in one step."""
        with self._lock:
            self._sync()
            before = self._own.get(session, {})
            wanted = dict.fromkeys(before, "skip") | dict(given)
            now = sorted((*pair, to) for pair, to in wanted.items() if before.get(pair) != to)
            if now:
                # The history so far is in the key: the same answers may come back after others.
                step = content_key((session, self._ledger.last, now), length=32)
                self._store.append(session, step, [Answer(*one) for one in now])

    def _sync(self) -> None:
        entries = self._store.since(self._ledger.last)
        for entry in entries:
            own, pair = self._own.setdefault(entry.session, {}), (entry.item, entry.label)
            own[pair] = entry.action
            if entry.action == "skip":
                del own[pair]
        self._ledger.add(entries)

    def _path(self, name: str) -> Path | None:
        """The file of an image; None if there is none, or if it is not in the folder."""
        if id_fault(name) is not None or not name.lower().endswith(IMAGE_SUFFIXES):
            return None
        path = self.images / name
        try:
            own = name in self.serving.rows or path.resolve().is_relative_to(self.images)
            return path if own and path.is_file() else None
        except OSError:  # too long a name, a link that leads to itself
            return None

    def labels(self) -> LabelTable:
        """The labels of the run, and all answers."""
        table = replace(read_observed(self.run), root=self.images)
        with self._lock:
            self._sync()
            verdicts = dict(self._ledger.verdicts)
        given = {pair: one.answer for pair, one in verdicts.items() if one.answer in ("yes", "no")}
        names = sorted({name for name, _ in given} - {*table.ids.tolist()})
        table = with_items(table, [name for name in names if self._path(name) is not None])
        rows = {name: row for row, name in enumerate(table.ids.tolist())}
        columns = {name: label for label, name in enumerate(table.classes)}
        entries = [
            (rows[name], columns[label], answer == "yes")
            for (name, label), answer in given.items()
            if name in rows and label in columns
        ]
        row, label, yes = np.array(entries, dtype=np.int64).reshape(-1, 3).T
        table = apply_answers(table, row, label, yes.astype(bool))
        return replace(table, observation=dict(table.observation) | {"run": self.run.name})

    def write_labels(self) -> LabelTable:
        """Writes the labels of the run and all answers; returns them."""
        table = self.labels()
        write_table(table, self.folder / LABELS)
        if table.hierarchy is not None:
            write_parents(self.folder / CLASSES, table.classes, table.hierarchy)
        return table

    def train(self) -> str:
        """Begins to train on all answers, unless that goes on or nothing is new."""
        if why := self.untrainable:
            return f"not trained: {why}"
        with self._lock:
            self._new = 0
            if self._closed:
                return "not trained: the server stops"
            if self._thread is not None and self._thread.is_alive():
                self._again = True
                return "training already; it trains again after that"
            self._thread = Thread(target=self._train, name="training")
            self._thread.start()
        return "training"

    def _train(self) -> None:
        while True:
            try:
                self._train_once()
            except Exception as error:  # the old run goes on
                self.say(f"not trained: {first_line(error)}")
            with self._lock:
                if not self._again or self._closed:
                    self._thread = None
                    return
                self._again = False

    def _train_once(self) -> None:
        """Trains in a process of its own; the new run takes the place of the old one at the end."""
        table = self.write_labels()
        if same_labels(table, read_observed(self.serving.folder)):
            self.say("not trained: no answer is new")
            return
        recipe = run_recipe(self.run, self.device)
        recipe = recipe.model_copy(update={"observe": "given", "select_on": "observed"})
        write_text(self.folder / RECIPE, recipe.to_toml())
        folder = self.folder / "runs" / str(max(self._numbers(), default=0) + 1)
        shutil.rmtree(folder, ignore_errors=True)  # one that was stopped
        files = {"-r": self.folder / RECIPE, "--out": folder}
        words = ["train", str(self.folder / LABELS), "--json"]
        words += [str(word) for pair in files.items() for word in pair]
        words += [str(word) for file in self.plugins for word in ("--plugin", file)]
        with self._lock:
            if self._closed:
                return
            process = self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "plusone", *words],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
        _, said = process.communicate()
        if process.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            last = said.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise InputError(last.removeprefix("plusone: ") or "the process was stopped")
        serving = load_serving(folder, self.images, self._name(folder), self.device)
        self.serving = serving
        self.say(f"trained on {table.observation['answers']} answers: {serving.version}")

    def _numbers(self) -> list[int]:
        """The numbers of the complete runs trained here."""
        folders = [path.parent for path in (self.folder / "runs").glob("*/metrics.json")]
        return [int(path.name) for path in folders if path.name.isdecimal()]

    def _latest(self) -> Path:
        number = max(self._numbers(), default=None)
        return self.run if number is None else self.folder / "runs" / str(number)

    def _name(self, folder: Path | None = None) -> str:
        folder = folder or self._latest()
        name = self.run.resolve().name
        return name if folder == self.run else f"{name}-{folder.name}"

    def _keep_shown(self, shown: Mapping[str, list[str]]) -> None:
        with self._lock:
            new = {n: one for n, one in shown.items() if self._shown.get(n) != frozenset(one)}
            if new:
                append_jsonl(self.folder / SHOWN, *({"image": n, "labels": new[n]} for n in new))
                self._shown |= {name: frozenset(labels) for name, labels in new.items()}

    def _read_shown(self) -> dict[str, frozenset[str]]:
        path = self.folder / SHOWN
        lines: Iterator[Any] = read_jsonl(path, skip_damaged=True) if path.exists() else iter(())
        return {str(one["image"]): frozenset(map(str, one["labels"])) for one in lines}


def with_items(table: LabelTable, names: Sequence[str]) -> LabelTable:
    """The table with further training items, of which nothing is known; each is a group."""
    if not names:
        return table
    ids, count = np.array(names, dtype=np.str_), len(names)
    empty = LabelMatrix.from_entries([], [], 1, (count, len(table.classes)))
    split, groups, named = table.split, table.groups, table.named
    return replace(
        table,
        ids=np.concatenate([table.ids, ids]),
        labels=LabelMatrix.concatenate([table.labels, empty.with_default(table.labels.default)]),
        split=None if split is None else np.concatenate([split, np.repeat("train", count)]),
        groups=None if groups is None else np.concatenate([groups, ids]),
        named=None if named is None else LabelMatrix.concatenate([named, empty]),
        hints=None,
    )


def same_labels(one: LabelTable, other: LabelTable) -> bool:
    """Whether two tables have the same seen labels of the same items, in any order."""
    rows = {name: row for row, name in enumerate(other.ids.tolist())}
    names = one.ids.tolist()
    if rows.keys() != {*names}:
        return False
    order = np.array([rows[name] for name in names], dtype=np.int64)
    return one.labels.digest() == other.labels.take(order).digest()


def _prediction(
    serving: Serving, control: Control, p: Probabilities, chosen: Flags, offered: Flags
) -> dict[str, Any]:
    """A prediction as Label Studio takes it.

    Its score is the probability of the least certain class that is chosen, as in the tasks of
    plusone suggest; of the most probable one if none is.
    """
    order = np.argsort(-p, kind="stable")
    labels = [label for label in order.tolist() if chosen[label] and offered[label]]
    labels = labels if control.several else labels[:1]
    score = p[labels].min() if labels else p[offered].max()
    return {
        "result": choices(
            [serving.classes[label] for label in labels], control.name, control.image
        ),
        "score": round(float(score), 6),
        "model_version": serving.version,
    }
