import pytest
import torch

from plusone.models.cnn import SmallCNN


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
