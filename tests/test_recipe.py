"""Settings: what is refused, and that a recipe survives its TOML."""

import tomllib

import pytest

from plusone.errors import InputError
from plusone.recipe import Recipe, make_recipe, parse_settings, read_toml
from plusone.types import Stage


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "my.toml: unknown setting 'epoch'; settings: .*epochs"),
        ({"epochs": "many"}, "epochs = 'many': .*integer"),
        ({"epochs": 1.5}, "epochs = 1.5"),
        ({"epochs": 0}, "epochs = 0: .*greater than or equal to 1"),
        ({"lr": 0}, "lr = 0: .*greater than 0"),
        ({"lr": [1]}, "lr = "),
        ({"val_share": 1.0}, "val_share = 1.0: .*less than 1"),
        ({"ema": 1.0}, "ema = 1.0"),
        ({"image_size": 8}, "image_size = 8"),
        ({"mode": "quick"}, "mode = 'quick': .*'linear', 'finetune' or 'linear_init'"),
        ({"flip": "perhaps"}, "flip = 'perhaps'"),
        ({"expected_positives": "many"}, "expected_positives = 'many'"),
        ({"options": 3}, "options = 3: .*dictionary"),
        ({"stages": [{}]}, "stages.0.epochs = .*required"),
        ({"stages": [{"epochs": 0}]}, "stages.0.epochs = 0"),
        ({"stages": [{"epochs": 1, "rate": 1}]}, "unknown setting 'stages.0.rate'; .*lr"),
        ({"lr": -1, "epochs": -1}, "epochs = -1.*lr = -1"),
        ({"workers": 100_000}, "workers = 100000: .*less than or equal to 256"),
        ({"threads": 100_000}, "threads = 100000: .*less than or equal to 1024"),
        ({"batch_size": 10**12}, "batch_size = 10+: .*less than or equal to 1048576"),
        ({"epochs": 10**12}, "epochs = 10+: .*less than or equal to 1000000"),
        ({"cache_mb": 10**12}, "cache_mb = 10+: .*less than or equal to"),
        ({"stages": [{"epochs": 1}] * 101}, "stages = .*at most 100"),
    ],
)
def test_bad_settings_are_named(values, message):
    with pytest.raises(InputError, match=message):
        make_recipe(values, source="my.toml")


def test_a_newer_format_is_refused_in_a_sentence():
    with pytest.raises(
        InputError, match=r"made by a newer plusone \(format 2\).*format 1: upgrade"
    ):
        make_recipe({"format": 2, "setting_of_the_future": 1})
    with pytest.raises(InputError, match="format = 0"):
        make_recipe({"format": 0})


RECIPES = [
    {},
    {"method": "em", "options": {"alpha": 1e-5}, "seed": 7, "lr": 1e-05, "ema": 0.999},
    {"method": "gr", "options": {"variant": "released", "w": 10, "b": -8.0}},
    {"method": "entmin", "options": {"negatives": True}},
    {"method": "wan", "options": {"gamma": None}},
    {"expected_positives": 2.9},
    {"expected_positives": "truth", "observe": "single(protocol='fast')"},
    {"observe": 'biased((1.0, 2.0)) "quoted" \\ back\nline', "backbone": "größe"},
    {"weight_decay": 1e16, "epochs": 3, "threads": 2, "image_size": 32},
    {
        "stages": [
            {"inputs": "features", "epochs": 2, "options": {"alpha": 0.5, "gamma": None}},
            {"epochs": 3, "lr": 1e-6, "freeze_backbone": True, "start_from": "last"},
        ]
    },
]


@pytest.mark.parametrize("values", RECIPES)
def test_toml_gives_the_same_recipe_back(values, tmp_path):
    recipe = make_recipe(values)
    (tmp_path / "r.toml").write_text(recipe.to_toml(), encoding="utf-8")
    assert make_recipe(read_toml(tmp_path / "r.toml")) == recipe
    assert tomllib.loads(recipe.to_toml())["format"] == 1


def test_settings_from_texts():
    texts = [
        "lr=1e-4",
        " seed = 3",
        "mode=linear",
        "flip=False",
        "ema=none",
        "observe=positives_and_negatives(1, n_neg=1)",
        "options.variant=released",
        "options.w=10",
        "backbone={[]: 1}",
    ]
    assert parse_settings(texts) == {
        "lr": 1e-4,
        "seed": 3,
        "mode": "linear",
        "flip": False,
        "ema": None,
        "observe": "positives_and_negatives(1, n_neg=1)",
        "backbone": "{[]: 1}",
        "options": {"variant": "released", "w": 10},
    }


@pytest.mark.parametrize("text", ["lr", "=3", " =3", ""])
def test_texts_that_are_no_settings(text):
    with pytest.raises(InputError, match="name=value"):
        parse_settings([text])


def test_later_layers_win_and_options_are_merged():
    recipe = make_recipe(
        {"lr": 1.0, "epochs": 5, "options": {"w": 1, "b": 2}},
        {"lr": 2.0, "options": {"b": 3}},
        {"seed": 1},
    )
    assert (recipe.lr, recipe.epochs, recipe.seed) == (2.0, 5, 1)
    assert recipe.options == {"w": 1, "b": 3}


def stages(images, **values):
    return make_recipe(values).resolved_stages(images=images)


def test_stages_of_each_mode():
    assert stages(False) == (Stage(inputs="features", epochs=25),)
    assert stages(True) == (Stage(inputs="images", epochs=10),)
    assert stages(False, mode="linear", epochs=3) == (Stage(inputs="features", epochs=3),)
    assert stages(True, mode="linear", lr=0.1) == (Stage(inputs="features", epochs=25),)
    assert stages(True, mode="finetune", epochs=2) == (Stage(inputs="images", epochs=2),)
    first, second = stages(True, mode="linear_init", epochs=4, lr=0.1)
    assert first == Stage(inputs="features", epochs=4)
    assert (second.inputs, second.epochs, second.lr) == ("images", 5, pytest.approx(0.01))
    _, second = stages(True, mode="linear_init", finetune_epochs=2, finetune_lr=0.5)
    assert second == Stage(inputs="images", epochs=2, lr=0.5)


def test_stages_of_a_method_with_phases():
    phases = ({"alpha": 1.0}, {})
    recipe = make_recipe({"epochs": 3, "lr": 0.1, "finetune_epochs": 2, "finetune_lr": 0.5})
    assert recipe.resolved_stages(images=False, phases=phases) == (
        Stage(inputs="features", epochs=3, options={"alpha": 1.0}),
        Stage(inputs="features", epochs=3),
    )
    both = recipe.model_copy(update={"mode": "linear_init"})
    assert both.resolved_stages(images=True, phases=phases) == (
        Stage(inputs="features", epochs=3, options={"alpha": 1.0}),
        Stage(inputs="images", epochs=2, lr=0.5, options={"alpha": 1.0}),
        Stage(inputs="images", epochs=2, lr=0.5),
    )
    told = make_recipe({"stages": [{"epochs": 1, "inputs": "features"}]})
    assert told.resolved_stages(images=False, phases=phases) == (
        Stage(inputs="features", epochs=1),
    )


def test_explicit_stages_are_kept():
    blocks = [{"inputs": "features", "epochs": 2}, {"epochs": 3, "lr": 0.5, "options": {"w": 1}}]
    assert stages(True, stages=blocks, lr=0.1, mode="linear") == (
        Stage(inputs="features", epochs=2),
        Stage(inputs="images", epochs=3, lr=0.5, options={"w": 1}),
    )


@pytest.mark.parametrize(
    "values", [{"mode": "finetune"}, {"mode": "linear_init"}, {"stages": [{"epochs": 1}]}]
)
def test_features_can_only_be_linear(values):
    with pytest.raises(InputError, match="no images, so only the mode linear"):
        stages(False, **values)


def test_files_that_are_no_toml(tmp_path):
    path = tmp_path / "r.toml"
    with pytest.raises(InputError, match=r"r\.toml: cannot be read"):
        read_toml(path)
    for content in (b"lr = ", b"\xff\xfe", b"{"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"r\.toml: is not valid TOML"):
            read_toml(path)


def test_every_setting_is_described():
    described = {name for name, field in Recipe.model_fields.items() if field.description}
    assert described == set(Recipe.model_fields) - {"format"}
