"""WAN by sampling."""

import torch

from plusone.types import Clock


def test_the_mean_over_many_steps_is_wan(make):
    sampled, wan = make("wan_sampled"), make("wan")
    logits = torch.randn(8, 6, generator=torch.Generator().manual_seed(2))
    observed = torch.zeros(8, 6)
    observed[torch.arange(8), torch.arange(8) % 6] = 1
    draws = torch.stack(
        [sampled.on_logits(logits, observed, Clock(0, 0, 1, step, 800)) for step in range(800)]
    )
    expected = wan.on_logits(logits, observed)
    assert draws.std() > 0
    assert abs(draws.mean() - expected) < 4 * draws.std() / 800**0.5


def test_the_draw_goes_by_clock_and_seed_alone(make):
    case = make("wan_sampled")
    batch = case.batch()
    clocks = [Clock(stage, epoch, 9, step, 9) for stage, epoch, step in
              [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]]  # fmt: skip
    values = [case.total(batch, clock).item() for clock in clocks]
    assert len(set(values)) > 1
    assert values == [case.total(batch, clock).item() for clock in clocks]
