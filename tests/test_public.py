"""The names that users import."""

import subprocess
import sys
from html import unescape

import numpy as np
import pytest

import plusone


def test_public_names():
    truth = np.array([[1, 1, 0], [0, 0, 1]])
    assert plusone.data.observe(truth, "single").sum() == 2
    assert plusone.metrics.mean_average_precision(truth.astype(float), truth) == 1.0
    assert plusone.evaluate(truth.astype(float), truth)["map"] == 1.0
    assert "gr" in plusone.METHODS
    assert callable(plusone.fit)
    assert callable(plusone.load_run)
    assert all(hasattr(plusone, name) for name in plusone.__all__)
    assert set(plusone.__all__) <= set(dir(plusone))
    shown = {name for name in dir(plusone) if not name.startswith("_")}  # by tab completion too
    assert shown == set(plusone.__all__) - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        plusone.fitt  # noqa: B018


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import plusone", ["torch", "numpy", "sklearn", "PIL"]),
        (
            "from plusone import PlusOneClassifier",
            ["plusone.training", "plusone.methods", "plusone.recipe", "pydantic", "PIL"],
        ),
        (
            "import plusone as p; p.PlusOneClassifier().fit([[0, 1], [1, 0]] * 9, ['a', 'b'] * 9)",
            ["torch._dynamo"],  # torch's compiler, which an optimizer imports
        ),
    ],
)
def test_importing_is_light(code, heavy):
    code += f"; import sys; print(*(set({heavy}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def arrays(dtype=np.float32):
    x = np.random.default_rng(0).normal(size=(200, 6))
    y = (x[:, :3] + 0.1 * x[:, 3:] > 0.3).astype(int)
    return x.astype(dtype), y


def test_fit():
    x, y = arrays()
    split = ["train"] * 150 + ["test"] * 50
    data = plusone.data.Dataset.from_arrays(x, y, complete=True, classes=list("abc"), split=split)
    records = []
    fitted = plusone.fit(data, "an", epochs=10, lr=0.05, on_record=records.append)
    assert isinstance(fitted, plusone.Fitted)
    assert tuple(records) == fitted.records
    assert len(records) == 10
    assert fitted.metrics["test_map"] > 0.9
    assert fitted.metrics["run"] is None
    scores = fitted.predict(x[150:])
    assert scores.shape == (50, 3)
    assert fitted.predict(x[:0]).shape == (0, 3)
    for wrong, sentence in (
        (x[:, :5], r"inputs have shape .* each must be \(6,\)"),
        (x[0], r"shape \(6,\), which is one number for each item"),
    ):
        with pytest.raises(ValueError, match=sentence):
            fitted.predict(wrong)
    found = plusone.evaluate(scores, y[150:], empty="zero")["map"]
    assert found == pytest.approx(fitted.metrics["test_map"], abs=1e-6)


def test_results_are_shown_in_short():
    x, y = arrays()
    data = plusone.data.Dataset.from_arrays(x, y, complete=True, name="<b>&")
    fitted = plusone.fit(data, epochs=1)
    first, second, third = repr(fitted).splitlines()
    assert first.startswith("Fitted(recovery on <b>&: ")
    assert first.endswith("training items, 3 classes)")
    assert second.startswith("  val mAP ")
    assert "[N, 3]" in third
    assert max(map(len, (first, second, third))) <= 100
    assert repr(fitted.result).startswith("RunResult(method='recovery', data='<b>&', seed=0, ")
    assert len(repr(fitted.result)) < 300
    for page in (fitted._repr_html_(), fitted.result._repr_html_()):
        assert "&lt;b&gt;&amp;" in page
        assert "<b>" not in page
        assert fitted.result.headline() in page
        assert fitted.rules[0] in unescape(page)
    model = plusone.PlusOneClassifier(method="em")
    assert "PlusOneClassifier" in model._repr_html_()  # scikit-learn's diagram


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int64])
def test_fit_takes_numbers_of_any_kind(dtype):
    x, y = arrays(dtype)
    fitted = plusone.fit(plusone.data.Dataset.from_arrays(x, y, complete=True), "an", epochs=1)
    assert fitted.predict(x[:4]).shape == (4, 3)
    assert fitted.predict(x[:4].tolist()).shape == (4, 3)


def test_fit_names_what_takes_arrays():
    with pytest.raises(ValueError, match=r"not ndarray; plusone\.Dataset\.from_arrays"):
        plusone.fit(np.zeros((4, 2)), "an")


def test_fit_refuses_what_does_not_exist():
    x, y = arrays()
    data = plusone.data.Dataset.from_arrays(x, y, complete=True)
    with pytest.raises(ValueError, match="unknown method 'magic'"):
        plusone.fit(data, "magic")
    with pytest.raises(ValueError, match="unknown setting 'epoch'"):
        plusone.fit(data, "an", epoch=3)
    with pytest.raises(ValueError, match="unknown method option 'alpha'"):
        plusone.fit(data, "an", options={"alpha": 1})


@pytest.mark.slow
def test_fit_on_yeast(shared):
    folder = shared / "data" / "mulan" / "yeast"
    fitted = plusone.fit(folder, "an", epochs=15)
    test = fitted.training.task.test.truth
    prior = float(test.per_class(1).mean() / len(test))
    assert fitted.metrics["test_map"] > prior + 0.05
