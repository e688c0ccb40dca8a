"""What `--over` may say."""

import numpy as np
import pytest

from plusone.compare.sweep import label_of, parse_over, settings_for
from plusone.data.observation import observe
from plusone.errors import InputError


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("lr=1e-3,1e-4", "lr", (1e-3, 1e-4)),
        ("lr = 1e-3 , 1e-4 , 1e-3", "lr", (1e-3, 1e-4)),
        ("options.variant=paper,released", "options.variant", ("paper", "released")),
        ("options.negatives=true,false", "options.negatives", (True, False)),
        ("options.lam=none,1,1.0", "options.lam", (None, 1, 1.0)),
        ("freeze=[],['conv1', 'bn1']", "freeze", ([], ["conv1", "bn1"])),
        ("observe=single,fraction(0.5)", "observe", ("single", "fraction(0.5)")),
        ("keep=0.1,0.2,...,1.0", "keep", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)),
        ("epochs=9,6,...,0", "epochs", (9, 6, 3, 0)),
    ],
)
def test_values_are_read_as_settings_are(text, name, values):
    assert parse_over(text) == (name, values)
    assert [type(value) for value in parse_over(text)[1]] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("lr", "write it as name=value,value"),
        ("lr=", "write it as name=value,value"),
        ("=1,2", "write it as name=value,value"),
        ("alpha=1,2", r"--over alpha: unknown setting; settings: .*lr.*options\.NAME"),
        ("seed=1,2", "name the seeds with --seeds"),
        ("method=an,em", "name the methods with --methods"),
        ("options=1", r"write options\.NAME"),
        ("stages=[]", "stages cannot be swept"),
        ("keep=0.1,...,1.0", r"write three dots as in 0\.1,0\.2,\.\.\.,1\.0"),
        ("keep=0.1,0.2,...", r"write three dots as in"),
        ("keep=a,b,...,c", r"write three dots as in"),
        ("keep=0.1,0.2,...,0.55", r"steps of 0\.1 do not lead from 0\.1 to 0\.55"),
        ("keep=0.2,0.1,...,0.5", r"steps of -0\.1 do not lead"),
        ("keep=0.1,0.1,...,0.5", r"steps of 0 do not lead"),
    ],
)
def test_what_cannot_be_swept_is_refused_in_a_sentence(text, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_over(text)


@pytest.mark.parametrize(
    ("over", "value", "method", "sentence"),
    [
        ("keep", 0, "em", "keep=0: the share of positives must be above 0"),
        ("keep", 1.5, "em", r"keep=1\.5"),
        ("keep", "half", "em", "keep=half"),
        ("keep", 0.5, "bce", "bce is defined by the labels it sees.*--baseline bce"),
        ("expected_positives", 2, "em", "em does not use expected_positives; .*epr.*lasd"),
        ("lr", 1, "nothing", "unknown method 'nothing'"),
    ],
)
def test_values_without_a_meaning_are_refused(over, value, method, sentence):
    with pytest.raises(InputError, match=sentence):
        settings_for(over, value, method)


def test_settings_of_a_value():
    assert settings_for("options.alpha", 0.2, "em") == {"options": {"alpha": 0.2}}
    assert settings_for("epochs", 3, "em") == {"epochs": 3}
    assert settings_for("expected_positives", 2, "epr") == {"expected_positives": 2}


def test_labels_kept_at_a_small_share_are_kept_at_every_larger_one():
    truth = (np.random.default_rng(0).random((200, 10)) < 0.4).astype(int)
    seen = [observe(truth, settings_for("keep", q, "em")["observe"]) for q in (0.2, 0.5, 1.0)]
    assert (seen[0] <= seen[1]).all()
    assert (seen[1] <= seen[2]).all()
    np.testing.assert_array_equal(seen[2], truth)
    assert abs(seen[0].sum() / truth.sum() - 0.2) < 0.05
    assert (seen[0].sum(axis=1) == 0).any()


def test_axis_labels():
    assert label_of("options.alpha") == "alpha"
    assert label_of("train_share") == "share of the training items"
    assert label_of("batch_size") == "batch_size"
