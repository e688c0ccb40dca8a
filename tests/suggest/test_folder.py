import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plusone.data.matrix import LabelMatrix
from plusone.data.table import LabelTable
from plusone.errors import InputError
from plusone.suggestions import Suggestions, read_suggestions, write_suggestions


def some(root: Path | None = None) -> Suggestions:
    table = LabelTable(
        ids=np.array(["a.jpg", 'b,"odd".jpg', "c.jpg"]),
        classes=("cat", "dog|x", "=sum"),
        labels=LabelMatrix.from_lists([[0], [1], [0]], 3),
        root=root,
    )
    return Suggestions(
        table,
        np.array([0, 0, 1]),
        np.array([2, 1, 0], dtype=np.int32),
        np.array([0.9, 0.25, 0.5], dtype=np.float32),
        np.array([0.8, 0.1, 0.3], dtype=np.float32),
        {"method": "gr", "folds": 5},
    )


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    found = some(tmp_path)
    write_suggestions(found, tmp_path / "s")
    again = read_suggestions(tmp_path / "s")
    assert again.table.ids.tolist() == found.table.ids.tolist()
    assert again.table.classes == found.table.classes
    assert again.table.root == tmp_path.resolve()
    assert again.table.labels.digest() == found.table.labels.digest()
    assert again.about["folds"] == 5
    for name in ("row", "label", "probability", "score"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))


def test_groups_are_a_further_column(tmp_path: Path) -> None:
    found = some()
    found = replace(found, table=replace(found.table, groups=np.array(["one", "two", "one"])))
    write_suggestions(found, tmp_path)
    lines = (tmp_path / "suggestions.csv").read_text().splitlines()
    assert lines[0] == "image,label,probability,score,group"
    assert [line.rsplit(",", 1)[1] for line in lines[1:]] == ["one", "one", "two"]
    again = read_suggestions(tmp_path)
    np.testing.assert_array_equal(again.probability, found.probability)
    assert again.table.groups.tolist() == ["one", "two", "one"]


def test_a_folder_without_images_has_no_root(tmp_path: Path) -> None:
    write_suggestions(some(), tmp_path / "s")
    assert read_suggestions(tmp_path / "s").table.root is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a.jpg,cow,0.5,0.5", "row 2.*cow"),
        ("z.jpg,cat,0.5,0.5", "row 2.*z.jpg"),
        ("a.jpg,cat,1.5,0.5", "row 2: probability 1.5"),
        ("a.jpg,cat,much,0.5", "row 2.*much"),
        ("a.jpg,cat", "row 2: 'a.jpg,cat' has 2 columns, the header has 4"),
        ("a.jpg,cat,0.5,0.5,0.9", "row 2: .* has 5 columns, the header has 4"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    write_suggestions(some(), tmp_path)
    (tmp_path / "suggestions.csv").write_text(f"image,label,probability,score\n{line}\n")
    with pytest.raises(InputError, match=words):
        read_suggestions(tmp_path)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no about\.json"):
        read_suggestions(tmp_path)
    (tmp_path / "about.json").write_text(json.dumps({"kind": "bench"}))
    with pytest.raises(InputError, match="does not describe suggestions"):
        read_suggestions(tmp_path)
    (tmp_path / "about.json").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        read_suggestions(tmp_path)
