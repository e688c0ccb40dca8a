"""MULAN: `NAME.xml` names the labels, `NAME-train.arff` and `NAME-test.arff` hold the rows.

One `NAME.arff` is fine too. The other attributes become features. All labels are known. Classes
stand in the order of the XML file.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.parsers import expat

import numpy as np

from plusone.data.dataset import Dataset
from plusone.data.formats.arff import Arff, read_arff
from plusone.data.formats.base import ReadOptions
from plusone.data.formats.checks import name_fault
from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError, Problems

PART = re.compile(r"[-_](train|test)$", re.IGNORECASE)
ALL = "item"


def detects(path: Path) -> bool:
    """An `.arff` or `.xml` file, or a folder with both kinds."""
    if path.is_file():
        return path.suffix.lower() in (".arff", ".xml")
    return any(path.glob("*.arff")) and any(path.glob("*.xml"))


def read_mulan(path: Path, options: ReadOptions) -> Dataset:
    """Reads the files that belong together; ids are `train-00001`, `test-00001`, ..."""
    xml, parts = _find(path)
    problems = Problems(path)
    labels = read_xml(xml, problems)
    loaded = {kind: read_arff(file, problems) for kind, file in parts.items()}
    names = [attribute.name for attribute in next(iter(loaded.values())).attributes]
    for arff in loaded.values():
        _compare(arff, names, labels, xml, problems)
    problems.raise_if_any()
    place = {name: at for at, name in enumerate(names)}
    columns = [place[label] for label in labels]
    ids: list[str] = []
    splits: list[str] = []
    truths = []
    features = []
    for kind, arff in loaded.items():
        truths.append(_truth(arff, columns, problems))
        features.append(np.delete(arff.values, columns, axis=1))
        ids.extend(f"{kind}-{row:05d}" for row in range(1, len(arff.values) + 1))
        splits.extend([kind] * len(arff.values))
    problems.raise_if_any()
    table = LabelTable.complete(
        ids,
        labels,
        LabelMatrix.concatenate(truths),
        split=None if ALL in loaded else np.asarray(splits, dtype="<U5"),
    )
    return Dataset(table, np.ascontiguousarray(np.concatenate(features)), name=xml.stem)


def _find(path: Path) -> tuple[Path, dict[str, Path]]:
    """The XML file, and the ARFF file of each part ("train", "test" or the whole)."""
    if path.suffix.lower() == ".arff" and path.is_file():
        kind = PART.search(path.stem)
        xml = path.with_name(PART.sub("", path.stem) + ".xml")
        if not xml.is_file():
            raise InputError(f"{path}: the file {xml.name} with the label names is missing")
        return xml, {kind[1].lower() if kind else ALL: path}
    xmls = [path] if path.is_file() else sorted(path.glob("*.xml"))
    if len(xmls) != 1:
        found = ", ".join(xml.name for xml in xmls) or "none"
        raise InputError(f"{path}: needs exactly one XML file with label names (found: {found})")
    xml = xmls[0]
    arffs = {file.stem.lower(): file for file in sorted(xml.parent.glob("*.arff"))}
    for mark in "-_":
        stems = {kind: f"{xml.stem}{mark}{kind}".lower() for kind in ("train", "test")}
        parts = {kind: arffs[stem] for kind, stem in stems.items() if stem in arffs}
        if parts:
            return xml, parts
    if xml.stem.lower() in arffs:
        return xml, {ALL: arffs[xml.stem.lower()]}
    raise InputError(f"{xml}: neither {xml.stem}-train.arff nor {xml.stem}.arff lies beside it")


def read_xml(path: Path, problems: Problems) -> list[str]:
    """Label names of a MULAN XML file, nested ones too; a document type is refused."""
    names: dict[str, None] = {}
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(":")[2] != "label":
            return
        name = attributes.get("name", "")
        if fault := name_fault(name):
            problems.add(f"label name {name!r} {fault}", row=parser.CurrentLineNumber, source=path)
        elif name in names:
            problems.add(f"label {name!r} occurs twice", row=parser.CurrentLineNumber, source=path)
        names[name] = None

    def refuse(*_: object) -> None:
        raise InputError(f"{path}: has a document type or entities in it, which are not read")

    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(path.read_bytes(), True)
    except expat.ExpatError as error:
        raise InputError(
            f"{path}, row {error.lineno}, column {error.offset + 1}: is not XML "
            f"({expat.ErrorString(error.code)})"
        ) from None
    except (LookupError, ValueError) as error:  # unknown encodings
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is not readable as XML ({error})") from None
    if not names:
        problems.add("names no label", source=path)
    return list(names)


def _compare(
    arff: Arff, names: list[str], labels: list[str], xml: Path, problems: Problems
) -> None:
    own = {attribute.name: attribute for attribute in arff.attributes}
    for label in labels:
        if label not in own:
            problems.add(
                f"has no attribute for the label {label!r} of {xml.name}", source=arff.path
            )
        elif own[label].categories and not set(own[label].categories) <= {"0", "1"}:
            shown = ", ".join(own[label].categories[:5])
            problems.add(
                f"label {label!r} of {xml.name} has the values {shown}, not 0 and 1",
                source=arff.path,
            )
    if [attribute.name for attribute in arff.attributes] != names:
        problems.add("has other attributes than the training file", source=arff.path)


def _truth(arff: Arff, columns: list[int], problems: Problems) -> LabelMatrix:
    states = arff.values[:, columns].copy()
    for place, column in enumerate(columns):
        attribute = arff.attributes[column]
        if attribute.categories:
            meaning = np.array([float(word) for word in attribute.categories])
            states[:, place] = meaning[states[:, place].astype(int)]
        for row in np.flatnonzero((states[:, place] != 0) & (states[:, place] != 1)):
            problems.add(
                f"{states[row, place]:g} for label {attribute.name!r} is not 0 or 1",
                row=arff.lines[row],
                source=arff.path,
            )
    if problems:
        states[:] = 0
    return LabelMatrix.from_dense(states.astype(np.int8), default=-1)
