from __future__ import annotations

import torch

from plusone.analysis.surface import filter_direction, moved


def layers() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.Linear(5, 4)
    )


def test_every_filter_has_the_norm_of_its_weights():
    weights = dict(layers().named_parameters())
    found = filter_direction(weights, torch.Generator().manual_seed(0))
    assert set(found) == {"0.weight", "2.weight"}  # no biases, no norms
    for name, direction in found.items():
        for one, other in zip(direction, weights[name], strict=True):
            torch.testing.assert_close(one.norm(), other.norm())


def test_a_filter_of_zeros_does_not_move():
    weights = {"w": torch.tensor([[0.0, 0.0], [1.0, 0.0]])}
    found = filter_direction(weights, torch.Generator().manual_seed(0))["w"]
    assert found[0].tolist() == [0.0, 0.0]
    assert found.isfinite().all()


def test_the_same_seed_gives_the_same_direction():
    weights = dict(layers().named_parameters())
    one, same, other = (
        filter_direction(weights, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert one["0.weight"].equal(same["0.weight"])
    assert not one["0.weight"].equal(other["0.weight"])


def test_weights_move_and_come_back_even_after_an_error():
    model = layers()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ones = {"2.weight": torch.ones(4, 5)}
    with moved(model, [ones, ones], [0.5, -2.0]):
        torch.testing.assert_close(model[2].weight, before["2.weight"] - 1.5)
    try:
        with moved(model, [ones], [1.0]):
            raise KeyError
    except KeyError:
        pass
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
