"""Where in a picture a label is found: by the crops alone, on every page that shows it."""

import csv
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from plusone.cli.app import main
from plusone.data.formats import read
from plusone.data.images import CROPS
from plusone.inputs.task import make_task
from plusone.prediction import tags
from plusone.prediction.clearest import ClearestParts, box_of, clearest
from plusone.prediction.items import find_items
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.report.writing import write_report
from plusone.reviewing.opening import open_suggestions
from plusone.suggestions import Suggestions, write_suggestions
from plusone.training.run import train

COLOURS = {"blue": (40, 60, 250), "green": (40, 220, 60), "red": (250, 50, 40)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run on 160 photos with discs in some of three colours, in random corners."""
    folder, rng = tmp_path_factory.mktemp("discs"), np.random.default_rng(0)
    (folder / "photos").mkdir()
    corner = {}
    for number in range(160):
        image = Image.fromarray(rng.integers(110, 140, (40, 50, 3), dtype=np.uint8))
        for colour, value in COLOURS.items():
            if number % 7 == 0 or rng.random() < 0.5:
                place = corner[number, colour] = int(rng.integers(4))
                x, y = 10 + 30 * (place % 2), 9 + 22 * (place // 2)
                ImageDraw.Draw(image).ellipse((x - 6, y - 6, x + 6, y + 6), fill=value)
        image.save(folder / "photos" / f"{number:03d}.png")
    with (folder / "labels.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", *COLOURS])
        for number in range(160):
            has = [1 if (number, colour) in corner else -1 for colour in COLOURS]
            if number % 4 == 1:  # the positives of some photos are not known
                has = [known if known < 0 else "" for known in has]
            rows.writerow([f"photos/{number:03d}.png", *has])
    data = read(folder / "labels.csv")
    settings = {"method": "an", "mode": "linear", "crops": "five", "image_size": 24, "lr": 0.1}
    settings |= {"epochs": 60, "standardize": True, "workers": 0}
    recipe = make_recipe(settings)
    source = {"data": str(folder / "labels.csv"), "features": [], "format": "auto"}
    train(make_task(data, recipe), recipe, folder / "run", source=source | {"labels": "auto"})
    return SimpleNamespace(folder=folder, run=folder / "run", data=data, corner=corner)


def test_the_clearest_crop_leads():
    scores = np.zeros((5, 4))  # crops, labels
    scores[3] = [3.0, 3.0, 1.9, 3.0]
    scores[0, 1] = 3.1  # the whole is clearer
    scores[4, 3] = 2.9  # others are nearly as clear
    scores[1, 3] = 2.9
    assert clearest(scores).tolist() == [3, 0, 0, 0]
    assert clearest(np.stack([scores, -scores])).shape == (2, 4)
    assert clearest(scores[:1]).tolist() == [0, 0, 0, 0]


def test_parts_hold_what_they_are_said_to_hold(made):
    """Of the discs with an outline, by far most are inside; a random tile has one in four."""
    predictor, parts = load_run(made.run), ClearestParts(made.run)
    inside = []
    for (number, colour), place in made.corner.items():
        found = parts.of(made.folder / "photos" / f"{number:03d}.png", [colour])
        if colour in found:
            inside.append(found[colour] == CROPS["five"][1 + place])
    assert len(inside) > 200
    assert np.mean(inside) > 0.9
    assert box_of(predictor, 0, (50, 40)) is None
    assert parts.of(made.folder / "labels.csv", ["red"]) == {}  # no image


def test_predictions_come_with_those_of_the_crops(made, tmp_path, monkeypatch):
    predictor = load_run(made.run)
    (items,) = find_items(predictor, [str(made.folder / "photos")])
    (plain, *_), n = tags.predict_all(predictor, [items], tmp_path), tags.BATCH
    first, *rest = tags.predict_all(predictor, [items], tmp_path, apart=True)
    assert plain.crops is None
    assert first.crops.shape == (n, 5, 3)
    assert sum(map(len, (batch.ids for batch in rest))) == 160 - n
    torch.testing.assert_close(first.probabilities, plain.probabilities)
    monkeypatch.setattr(tags, "decoded", None)  # the features of the crops are kept
    again = next(iter(tags.predict_all(predictor, [items], tmp_path, apart=True)))
    assert torch.equal(again.crops, first.crops)
    whole = predictor.with_crops("one")
    monkeypatch.undo()
    assert next(iter(tags.predict_all(whole, [items], apart=True))).crops is None


def test_the_mean_odds_of_crops_come_with_each(made):
    """As a model of whole images is shown several crops."""
    predictor = load_run(made.run).raw
    recipe = predictor.recipe.model_copy(update={"crops": "one"})
    shown = replace(predictor, recipe=recipe).with_crops("five")
    (items,) = find_items(shown, [str(made.folder / "photos")])
    found = next(iter(tags.predict_all(shown, [items], apart=True)))
    odds = found.crops.exp().mean(dim=1)
    torch.testing.assert_close(found.probabilities, odds / (1 + odds))
    plain = next(iter(tags.predict_all(shown, [items])))
    torch.testing.assert_close(found.probabilities, plain.probabilities)


def test_the_gallery_and_the_report_draw_them(made, tmp_path):
    page = tmp_path / "g.html"
    with pytest.raises(SystemExit, match="0"):
        main(["predict", *map(str, (made.run, made.folder / "photos")), "--gallery", str(page)])
    text = page.read_text()
    assert 'data-part="left: 40.0%; top: 0.0%; width: 60.0%; height: 60.0%"' in text
    assert "clearest in the upper right part of the picture" in text
    assert "not a detection" in text
    text = write_report([made.run], tmp_path / "report.html", figures=tmp_path / "f").read_text()
    assert "data-part=" in text
    assert "not a detection" in text


def test_a_review_asks_for_them_and_follows_no_name_in_its_folder(made, tmp_path):
    table = made.data.table
    label = np.array([table.classes.index(colour) for _, colour in made.corner], dtype=np.int32)
    row = np.array([number for number, _ in made.corner])
    order = np.lexsort((label, row))
    p = np.full(len(row), 0.5, dtype=np.float32)
    labels = replace(table, truth=None, labels=table.labels.take(np.arange(160)).only_positives())
    empty = replace(labels, labels=labels.labels.from_lists([[]] * 160, 3))
    found = Suggestions(empty, row[order], label[order], p, p, {"run": str(made.run)})
    write_suggestions(found, tmp_path / "elsewhere")
    assert open_suggestions(tmp_path / "elsewhere").parts_of(0) == {}
    desk = open_suggestions(tmp_path / "elsewhere", run=made.run)
    assert desk.parts_of(0).keys() <= {0, 1, 2}
    assert any(desk.parts_of(row) for row in range(5))
    write_suggestions(found, made.folder / "run-suggestions")
    beside = open_suggestions(made.folder / "run-suggestions")
    assert beside.parts_of(0) == desk.parts_of(0)
