"""Opening a review: of a folder of suggestions, or of new items without labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from plusone.data.checks import check_ids, id_array, missing_images
from plusone.data.formats import read
from plusone.data.formats._sharded import Sharded
from plusone.data.formats.csv_text import header_of, id_column, read_class_list, records
from plusone.data.images import IMAGE_SUFFIXES
from plusone.data.matrix import LabelMatrix
from plusone.data.source import EMBEDDED
from plusone.data.table import LabelTable
from plusone.data.texts import texts_of
from plusone.errors import InputError, Problems
from plusone.reviewing.audit_desk import AuditDesk
from plusone.reviewing.desk import NewItemDesk, SuggestionDesk
from plusone.reviewing.outlines import MODEL, Outlines, run_beside
from plusone.reviewing.pictures import Scenes
from plusone.reviewing.questions import NewItems, Selection, Suggested
from plusone.reviewing.store import Store
from plusone.suggestions import Suggestions, read_suggestions
from plusone.suggestions.wrong_csv import with_wrong

DATABASE = "review.sqlite"


def open_suggestions(
    folder: Path,
    *,
    selection: Selection | None = None,
    database: Path | None = None,
    run: Path | None = None,
) -> SuggestionDesk:
    """Opens a review of a folder that `plusone suggest` wrote; by default all questions are asked.

    The file of the answers is `review.sqlite` in the folder by default. The run behind the
    suggestions, by default the one beside the folder that it is named after, says where in a
    picture a label is found. What the folder itself says of its run is not followed.
    """
    suggestions = with_wrong(read_suggestions(folder), folder)
    if run is not None and not (run / MODEL).is_file():
        raise InputError(f"{run}: is no finished run, it has no {MODEL}")
    with _opened(database or _database(folder)) as store:
        questions = Suggested(suggestions, selection or Selection())
        desk = SuggestionDesk(questions, store, _embedded(suggestions))
        run = run or run_beside(folder)
        desk.outlines = None if run is None or suggestions.table.root is None else Outlines(run)
        return desk


def open_audit(folder: Path, promise: Callable[[LabelTable], str], *, seed: int = 0) -> AuditDesk:
    """Opens an audit of a folder that `plusone.suggestions.audit_folder` wrote.

    Items come in random order, so that those that are done at any time are a random sample.
    """
    suggestions = read_suggestions(folder)
    with _opened(_database(folder)) as store:
        questions = Suggested(suggestions, Selection("random", seed=seed))
        return AuditDesk(questions, store, promise, _embedded(suggestions))


def _embedded(suggestions: Suggestions) -> Scenes | None:
    """The scenes of data that is part of the package."""
    table = suggestions.table
    embedded = table.root is None and suggestions.about.get("data") in EMBEDDED
    return Scenes(table.ids.tolist()) if embedded else None


def open_new_items(
    data: Path, classes: Path | None = None, *, seed: int = 0, database: Path | None = None
) -> NewItemDesk:
    """Opens a review that labels new items, as `read_unlabelled` takes them, by yes/no questions.

    The seed is that of the orders in which classes are asked about. The file of the answers is
    `review.sqlite` in or beside the data by default.
    """
    table = read_unlabelled(data, classes)
    if not len(table):
        raise InputError(f"{data}: has no items")
    place = data if data.is_dir() else data.parent
    with _opened(database or _database(place)) as store:
        return NewItemDesk(NewItems(table, seed), store)


def _database(folder: Path) -> Path:
    """The file of the answers in a folder; a link there must not lead to a file elsewhere."""
    path = folder / DATABASE
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{path}: is a link that leaves the folder; --db names a file of yours")
    return path


@contextmanager
def _opened(path: Path) -> Iterator[Store]:
    """The store of answers; closed again if the review cannot be opened."""
    store = Store(path)
    try:
        yield store
    except BaseException:
        store.close()
        raise


def read_unlabelled(data: Path, classes: Path | None) -> LabelTable:
    """Reads the items of a folder or a table, with their seen labels if there are any.

    Args:
        data: A folder of images, or shards; a CSV file with one column of names; texts without
            labels, as `plusone.data.texts` reads them; or a label table in any known format, whose
            items without a seen positive are the ones to label.
        classes: A file with one class name per line; not needed for a label table.
    """
    names = None if classes is None else read_class_list(classes)
    labelled = (data / "labels.csv").is_file()
    if data.is_dir() and not labelled and (images := _images(data)):
        return _bare(images, _needed(names, data), data, Problems(data))
    if not labelled and (texts := texts_of(str(data))) is not None:
        table = _bare(texts.table.ids.tolist(), _needed(names, data), None, Problems(data))
        return replace(table, texts=texts.table.texts)
    sharded = None if labelled else Sharded.find(data)
    if sharded is None and not data.exists():
        raise InputError(f"{data}: no such file or folder")
    if sharded is not None and names is not None:
        return _bare(sharded.ids(), names, sharded.root, Problems(data))
    if sharded is None and data.is_dir() and not labelled:
        raise InputError(f"{data}: has no images")
    if data.suffix.lower() == ".csv" and len(header := header_of(data)) == 1:
        return _listed(data, header, _needed(names, data))
    table = read(data, labels="seen", classes=names).table
    return replace(table, labels=table.labels.with_default(0), truth=None)


def _needed(names: tuple[str, ...] | None, data: Path) -> tuple[str, ...]:
    if names is None:
        raise InputError(f"{data}: has no classes; give a file of class names with --classes")
    return names


def _images(folder: Path) -> list[str]:
    names = []
    for here, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if name[0] != ".")
        place = Path(here).relative_to(folder)
        names += [
            (place / name).as_posix()
            for name in sorted(files)
            if name[0] != "." and name.lower().endswith(IMAGE_SUFFIXES)
        ]
    return names


def _listed(path: Path, header: list[str], classes: tuple[str, ...]) -> LabelTable:
    id_column(header, path)
    problems = Problems(path)
    rows = list(records(path, problems))[1:]
    ids = [cells[0].strip() for _, cells in rows]
    some = id_array(ids[:1000], path)
    exist = len(missing_images(some, path.parent)) < len(some)
    return _bare(ids, classes, path.parent if exist else None, problems)


def _bare(
    ids: list[str], classes: tuple[str, ...], root: Path | None, problems: Problems
) -> LabelTable:
    names = id_array(ids, problems.source)
    check_ids(names, problems)
    problems.raise_if_any()
    empty = LabelMatrix.from_entries([], [], [], (len(ids), len(classes)))
    return LabelTable(names, classes, empty, root=root)
