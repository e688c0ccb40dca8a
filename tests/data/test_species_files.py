"""Species files: records become items, wrong files are rejected."""

import numpy as np
import pytest

from plusone.data.species_files import read_species, species_files
from plusone.errors import InputError


def arrays(**changed):
    made = {
        "x": np.array([[1.0, 5.0], [3.0, np.nan], [7.0, 5.0]], np.float32),
        "species": np.array([0, 1, 1], np.int16),
        "site": np.array([9, 9, 4], np.int32),
        "background": np.array([[4.5, np.nan], [9.5, 5.0]], np.float32),
        "test_x": np.array([[2.0, 6.0]], np.float32),
        "test_y": np.array([[1, 0]], np.int8),
        "names": np.array(["owl", "fern"]),
    }
    return {name: value for name, value in (made | changed).items() if value is not None}


def saved(folder, **changed):
    np.savez(folder / "place.npz", **arrays(**changed))
    return folder / "place.npz"


def test_records_of_a_site_are_one_item(tmp_path):
    data = read_species(saved(tmp_path))
    assert data.seen.tolist() == [[0, 1], [1, 1]]  # sites 4 and 9
    # Sites have 7 and 2 in the first column: mean 4.5, spread 2.5; the second is always 5.
    assert data.x.tolist() == [[1.0, 0.0], [-1.0, 0.0]]
    assert data.background.tolist() == [[0.0, 0.0], [2.0, 0.0]]  # a missing value is the mean
    assert data.test_x.tolist() == [[-1.0, 1.0]]
    assert data.species == ("owl", "fern")


def test_background_sites_are_items_without_a_label(tmp_path):
    data = read_species(saved(tmp_path))
    assert len(data.dataset().table) == 2
    table = data.dataset(1).table
    assert table.labels.dense().tolist() == [[0, 1], [1, 1], [0, 0]]
    assert table.truth is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"site": None}, "lacks the arrays site"),
        ({"x": np.array([[np.inf, 1.0]] * 3)}, "infinite"),
        ({"x": np.array([[np.nan, 1.0]] * 3)}, "without any value"),
        ({"x": np.ones((3, 4))}, "different numbers of columns"),
        ({"species": np.array([0, 1, 2])}, "outside 0 to 1"),
        ({"species": np.array([0.0, 1.0, 1.0])}, "whole number"),
        ({"site": np.array([1, 2])}, "whole number"),
        ({"test_y": np.array([[1, 2]])}, "test_y"),
        ({"names": np.array(["owl", "owl"])}, "owl"),
        ({"names": np.array([{}, {}], dtype=object)}, "pickled"),
    ],
)
def test_wrong_files_are_rejected(tmp_path, changed, message):
    with pytest.raises(InputError, match=message):
        read_species(saved(tmp_path, **changed))


def test_a_folder_without_files_is_rejected(tmp_path):
    with pytest.raises(InputError, match="no npz file"):
        species_files(tmp_path)
