"""Networks of timm as backbones."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from plusone.data.dataset import Dataset
from plusone.errors import InputError
from plusone.extras import import_torchvision
from plusone.inputs.loader import ArrayInputs
from plusone.inputs.task import make_task
from plusone.models._timm import as_map, timm_config
from plusone.models.backbones import backbone_for, core, feature_dim
from plusone.prediction.load import load_run
from plusone.recipe import make_recipe
from plusone.training.run import train

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("timm") is None, reason="needs the extra image: pip install timm"
)


def images(size, channels=3, n=2):
    return torch.randint(0, 256, (n, channels, size, size), dtype=torch.uint8)


@pytest.mark.slow
def test_timm_and_torchvision_can_be_imported():
    """Where torchvision's operators cannot be loaded, the first lines fail and the rest works."""
    code = (
        "try:\n import torchvision\n"
        "except RuntimeError as e: assert 'torchvision::nms does not exist' in str(e)\n"
        "from plusone.extras import import_torchvision as fix; fix(); fix()\n"
        "import timm, torchvision.transforms.v2, torchvision.ops\n"
        "assert timm.create_model('test_resnet', num_classes=0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_troubles_of_torchvision_are_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('something else')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    with pytest.raises(RuntimeError, match=r"^something else$"):
        import_torchvision()


@pytest.mark.parametrize(
    ("name", "size", "side"),
    [
        ("test_resnet", 160, 5),
        ("test_resnet", 448, 14),
        ("test_efficientnet", 64, 2),
        ("test_vit", 160, 10),
        ("test_vit", 64, 4),
        ("test_convnext", 64, 2),
    ],
)
def test_maps(name, size, side):
    row = backbone_for(f"timm/{name}")
    assert row.size == 160
    net = row.build(3, size, "random").eval()
    with torch.no_grad():
        found = net(images(size))
    assert found.shape == (2, feature_dim(net), side, side)


@pytest.mark.slow
def test_the_table_of_the_documents_is_that_of_timm():
    """All sizes and licences; features and parameters of one small network of each family."""
    text = (Path(__file__).parents[2] / "docs" / "images.md").read_text()
    table = text.partition("<!-- networks of timm -->")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[3:]]
    built = {"dinov2": False, "dinov3": False, "siglip": False, "convnext": False}
    for first, size, parameters, features, licence in rows:
        name = re.search("`(.+)`", first)[1]
        config = timm_config(name)
        assert (config.input_size[-1], config.license) == (int(size), licence), name
        family = next(family for family in built if family in name)
        if built[family]:
            continue
        built[family], side = True, 4 * (14 if "patch14" in name else 16)
        with torch.device("meta"):  # shapes without numbers
            net = backbone_for(f"timm/{name}").build(3, side, "random")
            maps = net(torch.zeros(1, 3, side, side, dtype=torch.uint8))
        assert maps.shape[:2] == (1, int(features)), name
        assert maps.shape[2] == maps.shape[3] == (2 if family == "convnext" else 4), name
        assert round(sum(weight.numel() for weight in net.parameters()) / 1e6) == int(
            parameters.removesuffix(" M")
        ), name
    assert all(built.values())


def test_places_of_a_map():
    features = torch.arange(2 * 3 * 2 * 2).view(2, 3, 2, 2)
    assert as_map(features) is features
    assert torch.equal(as_map(features.permute(0, 2, 3, 1), channels_last=True), features)
    tokens = features.flatten(2).transpose(1, 2)
    assert torch.equal(as_map(tokens), features)
    with_class = torch.cat([tokens[:, :1] + 100, tokens], dim=1)
    assert torch.equal(as_map(with_class, prefix_tokens=1), features)
    assert torch.equal(as_map(tokens[:, :3]), tokens[:, :3])  # no square: tokens
    assert torch.equal(as_map(with_class[:, :4], prefix_tokens=1), tokens[:, :3])
    vectors = torch.ones(2, 3)
    assert as_map(vectors) is vectors


def test_the_networks_own_mean_and_spread():
    net = backbone_for("timm/test_resnet").build(3, 160, "random")
    config = core(net).pretrained_cfg
    pixels = images(8)
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    torch.testing.assert_close(net[0](pixels), (pixels / 255 - mean) / std)


def test_grey_images_are_shown_in_three_channels():
    net = backbone_for("timm/test_resnet").build(1, 64, "random").eval()
    pixels = images(64, channels=1)
    with torch.no_grad():
        torch.testing.assert_close(net(pixels), net(pixels.expand(-1, 3, -1, -1)))


def test_unknown_names():
    with pytest.raises(
        InputError, match=r"^unknown backbone timm/resnet5; close names: .*resnet50"
    ):
        backbone_for("timm/resnet5")
    with pytest.raises(InputError, match=r"^unknown backbone timm/$"):
        backbone_for("timm/")
    with pytest.raises(InputError, match=r"timm/resnet18.best: .*known: .*resnet18.a1_in1k"):
        backbone_for("timm/resnet18.best")


def weights_of(name, path, size=160, **extra):
    torch.manual_seed(3)
    net = backbone_for(f"timm/{name}").build(3, size, "random")
    tensors = {
        name: torch.randn(value.shape).to(value.dtype)
        for name, value in core(net).state_dict().items()
    }
    save_file(tensors | extra, path)
    return tensors


@pytest.mark.parametrize("head", ["fc.weight", "fc.bias"])
def test_weights_from_a_file(tmp_path, head):
    path = tmp_path / "w.safetensors"
    tensors = weights_of("test_resnet", path, **{head: torch.ones(10)})
    net = core(backbone_for("timm/test_resnet").build(3, 64, str(path)))
    assert all(torch.equal(value, tensors[name]) for name, value in net.state_dict().items())
    with pytest.raises(InputError, match=r"w\.safetensors: does not fit the backbone \("):
        backbone_for("timm/test_efficientnet").build(3, 64, str(path))


def test_a_deeper_network_does_not_pass_for_a_shallower_one(tmp_path):
    weights_of("resnet34", tmp_path / "w.safetensors")
    with pytest.raises(InputError, match=r"\(layer1\.2\.\S+ is unexpected, .* and \d+ more\)$"):
        backbone_for("timm/resnet18").build(3, 64, str(tmp_path / "w.safetensors"))


def test_position_tables_are_fitted_to_the_image_size(tmp_path):
    path = tmp_path / "w.safetensors"
    tensors = weights_of("test_vit", path, **{"head.weight": torch.ones(10, 64)})
    assert torch.equal(
        core(backbone_for("timm/test_vit").build(3, 160, str(path))).pos_embed, tensors["pos_embed"]
    )
    net = core(backbone_for("timm/test_vit").build(3, 64, str(path)))
    assert net.pos_embed.shape == (1, 17, 64)
    assert torch.equal(net.norm.weight, tensors["norm.weight"])


def test_without_a_connection_one_sentence_says_what_to_do(monkeypatch, tmp_path):
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    expected = r"^timm/test_resnet\.\w+: not in the local cache.*set weights to a local file"
    with pytest.raises(InputError, match=expected):
        backbone_for("timm/test_resnet").build(3, 64)
    with pytest.raises(InputError, match="timm has no weights for it"):
        backbone_for("timm/mixer_s32_224").build(3, 224)


def test_weights_from_the_local_cache_of_the_hub(monkeypatch, tmp_path):
    constants = importlib.import_module("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    config = core(backbone_for("timm/test_resnet").build(3, 64, "random")).pretrained_cfg
    folder = tmp_path / f"models--{config['hf_hub_id'].replace('/', '--')}"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    tensors = weights_of("test_resnet", folder / "snapshots" / "abc" / "model.safetensors")
    net = core(backbone_for("timm/test_resnet").build(3, 64))
    assert torch.equal(net.conv1[0].weight, tensors["conv1.0.weight"])


def test_a_run_needs_neither_file_nor_hub_afterwards(tmp_path):
    path = tmp_path / "w.safetensors"
    torch.manual_seed(0)
    save_file(core(backbone_for("timm/test_resnet").build(3, 32, "random")).state_dict(), path)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (24, 3, 32, 32), dtype=np.uint8)
    y = np.eye(24, 3, dtype=int) | (rng.random((24, 3)) < 0.5)
    settings = {"method": "an", "epochs": 1, "backbone": "timm/test_resnet", "weights": str(path)}
    recipe = make_recipe(settings, {"batch_size": 8})
    task = make_task(Dataset.from_arrays(x, y, complete=True), recipe)
    metrics = train(task, recipe, tmp_path / "run")
    path.unlink()
    predictor = load_run(tmp_path / "run")
    found = predictor.probabilities(ArrayInputs(task.val.inputs.x))
    assert found.shape == (len(task.val), 3)
    assert predictor.recipe.weights == str(path)
    again = train(task, recipe, tmp_path / "run", resume=True)
    assert again == metrics
