import dataclasses
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from plusone.data import digits
from plusone.data.digits import (
    CLASSES,
    Scenes,
    compose,
    load_digits_scenes,
    random_conv_features,
    source_indices,
)
from plusone.errors import InputError

pytestmark = pytest.mark.slow

SMALL = {"n_train": 40, "n_val": 20, "n_test": 10}


@pytest.fixture(scope="module")
def train() -> Scenes:
    return compose(0, 2000)


@pytest.fixture
def composed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the calls that really make scenes."""
    calls: list[int] = []

    def counting(split: int, n: int, seed: int, look: digits.Look) -> Scenes:
        calls.append(split)
        return compose(split, n, seed, look)

    monkeypatch.setattr("plusone.data.digits.compose", counting)
    return calls


def test_shapes_and_types(tmp_path: Path) -> None:
    data = load_digits_scenes(**SMALL, cache=tmp_path)
    assert data.images.shape == (70, 64, 64)
    assert data.truth.shape == (70, 10)
    assert (data.images.dtype, data.truth.dtype, data.split.dtype) == (np.uint8, np.uint8, np.int8)
    assert np.bincount(data.split).tolist() == [40, 20, 10]
    assert data.classes == CLASSES
    assert set(np.unique(data.truth)) == {0, 1}


def test_same_seed_same_bytes_other_seed_other_scenes() -> None:
    first, second, other = compose(0, 50, 3), compose(0, 50, 3), compose(0, 50, 4)
    assert first.images.tobytes() == second.images.tobytes()
    assert first.truth.tobytes() == second.truth.tobytes()
    assert not np.array_equal(first.images, other.images)
    assert not np.array_equal(first.truth, other.truth)


def test_splits_do_not_depend_on_the_other_sizes(tmp_path: Path) -> None:
    few = load_digits_scenes(30, 20, 10, cache=tmp_path)
    many = load_digits_scenes(200, 20, 150, cache=tmp_path)
    assert np.array_equal(few.images[few.split == 0], many.images[:30])
    for split in (1, 2):
        n = int((few.split == split).sum())
        assert np.array_equal(few.images[few.split == split], many.images[many.split == split][:n])


def test_source_digits_are_disjoint_and_complete() -> None:
    parts = source_indices()
    together = np.concatenate(parts)
    assert len(parts) == 3
    assert np.array_equal(np.sort(together), np.arange(1797))
    target = load_digits().target
    for part in parts:
        assert np.bincount(target[part], minlength=10).min() >= 20


@pytest.mark.parametrize("split", [0, 1, 2])
def test_scenes_use_only_the_digits_of_their_split(split: int) -> None:
    for seed in (0, 1):
        used = compose(split, 300, seed).sources
        assert set(used[used >= 0].tolist()) <= set(source_indices()[split].tolist())


def test_label_is_the_set_of_pasted_digits(train: Scenes) -> None:
    target = load_digits().target
    for sources, truth in zip(train.sources, train.truth, strict=True):
        assert set(target[sources[sources >= 0]].tolist()) == set(np.flatnonzero(truth).tolist())


def test_one_to_five_labels_and_some_digits_twice(train: Scenes) -> None:
    labels = train.truth.sum(1)
    assert (labels.min(), labels.max()) == (1, 5)
    assert 2.3 <= labels.mean() <= 3.0
    pasted = (train.sources >= 0).sum(1)
    assert 0.05 < (pasted > labels).mean() < 0.4
    assert (pasted - labels).max() == 1


def test_class_frequencies_are_skewed(train: Scenes) -> None:
    share = train.truth.mean(0)
    assert 3.5 <= share.max() / share.min() <= 6.0
    assert share.min() > 0.05


def test_classes_of_a_theme_appear_together(train: Scenes) -> None:
    truth = train.truth.astype(float)
    share = truth.mean(0)
    lift = truth.T @ truth / len(truth) / np.outer(share, share)
    theme = np.full(10, -1)
    for t, group in enumerate(digits.LOOK.themes):
        theme[list(group)] = t
    same = (theme[:, None] == theme) & ~np.eye(10, dtype=bool)
    assert lift[same].mean() > 1.05
    assert lift[~same & ~np.eye(10, dtype=bool)].mean() < 0.95


def test_digits_are_brighter_than_their_surroundings(train: Scenes) -> None:
    inside, outside = [], []
    rows, columns = np.mgrid[:64, :64]
    for image, boxes in zip(train.images[:200], train.boxes[:200], strict=True):
        covered = np.zeros((64, 64), bool)
        for x, y, width, height in boxes[boxes[:, 2] > 0]:
            covered |= (np.abs(columns - x) < width / 2) & (np.abs(rows - y) < height / 2)
        inside.append(image[covered].mean())
        outside.append(image[~covered].mean())
    assert np.mean(inside) > np.mean(outside) + 20
    assert (np.array(inside) > np.array(outside)).mean() > 0.9


def test_digits_stay_on_the_canvas(train: Scenes) -> None:
    boxes = train.boxes[train.sources >= 0]
    outside = np.maximum(boxes[:, 2:] / 2 - boxes[:, :2], boxes[:, :2] + boxes[:, 2:] / 2 - 64)
    assert (outside / boxes[:, 2:]).max() < 0.08


def test_cache_round_trip(tmp_path: Path, composed: list[int]) -> None:
    folder = tmp_path / "new" / "folder"
    made = load_digits_scenes(**SMALL, cache=folder)
    assert composed == [0, 1, 2]
    read = load_digits_scenes(**SMALL, cache=folder)
    assert composed == [0, 1, 2]
    for name in ("images", "truth", "split"):
        assert np.array_equal(getattr(made, name), getattr(read, name))
    assert len(list(folder.iterdir())) == 1


def test_cache_is_not_shared_between_settings(tmp_path: Path, composed: list[int]) -> None:
    load_digits_scenes(**SMALL, cache=tmp_path)
    load_digits_scenes(**SMALL, seed=1, cache=tmp_path)
    load_digits_scenes(**{**SMALL, "n_test": 11}, cache=tmp_path)
    plain = dataclasses.replace(digits.LOOK, ground=0.0)
    load_digits_scenes(**SMALL, look=plain, cache=tmp_path)
    assert len(composed) == 12
    assert len(list(tmp_path.iterdir())) == 4


def test_cache_holds_no_pickle(tmp_path: Path) -> None:
    load_digits_scenes(**SMALL, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    with np.load(file, allow_pickle=False) as stored:
        assert sorted(stored.files) == ["images", "split", "truth"]
        assert all(stored[name].dtype != object for name in stored.files)


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 255
    file.write_bytes(bytes(content))


def _other_arrays(file: Path) -> None:
    np.savez(file, images=np.zeros(3))


def _wrong_shape(file: Path) -> None:
    np.savez(file, images=np.zeros(3), truth=np.zeros(3), split=np.zeros(3))


def _pickled(file: Path) -> None:
    np.savez(file, images=np.array([{}], dtype=object), truth=np.zeros(3), split=np.zeros(3))


def _no_zip(file: Path) -> None:
    file.write_text("not an archive")


def _one_array(file: Path) -> None:
    with file.open("wb") as stream:
        np.save(stream, np.zeros(3))


def _empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [_truncate, _flip, _other_arrays, _wrong_shape, _pickled, _no_zip, _one_array, _empty],
)
def test_damaged_cache_is_made_again(tmp_path: Path, damage, composed: list[int]) -> None:
    made = load_digits_scenes(**SMALL, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    damage(file)
    again = load_digits_scenes(**SMALL, cache=tmp_path)
    assert np.array_equal(made.images, again.images)
    assert len(composed) == 6
    load_digits_scenes(**SMALL, cache=tmp_path)
    assert len(composed) == 6


def test_default_folder_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUSONE_CACHE", str(tmp_path / "named"))
    load_digits_scenes(**SMALL)
    assert len(list((tmp_path / "named").iterdir())) == 1
    monkeypatch.delenv("PLUSONE_CACHE")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    load_digits_scenes(**SMALL)
    assert len(list((tmp_path / "home" / ".cache" / "plusone").iterdir())) == 1


def test_empty_environment_variable_means_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUSONE_CACHE", "")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    load_digits_scenes(**SMALL)
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    assert len(load_digits_scenes(**SMALL, cache=file / "below").images) == 70
    assert len(load_digits_scenes(**SMALL, cache=file).images) == 70


def test_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **arrays: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full)
    assert len(load_digits_scenes(**SMALL, cache=tmp_path).images) == 70
    assert not list(tmp_path.iterdir())


def test_an_empty_split_is_allowed(tmp_path: Path) -> None:
    data = load_digits_scenes(5, 0, 0, cache=tmp_path)
    assert data.split.tolist() == [0] * 5


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="negative"):
        load_digits_scenes(-1, 2, 2, cache=tmp_path)
    with pytest.raises(InputError, match="negative"):
        compose(0, 5, seed=-1)
    with pytest.raises(InputError, match="split"):
        compose(3, 5)


def test_features(train: Scenes) -> None:
    images = train.images[:30]
    features = random_conv_features(images, dim=32)
    assert features.shape == (30, 32)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert (features.std(0) > 0).all()
    assert np.array_equal(features, random_conv_features(images, dim=32))
    assert not np.allclose(features, random_conv_features(images, dim=32, seed=1))
    np.testing.assert_allclose(
        features, random_conv_features(images, dim=32, batch=7), rtol=1e-4, atol=1e-5
    )
    assert random_conv_features(images[:0], dim=32).shape == (0, 32)


def test_features_ignore_brightness_and_contrast() -> None:
    image = compose(0, 1).images // 2
    brighter = image + np.uint8(60)
    np.testing.assert_allclose(
        random_conv_features(image, 16), random_conv_features(brighter, 16), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize(("shape", "dim"), [((2, 64), 16), ((2, 16, 64), 16), ((2, 64, 64), 15)])
def test_features_refuse_wrong_arguments(shape: tuple[int, ...], dim: int) -> None:
    with pytest.raises(InputError):
        random_conv_features(np.zeros(shape, np.uint8), dim)
