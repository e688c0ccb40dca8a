"""The opening of a report for the owner of photos: what to expect of the tags."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plusone.data.dataset import Dataset
from plusone.inputs.task import make_task
from plusone.recipe import make_recipe
from plusone.report.material import collect
from plusone.report.owner import expected_of, tags
from plusone.report.writing import write_report
from plusone.training.run import train


@pytest.fixture(scope="module")
def truth_and_run(tmp_path_factory):
    """Single positives of 800 items; the last of eight classes has nothing to do with x."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(800, 12)).astype(np.float32)
    scores = x[:, :8] + 0.3 * draw.normal(size=(800, 8))
    scores[:, 7] = draw.normal(size=800)
    truth = scores > 0.8
    truth[np.arange(800), scores.argmax(axis=1)] = True
    named = (draw.random((800, 8)) * truth).argmax(axis=1)
    names = [f"class {number}" for number in range(8)]
    data = Dataset.from_arrays(x, np.eye(8, dtype=np.int8)[named], classes=names, name="photos")
    folder = tmp_path_factory.mktemp("owner") / "run"
    recipe = make_recipe({"method": "recovery", "observe": "given", "select_on": "observed"})
    train(make_task(data, recipe), recipe, folder)
    return truth, folder


def test_what_is_expected_is_true(truth_and_run):
    truth, folder = truth_and_run
    expected = expected_of(collect([folder]).runs[0])
    assert expected is not None
    assert expected.items == len(truth)
    assert expected.seen == 1
    assert expected.there.sum() / len(truth) == pytest.approx(truth.sum(axis=1).mean(), rel=0.2)
    assert expected.ranked[-1] == "class 7"


def test_the_report_opens_with_tags_and_ranking_figures_are_below(truth_and_run, tmp_path):
    _, folder = truth_and_run
    page = write_report([folder], tmp_path / "report.html").read_text(encoding="utf-8")
    assert 0 < page.index('id="tags"') < page.index('id="classes"') < page.index('id="summary"')
    assert "tags per photo" in page
    assert "of 10 tags that it gives are right" in page
    material = collect([folder])
    run = material.runs[0].model_copy(update={"val_against": "truth"})
    group = material.groups[0]
    entry = replace(group.entries[0], runs=(run,))
    known = replace(material, groups=(replace(group, entries=(entry,)),), runs=(run,))
    assert tags(known) is None
