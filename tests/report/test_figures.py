"""Every figure says what the numbers say."""

import numpy as np
import pytest

from plusone.analysis.counts import class_counts
from plusone.analysis.hidden import (
    densities,
    distances,
    false_negatives,
    hidden_positives,
    probes_of,
)
from plusone.analysis.k_hat import gr_k_hat
from plusone.report.figures import (
    classes,
    counts,
    curves,
    hidden,
    regimes,
    scores,
    surfaces,
    sweeps,
)
from plusone.report.figures.intervals import k_intervals
from plusone.report.figures.lines import Line
from plusone.report.figures.scores import Score
from plusone.report.save import save_figure

INK = {"an": "#d55e00", "gr": "#0072b2"}


def title(figure):
    return figure.get_suptitle().replace("\n", " ")


def test_scores():
    found = [Score("an", "an", 0.5, 0.01), Score("gr", "gr", 0.7, None, top=True),
             Score("bce", "bce", 0.8, 0.02, reference=True)]  # fmt: skip
    figure = scores.score_dots(found, "pets")
    said = "pets: gr is best with 70.0 % mAP (50.0 assuming negatives, 80.0 with all labels)"
    assert title(figure) == said
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["bce", "an", "gr"]  # from below


def test_learning_curves():
    val = [Line("an", [1, 2, 3], [50.0, 60.0, 52.0], [1.0, 1.0, 1.0]), Line("x", [1], [10.0])]
    figure = curves.learning_curves(val, val, INK, "pets")
    assert title(figure).endswith("an peaks in epoch 2 and loses 8.0 points of validation mAP by "
                                  "the last")  # fmt: skip
    steady = [Line("an", [1, 2], [50.0, 60.0])]
    assert "no method loses" in title(curves.learning_curves(steady, steady, INK, "pets"))


def test_hidden_labels(make):
    epochs = make.result("gr")["epochs"]
    _, probes = probes_of(epochs)
    course = hidden_positives(epochs)
    bands = hidden.positive_bands({"gr": course, "an": course}, INK, "pets")
    assert "half of the hidden positives end above" in title(bands)
    line = Line("gr", [1, 2, 3], list(distances(epochs).distance))
    other = Line("an", [1, 2, 3], [0.0, 0.1, 0.05])
    assert title(hidden.distance_curves([line, other], INK, "pets")) == (
        "pets: gr tells hidden positives from negatives best (distance 0.30 in the last epoch; an "
        "0.05)"
    )
    moments = [("first: epoch 1", densities(probes[0])), ("last: epoch 3", densities(probes[-1]))]
    assert "gr keeps the two kinds 0.30 apart" in title(hidden.density_grid({"gr": moments}, "d"))
    pair = (false_negatives(probes[0]), false_negatives(probes[-1]))
    dots = hidden.false_negative_dots({"gr": pair}, {"gr": gr_k_hat(3, 3)}, INK, "pets")
    assert "of unobserved labels are positive" in title(dots)
    values = {0.5: ([Line("gr", [1], [0.25])], [Line("gr", [1], [0.9])])}
    assert title(hidden.predictive_lines(values, INK, "pets")).endswith(
        "that gr puts above 0.5, 25 % are positive at the end"
    )


def test_quantiles_of_a_histogram():
    shares = [0.0] * 100
    shares[50] = 1.0
    found = hidden.quantiles(shares)
    assert found[2] == pytest.approx(0.505)
    assert 0.5 <= found[0] < found[-1] <= 0.51
    assert np.isnan(hidden.quantiles([0.0] * 100)).all()


def test_counts(make):
    assert title(counts.seen_and_missing(class_counts(make.result()))) == (
        "pets: 26 % of the training positives are missing, most of ant (44 %)"
    )
    many = {"classes": [f"c{n}" for n in range(90)], "seen": [1] * 90, "true": [1] * 90}
    figure = counts.seen_and_missing(class_counts(make.result(labels=many)))
    assert title(figure) == "pets: no positive is missing"


def test_classes():
    table = {"gr": [0.5, 0.7, float("nan")], "an": [0.6, 0.3, float("nan")]}
    figure = classes.class_dots(["a", "b", "c"], table, INK, "pets")
    assert title(figure) == "pets: gr beats an in 1 of 2 classes, most in b (+40.0 points)"
    wide = {"gr": list(np.linspace(0, 1, 200))}
    figure = classes.class_dots([str(n) for n in range(200)], wide, INK, "pets")
    assert len(figure.axes[0].get_yticks()) == classes.SHOWN


def test_sweeps(make, tmp_path):
    figure = sweeps.sweep_curves(make.sweep)
    assert figure.axes[0].get_xscale() == "log"  # 0.01 to 1
    near = make.sweep | {"values": [1, 2], "rows": [row | {"value": n, "data": f"d{n}"}
                         for n, row in enumerate(make.sweep["rows"], 1)]}  # fmt: skip
    figure = sweeps.sweep_curves(near)
    assert figure.axes[0].get_xscale() == "linear"
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == ["d1", "d2", "d3"]
    words = make.sweep | {"values": ["a", "b", "c"], "default": "a", "rows": [
        row | {"value": name} for name, row in zip("abc", make.sweep["rows"], strict=True)]
    }  # fmt: skip
    labels = [text.get_text() for text in sweeps.sweep_curves(words).axes[0].get_xticklabels()]
    assert labels == ["a", "b", "c"]
    counted = make.sweep | {"over": "train_share", "rows": [
        row | {"labels": n} for n, row in zip((10, 100, 1000), make.sweep["rows"], strict=True)]
    }  # fmt: skip
    axes = sweeps.sweep_curves(counted).axes[0]
    assert axes.get_xlabel() == "seen labels used in training"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "100", "1000"]
    save_figure(figure, tmp_path, "sweep")


def test_regimes():
    p = [0.1, 0.5, 0.9]

    def curve(method, slope):
        side = {"loss": [0.0, None, 1.0], "grad": [slope * x for x in p]}
        return {"method": method, "label": method, "observed": side, "unobserved": side}

    one = regimes.gradient_regimes({"p": p, "curves": [curve("an", 1.0), curve("em", -0.5)]})
    assert title(one) == (
        "An unobserved label at p = 0.9: an pushes it down (slope 0.90), em pushes it up (slope "
        "-0.45)"
    )
    none = regimes.gradient_regimes({"p": p, "curves": [curve("x", 0.0)]})
    assert title(none).endswith("x leaves it alone")


def test_surfaces_and_intervals(make):
    figure = surfaces.loss_surfaces([make.surface("an", 1.0), make.surface("em", 0.2)])
    assert "em lies flattest" in title(figure)
    flat = surfaces.flatness(make.surface("em", 0.2))
    assert flat == pytest.approx(0.2 * 0.25, rel=0.3)  # height times the radius squared
    below = make.surface("em", -0.2)  # a loss that can still fall is drawn, too
    assert "em lies flattest" in title(surfaces.loss_surfaces([make.surface("an", 1.0), below]))
    assert title(k_intervals([make.intervals])) == "pets: 5 items tell k to within 0.5"
