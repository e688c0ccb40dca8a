"""Every figure says what the numbers say."""

import numpy as np
import pytest

from plusone.compare.documents import Intervals, Sweep
from plusone.report import classes, curves, gradients, hidden, surfaces, sweeps, training_labels
from plusone.report.gradients import Gradients
from plusone.report.hidden import (
    densities,
    distances,
    false_negatives,
    gr_k_hat,
    hidden_positives,
    probes_of,
)
from plusone.report.k_intervals import k_intervals
from plusone.report.overview import Score, result, score_dots
from plusone.report.page import save_figure
from plusone.report.style import Line
from plusone.report.surfaces import RunSurface, mean_rise
from plusone.report.training_labels import class_counts
from plusone.results import Probe

pytestmark = pytest.mark.slow

INK = {"an": "#d55e00", "gr": "#0072b2"}


def title(figure):
    return figure.get_suptitle().replace("\n", " ")


def test_scores():
    found = [Score("an", 0.5, 0.01), Score("gr", 0.7, None, top=True),
             Score("bce", 0.8, 0.02, reference=True)]  # fmt: skip
    figure = score_dots(found, "pets")
    expected = "pets: gr is best with 70.0 % mAP (50.0 assuming negatives, 80.0 with all labels)"
    assert title(figure) == expected
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["bce", "an", "gr"]  # from below
    near = [Score("an", 0.5, 0.01, top=True), found[1]]
    assert title(score_dots(near, "pets", split="validation")) == (
        "pets: gr and an are best, within noise of each other: 70.0 % validation mAP (50.0 "
        "assuming negatives)"
    )


def test_learning_curves():
    val = [Line("an", [1, 2, 3], [50.0, 60.0, 52.0], [1.0, 1.0, 1.0]), Line("x", [1], [10.0])]
    figure = curves.map_and_loss(val, val, INK, "pets")
    assert title(figure).endswith("an peaks in epoch 2 and loses 8.0 points of validation mAP by "
                                  "the last")  # fmt: skip
    grey = [Line("x", [1, 2], [60.0, 50.0])]
    assert "x peaks in epoch 1" in title(curves.map_and_loss(grey, grey, INK, "pets"))
    one = [Line("an", [1], [50.0])]
    assert title(curves.map_and_loss(one, one, INK, "pets")).endswith("of a single epoch")
    steady = [Line("an", [1, 2], [50.0, 60.0])]
    assert "no method loses" in title(curves.map_and_loss(steady, steady, INK, "pets"))


def test_the_headline_of_one_training_is_about_the_epoch_that_was_kept(make):
    line = [Line("gr", [1, 2, 3], [50.0, 60.0, 52.0])]
    run = make.typed("gr", best_epoch=2, val_map=0.6, test_map=0.58)
    figure = curves.map_and_loss(line, line, INK, "pets", run)
    assert title(figure) == "pets: 58.0 % test mAP, 60.0 % validation mAP; epoch 2 was kept"
    assert [float(each.get_xdata()[0]) for each in figure.axes[0].lines][-1] == 2
    staged = make.typed(
        "gr", best_epoch=2, stage_val_map=[0.5, 0.65], selected_on="observed", test_map=None
    )
    assert title(curves.map_and_loss(line, line, INK, "pets", staged)) == (
        "pets: 65.0 % validation mAP (against seen labels alone); epoch 2 of the last stage was "
        "kept"
    )


def test_unknown_test_labels(make):
    ends = {"test_if_negative": {"map": 0.25}, "test_if_positive": {"map": 0.75}}
    run = make.typed("gr", val_map=0.6, test_map=0.58, test_unknown=9, val_against="known", **ends)
    assert result(run, solved=True) == (
        "58.0 % test mAP (9 unknown labels left out; 25.00 if all were negative, 75.00 if all were "
        "positive), 60.0 % validation mAP (against known labels)"
    )


def test_hidden_labels(make):
    epochs = make.typed("gr").epochs
    _, probes = probes_of(epochs)
    course = hidden_positives(epochs)
    drawn = hidden.positive_shades({"gr": course, "an": course}, "pets")
    assert "the median probability of hidden positives ends at" in title(drawn)
    table = hidden.histograms(course)
    assert table.shape == (3, hidden.HISTOGRAM_BINS)
    assert table.sum(1) == pytest.approx(1)
    line = Line("gr", [1, 2, 3], list(distances(epochs).distance))
    other = Line("an", [1, 2, 3], [0.0, 0.1, 0.05])
    assert title(hidden.distance_curves([line, other], INK, "pets")) == (
        "pets: gr separates hidden positives and negatives best (distance 0.30; an 0.05)"
    )
    moments = [("first: epoch 1", densities(probes[0])), ("last: epoch 3", densities(probes[-1]))]
    assert title(hidden.density_grid({"gr": moments}, "pets", 3)) == (
        "pets, seed 3: after the last epoch the distance is 0.30 with gr"
    )
    pair = (false_negatives(probes[0]), false_negatives(probes[-1]))
    dots = hidden.false_negative_dots({"gr": pair}, {"gr": gr_k_hat(3, 3)}, INK, "pets", 2.0)
    assert "of unobserved labels are positive" in title(dots)
    assert [text.get_text() for text in dots.legends[0].get_texts()] == [
        "Eq. 6, k = 2.00",
        "khat, Eq. 7",
    ]
    (curve,) = (line for line in dots.axes[0].lines if line.get_label().startswith("Eq. 6"))
    assert curve.get_ydata()[-1] == pytest.approx(0.5 * 0.995 / (1 - 0.5 * 0.995))
    values = {0.5: ([Line("gr", [1], [0.25])], [Line("gr", [1], [0.9])])}
    assert title(hidden.predictive_lines(values, INK, "pets")).endswith(
        "that gr puts above 0.5, 25 % are positive after the last epoch"
    )


def test_hidden_labels_without_numbers(make):
    nothing = densities(Probe(positives=[0] * 100, negatives=[1] * 100, distance=None))
    assert "probabilities of" in title(hidden.density_grid({"gr": [("last", nothing)]}, "pets"))
    nan = float("nan")
    late = [Line("gr", [1, 2, 3], [0.1, 0.2, nan]), Line("an", [1, 2], [0.1, 0.1])]
    assert "best (distance 0.20; an 0.10)" in title(hidden.distance_curves(late, INK, "pets"))
    same = [Line("gr", [1], [0.101]), Line("an", [1], [0.1])]
    assert hidden.distance_finding(same, INK, "pets") == (
        "pets: gr and an separate hidden positives and negatives equally well (distance 0.10)"
    )
    assert hidden.distance_finding(same[:1], INK, "pets").endswith("ends at 0.10 with gr")
    assert hidden.distance_finding([], INK, "pets") == (
        "pets: distance between hidden positives and negatives"
    )


def test_small_shares_have_digits(make):
    counts = Probe(positives=[int(b == 3) for b in range(100)], negatives=[2] * 100, distance=0.1)
    pair = (false_negatives(counts), false_negatives(counts))
    assert title(hidden.false_negative_dots({"an": pair}, {}, INK, "pets")) == (
        "pets: 0.5 % of unobserved labels are positive; of those that an gives p ≥ 0.9, 0 % are"
    )


def test_the_median_of_a_histogram():
    table = [0.0] * 100
    table[50] = 1.0
    assert hidden.median(table) == pytest.approx(0.505)
    assert np.isnan(hidden.median([0.0] * 100))


def test_counts(make):
    assert title(training_labels.seen_and_missing(class_counts(make.typed()))) == (
        "pets: 26 % of the training positives are missing, most of ant (44 %)"
    )
    drawn = training_labels.seen_and_missing(class_counts(make.typed(items={"train": 12})))
    assert "items" in [text.get_text() for text in drawn.axes[0].get_legend().get_texts()]
    many = {"classes": [f"c{n}" for n in range(90)], "seen": [1] * 90, "true": [1] * 90}
    figure = training_labels.seen_and_missing(class_counts(make.typed(labels=many)))
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


def drawn(sweep):
    return sweeps.sweep_curves(Sweep.model_validate(sweep))


def test_sweeps(make, tmp_path):
    figure = drawn(make.sweep)
    assert figure.axes[0].get_xscale() == "log"  # 0.01 to 1
    near = make.sweep | {"values": [1, 2], "rows": [row | {"value": n, "data": f"d{n}"}
                         for n, row in enumerate(make.sweep["rows"], 1)]}  # fmt: skip
    figure = drawn(near)
    assert figure.axes[0].get_xscale() == "linear"
    assert [axes.get_title(loc="left") for axes in figure.axes[:3]] == ["d1", "d2", "d3"]
    words = make.sweep | {"values": ["a", "b", "c"], "default": "a", "rows": [
        row | {"value": name} for name, row in zip("abc", make.sweep["rows"], strict=True)]
    }  # fmt: skip
    ticks = [text.get_text() for text in drawn(words).axes[0].get_xticklabels()]
    assert ticks == ["a", "b", "c"]
    counted = make.sweep | {"over": "train_share", "rows": [
        row | {"labels": n} for n, row in zip((10, 100, 1000), make.sweep["rows"], strict=True)]
    }  # fmt: skip
    axes = drawn(counted).axes[0]
    assert axes.get_xlabel() == "seen labels used in training"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["10", "100", "1000"]
    save_figure(figure, tmp_path, "sweep")
    flat = make.sweep | {"rows": [row | {"test_map": 0.5} for row in make.sweep["rows"]]}
    assert title(drawn(flat)) == "alpha does not affect em: mAP varies by 0.00 points"
    base = make.sweep["baseline"] | {"test_map": None, "val_map": 0.6}
    untested = make.sweep | {"baseline": base, "rows": [
        row | {"test_map": None, "test_sd": None} for row in make.sweep["rows"]]
    }  # fmt: skip
    axes = drawn(untested).axes[0]
    assert axes.get_ylabel() == "validation mAP in %"
    assert "an" in [text.get_text() for text in axes.texts]  # the baseline is drawn all the same


def test_regimes():
    def regimes(**slopes):
        sides = {
            name: {"loss": (0.0, 0.5, 1.0), "grad": [slope * p for p in (0.1, 0.5, 0.9)]}
            for name, slope in slopes.items()
        }
        curves = [
            {"method": name, "label": name, "epoch": 1, "epochs": 1, "options": {},
             "independent": True, "observed": side, "unobserved": side}
            for name, side in sides.items()
        ]  # fmt: skip
        values = {"p": (0.1, 0.5, 0.9), "curves": curves, "classes": 20, "k": 1.5, "rest": 0.5}
        return gradients.gradient_regimes(Gradients.model_validate(values))

    assert title(regimes(an=1.0, em=-0.5)) == (
        "An unobserved label at p = 0.9: an pushes it down (gradient 0.90), em pushes it up "
        "(gradient -0.45)"
    )
    assert title(regimes(x=0.0)).endswith("x leaves it alone")


def surface(make, *args, **other):
    return RunSurface.model_validate(make.surface(*args) | other)


def test_surfaces(make):
    found = [surface(make, "an", 1.0), surface(make, "em", 0.2)]
    figure = surfaces.loss_surfaces(found)
    assert title(figure) == (
        "pets: mean rise of the loss halfway to the border: an 0.32, em 0.064 (each in its own "
        "units)"
    )
    assert figure.axes[0].get_title(loc="left") == "an\nrises by up to 2"
    assert figure.axes[-1].get_ylabel() == "share of the highest rise"
    rise = mean_rise(found[1], 0.5)
    assert rise == pytest.approx(0.2 * 0.25, rel=0.3)  # height times the radius squared
    below = surface(make, "em", -0.2)  # a loss that can still fall is drawn, too
    assert "rise of the loss" in title(surfaces.loss_surfaces([below]))
    again = [surface(make, "an", 1.0, run=f"runs/{name}") for name in "ab"]
    assert surfaces.names([*again, found[1]]) == ["an (a)", "an (b)", "em"]


def test_a_surface_with_points_that_are_not_finite(make):
    loss = make.surface("em", 0.2)["loss"]
    figure = surfaces.loss_surfaces([surface(make, "em", 0.2, loss=[[None] * 5, *loss[1:]])])
    assert "em 0.064" in title(figure)


def test_intervals(make):
    assert title(k_intervals([Intervals.model_validate(make.intervals)])) == (
        "pets: 5 labelled items give k to within 0.5 in 90 % of draws"
    )
