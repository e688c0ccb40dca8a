"""Every figure says what the numbers say."""

import numpy as np
import pytest

from plusone.analysis.counts import class_counts
from plusone.analysis.hidden import (
    densities,
    distances,
    false_negatives,
    gr_k_hat,
    hidden_positives,
    probes_of,
)
from plusone.report import classes, curves, hidden, sweeps
from plusone.report import hidden as shares
from plusone.report import labels as counts
from plusone.report import losses as regimes
from plusone.report import losses as surfaces
from plusone.report import summary as scores
from plusone.report.lines import Line
from plusone.report.losses import k_intervals
from plusone.report.page import save_figure
from plusone.report.summary import Score
from plusone.results import Probe

pytestmark = pytest.mark.slow

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
    near = [Score("an", "an", 0.5, 0.01, top=True), found[1]]
    assert title(scores.score_dots(near, "pets", split="validation")) == (
        "pets: gr and an cannot be told apart at the top: 70.0 % validation mAP (50.0 assuming "
        "negatives)"
    )


def test_learning_curves():
    val = [Line("an", [1, 2, 3], [50.0, 60.0, 52.0], [1.0, 1.0, 1.0]), Line("x", [1], [10.0])]
    figure = curves.learning_curves(val, val, INK, "pets")
    assert title(figure).endswith("an peaks in epoch 2 and loses 8.0 points of validation mAP by "
                                  "the last")  # fmt: skip
    grey = [Line("x", [1, 2], [60.0, 50.0])]
    assert "x peaks in epoch 1" in title(curves.learning_curves(grey, grey, INK, "pets"))
    one = [Line("an", [1], [50.0])]
    assert title(curves.learning_curves(one, one, INK, "pets")).endswith("of a single epoch")
    steady = [Line("an", [1, 2], [50.0, 60.0])]
    assert "no method loses" in title(curves.learning_curves(steady, steady, INK, "pets"))


def test_hidden_labels(make):
    epochs = make.result("gr")["epochs"]
    _, probes = probes_of(epochs)
    course = hidden_positives(epochs)
    drawn = hidden.positive_shades({"gr": course, "an": course}, "pets")
    assert "half of the hidden positives end above" in title(drawn)
    shades = hidden.shades(course)
    assert shades.shape == (3, hidden.BINS)
    assert shades.sum(1) == pytest.approx(1)
    line = Line("gr", [1, 2, 3], list(distances(epochs).distance))
    other = Line("an", [1, 2, 3], [0.0, 0.1, 0.05])
    assert title(hidden.distance_curves([line, other], INK, "pets")) == (
        "pets: gr keeps hidden positives and negatives farthest apart (0.30; an 0.05)"
    )
    moments = [("first: epoch 1", densities(probes[0])), ("last: epoch 3", densities(probes[-1]))]
    assert title(hidden.density_grid({"gr": moments}, "pets", 3)) == (
        "pets, seed 3: at the end gr keeps the two kinds 0.30 apart"
    )
    pair = (false_negatives(probes[0]), false_negatives(probes[-1]))
    dots = shares.false_negative_dots({"gr": pair}, {"gr": gr_k_hat(3, 3)}, INK, "pets", 2.0)
    assert "of unobserved labels are positive" in title(dots)
    assert [text.get_text() for text in dots.legends[0].get_texts()] == [
        "Eq. 6, k = 2.00",
        "khat, Eq. 7",
    ]
    (curve,) = (line for line in dots.axes[0].lines if line.get_label().startswith("Eq. 6"))
    assert curve.get_ydata()[-1] == pytest.approx(0.5 * 0.995 / (1 - 0.5 * 0.995))
    values = {0.5: ([Line("gr", [1], [0.25])], [Line("gr", [1], [0.9])])}
    assert title(shares.predictive_lines(values, INK, "pets")).endswith(
        "that gr puts above 0.5, 25 % are positive at the end"
    )


def test_hidden_labels_without_numbers(make):
    nothing = densities(Probe(positives=[0] * 100, negatives=[1] * 100, distance=None))
    assert "probabilities of" in title(hidden.density_grid({"gr": [("last", nothing)]}, "pets"))
    nan = float("nan")
    late = [Line("gr", [1, 2, 3], [0.1, 0.2, nan]), Line("an", [1, 2], [0.1, 0.1])]
    assert "farthest apart (0.20; an 0.10)" in title(hidden.distance_curves(late, INK, "pets"))
    same = [Line("gr", [1], [0.101]), Line("an", [1], [0.1])]
    assert hidden.apart(same, INK, "pets") == (
        "pets: gr and an keep hidden positives and negatives equally far apart (0.10)"
    )
    assert hidden.apart(same[:1], INK, "pets").endswith("ends at 0.10 with gr")
    assert hidden.apart([], INK, "pets") == "pets: distance of hidden positives and negatives"


def test_small_shares_have_digits(make):
    counts = Probe(positives=[int(b == 3) for b in range(100)], negatives=[2] * 100, distance=0.1)
    pair = (false_negatives(counts), false_negatives(counts))
    assert title(shares.false_negative_dots({"an": pair}, {}, INK, "pets")) == (
        "pets: 0.5 % of unobserved labels are positive; where an is sure of them (p ≥ 0.9), 0 % are"
    )


def test_the_median_of_a_histogram():
    table = [0.0] * 100
    table[50] = 1.0
    assert hidden.median(table) == pytest.approx(0.505)
    assert np.isnan(hidden.median([0.0] * 100))


def test_counts(make):
    assert title(counts.seen_and_missing(class_counts(make.result()))) == (
        "pets: 26 % of the training positives are missing, most of ant (44 %)"
    )
    drawn = counts.seen_and_missing(class_counts(make.result(items={"train": 12})))
    assert "items" in [text.get_text() for text in drawn.axes[0].get_legend().get_texts()]
    many = {"classes": [f"c{n}" for n in range(90)], "seen": [1] * 90, "true": [1] * 90}
    figure = counts.seen_and_missing(class_counts(make.result(labels=many)))
    assert title(figure) == "pets: no positive is missing"


def test_classes():
    table = {"gr": [0.5, 0.7, float("nan")], "an": [0.6, 0.3, float("nan")]}
    figure = classes.class_dots(["a", "b", "c"], table, INK, "pets")
    assert title(figure) == "pets: gr beats an in 1 of 2 classes, most in b (+40.0 points)"
    behind = {"an": [0.5, 0.3, 0.2], "bce": [0.6, 0.32, 0.9]}
    assert classes.finding(["a", "b", "c"], behind, "pets") == (
        "pets: an is behind bce in all 3 classes, least in b (2.0 points)"
    )
    nan = float("nan")
    assert "no class in common" in classes.finding(["a"], {"an": [nan], "gr": [0.1]}, "pets")
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
    flat = make.sweep | {"rows": [row | {"test_map": 0.5} for row in make.sweep["rows"]]}
    assert sweeps.finding(flat) == "em does not move with alpha: mAP stays within 0.00 points"
    base = make.sweep["baseline"] | {"test_map": None, "val_map": 0.6}
    untested = make.sweep | {"baseline": base, "rows": [
        row | {"test_map": None, "test_sd": None} for row in make.sweep["rows"]]
    }  # fmt: skip
    axes = sweeps.sweep_curves(untested).axes[0]
    assert axes.get_ylabel() == "validation mAP in %"
    assert "an" in [text.get_text() for text in axes.texts]  # the baseline is drawn all the same


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


def test_surfaces(make):
    found = [make.surface("an", 1.0), make.surface("em", 0.2)]
    figure = surfaces.loss_surfaces(found)
    assert title(figure) == (
        "pets: rise of the loss halfway to the border: an 0.32, em 0.064 (each in its own units)"
    )
    assert figure.axes[0].get_title(loc="left") == "an\nrises by up to 2"
    assert figure.axes[-1].get_ylabel() == "share of the highest rise"
    rise = surfaces.rise_halfway(make.surface("em", 0.2))
    assert rise == pytest.approx(0.2 * 0.25, rel=0.3)  # height times the radius squared
    below = make.surface("em", -0.2)  # a loss that can still fall is drawn, too
    assert "rise of the loss" in title(surfaces.loss_surfaces([below]))
    again = [found[0] | {"run": "runs/a"}, found[0] | {"run": "runs/b"}, found[1]]
    assert surfaces.names(again) == ["an (a)", "an (b)", "em"]


def test_a_surface_with_points_that_are_not_finite(make):
    surface = make.surface("em", 0.2)
    surface["loss"][0] = [None] * 5
    figure = surfaces.loss_surfaces([surface])
    assert "em 0.064" in title(figure)


def test_intervals(make):
    assert title(k_intervals([make.intervals])) == (
        "pets: 5 items tell k to within 0.5 in 90 % of draws"
    )
