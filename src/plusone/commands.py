"""The main commands as Python calls: the same work, with results instead of printed tables.

Paths may be text; a run is its folder, or what `train` returned. Errors are those of the commands
(`plusone.errors.InputError`, a `ValueError`, where the input is to blame).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from plusone.autorecipe import compose, facts_of
from plusone.data._arrow import is_table
from plusone.data.classes_file import parents_file
from plusone.data.dataset import Dataset
from plusone.data.feature_store import features_folder
from plusone.data.formats import write
from plusone.data.frames import dataset_of
from plusone.data.source import load_source, make_source, short_name
from plusone.data.table import LabelTable
from plusone.data.text_features import MADE_BY
from plusone.errors import InputError, RunError
from plusone.inputs.task import make_task
from plusone.io.files import alone_in
from plusone.prediction.guaranteed_thresholds import Guaranteed, guaranteed_thresholds
from plusone.prediction.items import find_items
from plusone.prediction.load import Predictor, load_run
from plusone.prediction.run_folder import (
    read_audit,
    read_description,
    source_of,
)
from plusone.prediction.tags import Predictions, predict_all
from plusone.probabilities.thresholds import Thresholds, thresholds_for
from plusone.recipe import Recipe
from plusone.results import EpochRecord, RunResult
from plusone.suggestions.audit_folder import promise, write_questions
from plusone.suggestions.find import (
    LEAST,
    Found,
    drawn_weights,
    find,
    run_k,
    run_labels,
    run_recipe,
)
from plusone.suggestions.outputs import accepted_file, write_found
from plusone.training.rates import pick_rate
from plusone.training.run import train as train_task

if TYPE_CHECKING:
    from plusone.reviewing.desk import Desk
    from plusone.web.server import Server

File = str | PathLike[str]
Files = File | Sequence[File]
Run = File | RunResult
Picks = Literal["auto", "uniform", "salience"]


@dataclass(frozen=True, repr=False)
class Tags:
    """Predicted labels of some items.

    Args:
        ids: Their names, `[N]`.
        classes: Names of the classes, `[L]`.
        probabilities: Of every class, float32 `[N, L]`.
        labels: The classes of each item above their thresholds, the most likely first.
        thresholds: Above which probability a label of each class is predicted.
        skipped: Why items could not be read, by name.
        sentences: What the thresholds and the probabilities stand for.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    probabilities: npt.NDArray[np.float32]
    labels: tuple[tuple[str, ...], ...]
    thresholds: Thresholds
    skipped: Mapping[str, str]
    sentences: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"Tags({len(self.ids)} items, {len(self.classes)} classes{skipped})"


def train(
    data: Dataset | File | Any,
    method: str | None = None,
    *,
    out: File | None = None,
    features: Files = (),
    hints: File | None = None,
    format: str = "auto",
    labels: str = "auto",
    separator: str | None = None,
    encoder: str | None = None,
    classes: File | None = None,
    rules: bool = True,
    resume: bool = False,
    on_record: Callable[[EpochRecord], None] | None = None,
    **settings: Any,
) -> RunResult:
    """Trains a model into a run folder, as `plusone train` does; `plusone.fit` writes nothing.

    Args:
        data: A path, the name of an embedded data set ("digits"), a `Dataset`, or a table in memory
            with labels and vectors or texts: of polars, DuckDB, pandas or pyarrow.
        method: Name in `plusone.METHODS`; None chooses by the data.
        out: The run folder; runs/DATA-METHOD-seedN by default.
        features: Files with features of the items.
        hints: A file with scores of another model.
        format: Form of the labels, as `--format`.
        labels: What 0 means: auto, seen or complete.
        separator: What is between the labels in a cell of a CSV.
        encoder: Sentence encoder of texts; the first that is installed by default.
        classes: A CSV with the columns class,parent; `classes.csv` beside the labels by default.
        rules: Whether rules choose what is not given, by looking at the data.
        resume: Resume the run in `out`; the result of a complete run is returned.
        on_record: Called after every epoch.
        **settings: Anything a recipe can hold, such as `mode="finetune"`, `epochs=5`.

    Returns:
        The result, as in `metrics.json`; `result.run` is the folder.
    """
    if is_table(data):
        data = dataset_of(data, encoder=encoder)
    named = None if isinstance(data, Dataset) else str(data)
    files, hint_file = _paths(features), None if hints is None else Path(hints)
    class_file = None if classes is None else Path(classes)
    if isinstance(data, Dataset):
        dataset, source = data, None
        if files or hint_file is not None or class_file is not None:
            what = "features, hints and classes"
            raise InputError(f"{what} are for data in files; a Dataset has its own")
    else:
        made = make_source(
            str(data), files, format, labels, hint_file, separator, encoder, class_file
        )
        dataset = made.load()
        source = replace(made, encoder=dataset.made_by.get(MADE_BY)).to_json()
    given = {} if method is None else {"method": method}
    facts = partial(facts_of, dataset) if rules else None
    composed = compose(facts, settings, given, name=named)
    task = make_task(dataset, composed.recipe)
    cached = features_folder() if task.images else None
    picked = pick_rate(task, composed.recipe, folder=cached) if "lr" in composed.chosen else None
    composed = composed if picked is None else composed.revised(picked.choice)
    recipe = composed.recipe
    name = short_name(named or dataset.name)
    folder = Path(out or Path("runs") / f"{name}-{recipe.method}-seed{recipe.seed}")
    with alone_in(folder):
        return train_task(
            task,
            recipe,
            folder,
            resume=resume,
            on_record=on_record,
            source=source,
            rules=composed.rules,
            features=cached,
            picked=picked,
        )


def predict(
    run: Run,
    items: Files,
    *,
    features: Files = (),
    hints: File | None = None,
    threshold: float | None = None,
    precision: float | None = None,
    recall: float | None = None,
    per_class: bool = False,
    audit: File | None = None,
    crops: Literal["one", "five"] | None = None,
    device: str = "auto",
    format: str = "auto",
    labels: str = "auto",
) -> Tags:
    """Predicts labels and their probabilities for new items, as `plusone predict` does.

    Args:
        run: A run, or a folder of `plusone export`.
        items: Images, folders of images, patterns, a CSV with a column image, data sets or files
            with features; one or several.
        features: Files with features, for data sets that have none.
        hints: A file with scores of another model.
        threshold: Labels above this probability count; by default the run's own, by class.
        precision: Guarantee that this share of predicted labels is right (needs `audit`).
        recall: Guarantee that this share of an item's labels is found.
        per_class: Guarantee it for each class by itself.
        audit: All labels of some items, drawn at random.
        crops: "one" shows the model the whole image, "five" the whole and four tiles.
        device: What computes.
        format: Form of data sets.
        labels: What 0 means in them.
    """
    folder = _folder(run)
    predictor = load_run(folder, device)
    predictor = predictor if crops is None else predictor.with_crops(crops)
    promise = guaranteed(
        folder,
        predictor,
        threshold=threshold,
        precision=precision,
        recall=recall,
        per_class=per_class,
        audit=None if audit is None else Path(audit),
    )
    cuts = promise.thresholds if promise else thresholds_for(folder, predictor.classes, threshold)
    guarantee = promise.sentences if promise else ()
    hint_file = None if hints is None else Path(hints)
    named = [str(path) for path in _paths(items)]
    found = find_items(predictor, named, _paths(features), format, labels, hint_file)
    batches = [*predict_all(predictor, found, features_folder())]
    skipped = {one.id: one.reason for batch in batches for one in batch.skipped}
    ids = tuple(name for batch in batches for name in batch.ids)
    if not ids:
        first = next(f"{name}: {reason}" for name, reason in skipped.items())
        raise RunError(f"none of the {len(skipped)} items could be read ({first})")
    return Tags(
        ids,
        predictor.classes,
        np.concatenate([batch.probabilities.float().numpy() for batch in batches]),
        tuple(labels for batch in batches for labels in _labels(batch, cuts)),
        cuts,
        skipped,
        (cuts.sentence(), *guarantee, predictor.calibration.sentence()),
    )


def guaranteed(
    run: Path,
    predictor: Predictor,
    *,
    threshold: float | None = None,
    precision: float | None = None,
    recall: float | None = None,
    per_class: bool = False,
    audit: Path | None = None,
) -> Guaranteed | None:
    """Thresholds for a wanted precision or recall; None where neither is asked for.

    The arguments are those of `predict`.
    """
    if precision is None and recall is None:
        if per_class or audit is not None:
            raise InputError("--per-class and --audit are for --precision or --recall")
        return None
    if threshold is not None or (precision is not None and recall is not None):
        raise InputError("--threshold, --precision and --recall exclude each other; give one")
    if predictor.shown.crops != predictor.recipe.crops:
        raise InputError(
            "a guarantee holds for the crops that the model was trained on; leave out --crops"
        )
    if audit is not None and drawn_weights(audit.with_suffix("")) is not None:
        raise InputError(
            f"{audit}: its items were not drawn evenly, and a guarantee for new items needs that; "
            "plusone audit without --stratified draws evenly"
        )
    return guaranteed_thresholds(
        run,
        predictor.calibration,
        predictor.classes,
        precision=precision,
        recall=recall,
        per_class=per_class,
        audit=None if audit is None else read_audit(audit, run),
    )


def suggest(
    run: Run,
    data: Dataset | File | None = None,
    *,
    out: File | None = None,
    folds: int = 5,
    audit: File | LabelTable | None = None,
    positives: float | None = None,
    precision: float | None = None,
    per_class: bool = False,
    picks: Picks | None = None,
    least: float = LEAST,
    top: int | None = None,
    wrong: bool = False,
    features: Files = (),
    hints: File | None = None,
    device: str = "auto",
    format: str = "auto",
    labels: str = "auto",
    seed: int | None = None,
) -> Found:
    """Suggests missing labels, with calibrated probabilities, as `plusone suggest` does.

    Args:
        run: A run.
        data: Its own data by default.
        out: The folder to write, for `review`; RUN-suggestions by default.
        folds: Folds, if the run kept no scores.
        audit: All labels of a few items (a file, or what `audit` returned), or reviewed labels.
        positives: Labels per item, if known.
        precision: Accept labels of which this share is right; by default 0.9 with an audit, and
            none without one.
        per_class: Reach the precision in each class by itself.
        picks: How annotators pick; as in the run by default.
        least: Leave out labels below this probability.
        top: Largest number per item.
        wrong: Whether seen labels that may be wrong are listed too.
        features: Files with features of `data`.
        hints: A file with scores of another model.
        device: What computes.
        format: Form of `data`.
        labels: What 0 means in it.
        seed: Seed of folds and weights; the run's by default.

    Returns:
        All labels with their probabilities; `found.suggestions()` lists the suggested ones,
        `found.accept(0.9)` the accepted ones.
    """
    folder = _folder(run)
    to = folder.with_name(f"{folder.name}-suggestions") if out is None else Path(out)
    checked = drawn = None
    if isinstance(audit, LabelTable):
        checked = audit
    elif audit is not None:
        file = Path(audit)
        checked = read_audit(file, folder)
        drawn = drawn_weights(to) or drawn_weights(file.with_suffix(""))
    found = _find(
        folder,
        _data_of(folder, data, features, hints, format, labels),
        run_recipe(folder, device, seed, picks),
        to,
        positives=positives,
        own_k=positives is None and data is None and picks is None,
        folds=folds,
        audit=checked,
        drawn=drawn,
    )
    suggestions = found.suggestions(least=least, top=top)  # first: others need fewer labels
    write_found(
        found,
        found.accept(precision, per_class=per_class),
        suggestions,
        to,
        labels=accepted_file(to, found.table),
        about={"run": str(folder), "backbone_saw_items": False},
        wrong=found.wrong() if wrong else None,
    )
    return found


def audit(
    run: Run,
    data: Dataset | File | None = None,
    *,
    out: File | None = None,
    items: int = 60,
    stratified: bool = False,
    features: Files = (),
    port: int = 0,
    browser: bool = True,
    stop_after: float | None = None,
    seed: int | None = None,
) -> LabelTable:
    """Draws items and asks for all their labels on a page, as `plusone audit` does.

    It returns when the page is stopped (interrupt the cell, or Ctrl-C); the same call continues
    with the same items.

    Args:
        run: A run.
        data: Its own data by default.
        out: File of labels to write; RUN-audit.csv by default.
        items: How many items are drawn.
        stratified: Whether items that may miss labels are drawn more often, with weights.
        features: Files with features of `data`.
        port: Of the page; 0 takes a free one.
        browser: Whether the page is opened.
        stop_after: Seconds after which the page stops by itself.
        seed: Seed of the draw; the run's by default.

    Returns:
        The items that are done, with all their labels.
    """
    from plusone.reviewing.opening import open_audit

    folder = _folder(run)
    file = folder.with_name(f"{folder.name}-audit.csv") if out is None else Path(out)
    questions = file.with_suffix("")
    recipe = run_recipe(folder, seed=seed)
    dataset = _data_of(folder, data, features, None, "auto", "auto")
    found = _find(folder, dataset, recipe, questions, own_k=data is None)
    if not (questions / "about.json").exists():
        write_questions(found, questions, items, stratified=stratified, run=str(folder))
    said = partial(promise, found, drawn=drawn_weights(questions))
    desk = open_audit(questions, said, seed=recipe.seed)
    return _answered(desk, folder.resolve().name, file, port, browser, stop_after, only_done=True)


def review(
    suggestions: File,
    *,
    out: File | None = None,
    run: Run | None = None,
    order: str = "",
    budget: int | None = None,
    least: float | None = None,
    port: int = 0,
    browser: bool = True,
    stop_after: float | None = None,
    seed: int = 0,
) -> LabelTable:
    """Asks about suggested labels on a page of this computer, as `plusone review` does.

    It returns when the page is stopped (interrupt the cell, or Ctrl-C); answers are kept at once,
    and the same call continues.

    Args:
        suggestions: A folder that `suggest` wrote.
        out: A file for the labels, which `train` takes.
        run: The run behind the suggestions, which shows where in a picture it finds a label; by
            default the one beside the folder that it is named after.
        order: What is asked first: worth (the default), item, uncertain, frequent, balanced,
            likely or random.
        budget: How many questions are asked in all.
        least: The least probability that is asked about.
        port: Of the page; 0 takes a free one.
        browser: Whether the page is opened.
        stop_after: Seconds after which the page stops by itself; 0 only collects answers.
        seed: Seed of the random order.

    Returns:
        All items with their seen labels and the answers: positives and confirmed negatives.
    """
    from plusone.reviewing.opening import open_suggestions
    from plusone.reviewing.questions import select_by_default

    folder = Path(suggestions)
    selection = select_by_default(order, budget, least, seed)
    behind = None if run is None else _folder(run)
    desk = open_suggestions(folder, selection=selection, run=behind)
    file = None if out is None else Path(out)
    return _answered(desk, folder.resolve().name, file, port, browser, stop_after)


def _answered(
    desk: Desk,
    title: str,
    file: Path | None,
    port: int,
    browser: bool,
    stop_after: float | None,
    *,
    only_done: bool = False,
) -> LabelTable:
    """Serves a review until it is stopped; the labels that the answers give, also written."""
    from plusone.reviewing.audit_desk import AuditDesk
    from plusone.reviewing.reviewed_labels import reviewed_table

    try:
        if stop_after is None or stop_after > 0:
            from plusone.reviewing.review_page import make_server, opened_in_browser

            server = make_server(desk, title=title, port=port)
            print(f"answer at {server.url}; interrupt to stop")
            with opened_in_browser(server.url, desk.store.path) if browser else nullcontext():
                _serve(server, stop_after)
        table = replace(reviewed_table(desk).table, truth=None)
        if file is not None:
            write(table, file)
        return table.take(desk.done) if isinstance(desk, AuditDesk) else table
    finally:
        desk.store.close()


def _serve(server: Server, stop_after: float | None) -> None:
    """Serves until it is interrupted, in a thread: a notebook has an event loop of its own."""
    thread = Thread(target=server.run, args=(stop_after,), daemon=True)
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        server.stop()
        thread.join()


def _find(
    run: Path,
    dataset: Dataset,
    recipe: Recipe,
    folder: Path,
    *,
    positives: float | None = None,
    own_k: bool,
    folds: int = 5,
    audit: LabelTable | None = None,
    drawn: Mapping[str, float] | None = None,
) -> Found:
    """Probabilities of all labels of the data of a run; `folder` keeps folds that are done."""
    dataset = replace(dataset, table=run_labels(run, dataset.table, recipe))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with alone_in(folder):
        return find(
            dataset,
            recipe,
            folds,
            audit=audit,
            positives=run_k(run, dataset.table) if own_k else positives,
            drawn=drawn,
            keep=folder / "folds",
            features_folder=features_folder(),
            run=run,
        )


def _data_of(
    run: Path,
    data: Dataset | File | None,
    features: Files,
    hints: File | None,
    format: str,
    labels: str,
) -> Dataset:
    """The data that is named, or the data of a run."""
    if isinstance(data, Dataset):
        return data
    hint_file = None if hints is None else Path(hints)
    if data is None:
        source = source_of(run)
        return (source if hint_file is None else replace(source, hints=str(hint_file))).load()
    files = _paths(features)
    return load_source(
        str(data),
        features=files,
        hints=hint_file,
        format=format,
        labels=labels,
        encoder=read_description(run).made_by.get(MADE_BY),
        classes=parents_file(run),
    )


def _labels(batch: Predictions, cuts: Thresholds) -> Iterator[tuple[str, ...]]:
    for row in range(len(batch.ids)):
        yield tuple(batch.labels(row, cuts.array))


def _folder(run: Run) -> Path:
    """The folder of a run."""
    if not isinstance(run, RunResult):
        return Path(run)
    if run.run is None:
        raise InputError("the run has no folder: plusone.train writes one, plusone.fit does not")
    return Path(run.run)


def _paths(files: Files) -> list[Path]:
    return [Path(files)] if isinstance(files, str | PathLike) else [Path(one) for one in files]
