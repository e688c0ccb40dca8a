"""Values that are looked at late are those that would have been seen at once."""

import pytest
import torch

from plusone.errors import DivergedError
from plusone.training import linear_epoch as module
from plusone.training.linear_epoch import Ledger


@pytest.mark.parametrize("block", [1, 30, 1 << 18])
def test_means_of_one_training(block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    torch.manual_seed(0)
    book, values = Ledger(["an"], 1), []
    for size in (4, 4, 4, 4, 3):
        table, penalty = torch.randn(size, 2), torch.rand(())
        book.add({"loss": table, "norm": penalty}, {"loss": 1 / table.numel()})
        values.append((table.mean().item(), penalty.item()))
    (means,) = book.means()
    loss, norm = (sum(column) / 5 for column in zip(*values, strict=True))
    assert means == pytest.approx({"loss": loss, "norm": norm})
    assert book.steps == 5


@pytest.mark.parametrize("block", [1, 100, 1 << 18])
def test_means_of_several_trainings(block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)
    torch.manual_seed(0)
    book, tables = Ledger(["a", "b", "c", "d", "e", "f"], 1), []
    norms = torch.rand(3, 6)
    for size, norm in zip((4, 4, 1), norms, strict=True):
        tables.append(torch.randn(2, size, 3, 5))  # two seeds, three trainings each
        book.add({"loss": tables[-1], "norm": norm}, {"loss": 1 / (size * 5)})
    expected = torch.stack([table.mean((1, 3)).flatten() for table in tables]).mean(0)
    for place, means in enumerate(book.means()):
        assert means["loss"] == pytest.approx(expected[place].item(), abs=1e-6)
        assert means["norm"] == pytest.approx(norms[:, place].mean().item())


@pytest.mark.parametrize("block", [1, 30, 1 << 18])
def test_the_first_value_that_is_not_finite_is_named(block, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", block)

    def epoch():
        book = Ledger(["an"], 7)
        for step in range(6):
            book.add({"loss": torch.tensor([[1.0, torch.inf if step > 1 else 1.0]])}, {})
        book.means()

    with pytest.raises(DivergedError, match=r"of an .* epoch 7, batch 3: \{'loss': inf\}"):
        epoch()


def test_the_training_that_is_not_finite_is_named():
    book = Ledger(["one", "other"], 1)
    book.add({"loss": torch.ones(2)}, {})
    book.add({"loss": torch.tensor([1.0, torch.nan])}, {})
    with pytest.raises(DivergedError, match="of other is not finite in epoch 1, batch 2"):
        book.means()


def test_at_once_means_before_the_step_is_over():
    book = Ledger(["en"], 1, at_once=True)
    book.add({"loss": torch.ones(1, 2)}, {})
    with pytest.raises(DivergedError, match="batch 2"):
        book.add({"loss": torch.tensor([[1.0, torch.nan]])}, {})
