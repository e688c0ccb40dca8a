"""Optimizer groups, and the row-wise Adam of sparse tables."""

import pytest
import torch
from torch import nn

from plusone.errors import InputError
from plusone.recipe import make_recipe
from plusone.training.optim import RowAdam, make_optimizer, row_state, update_rows
from plusone.types import Stage


def sparse(rows, values, shape):
    index = torch.tensor([list(rows)])
    return torch.sparse_coo_tensor(index, values, shape, check_invariants=True)


def by_hand(table, steps, lr):
    """One row at a time, one number at a time, in float64."""
    table, n, r = table.double().tolist(), *table.shape
    count, mean, square = [0] * n, [[0.0] * r for _ in range(n)], [0.0] * n
    for rows, slopes in steps:
        for row in set(rows):
            slope = [sum(s[j] for i, s in zip(rows, slopes, strict=True) if i == row)
                     for j in range(r)]  # fmt: skip
            count[row] += 1
            square[row] = 0.999 * square[row] + 0.001 * sum(s * s for s in slope) / r
            root = (square[row] / (1 - 0.999 ** count[row])) ** 0.5 + 1e-8
            for j in range(r):
                mean[row][j] = 0.9 * mean[row][j] + 0.1 * slope[j]
                table[row][j] -= lr * mean[row][j] / (1 - 0.9 ** count[row]) / root
    return torch.tensor(table)


def test_it_is_the_formula():
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(6, 3, generator=generator)
    rows = [[0, 4], [4, 4, 2], [2], [0, 4]]  # 1, 3 and 5 never occur
    steps = [(row, torch.randn(len(row), 3, generator=generator)) for row in rows]
    table, state = start.clone(), row_state(start)
    for row, slope in steps:
        update_rows(table, sparse(row, slope, table.shape), state, 0.1)
    expected = by_hand(start, [(row, slope.double().tolist()) for row, slope in steps], 0.1)
    torch.testing.assert_close(table, expected.float())
    assert state["step"].tolist() == [2, 0, 2, 0, 3, 0]


def test_one_column_with_every_row_at_every_step_is_adam():
    torch.manual_seed(0)
    rows, dense = torch.randn(5, 1), nn.Parameter(torch.empty(5, 1))
    dense.data.copy_(rows)
    state, adam = row_state(rows), torch.optim.Adam([dense], lr=0.05)
    for _ in range(20):
        slope = torch.randn(5, 1)
        update_rows(rows, sparse(range(5), slope, (5, 1)), state, 0.05)
        dense.grad = slope
        adam.step()
    torch.testing.assert_close(rows, dense.data)


def test_rows_outside_the_batch_and_their_state_stay_as_they_are():
    torch.manual_seed(0)
    table = nn.Embedding(50, 4, sparse=True)
    optimizer = RowAdam([{"params": [table.weight], "rows": True}], lr=0.1)
    seen = torch.zeros(50, dtype=torch.bool)
    for batch in ([3, 7], [7, 7, 20], [3, 41]):
        seen[batch] = True
        before = table.weight.detach().clone()
        optimizer.zero_grad()
        table(torch.tensor(batch)).square().sum().backward()
        optimizer.step()
        moved = (table.weight != before).any(1)
        assert moved.nonzero().flatten().tolist() == sorted(set(batch))
    state = optimizer.state_dict()["state"][0]
    assert all(value.shape[0] == 50 for value in state.values())
    for value in state.values():
        assert torch.equal((value != 0).view(50, -1).any(1), seen)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_dense_parameters_move_as_without_tables(name, training, feature_data):
    ends = []
    for rows in (False, True):
        made = training(feature_data(40), method="an", optimizer=name, weight_decay=0.1)
        if rows:
            made.method.rows = nn.Embedding(3, 2, sparse=True)
        stage = Stage(inputs="features", epochs=1, lr=0.1)
        optimizer = make_optimizer(made.model, made.method, made.recipe, stage)
        marks = [group.get("rows", False) for group in optimizer.param_groups]
        assert marks == ([False, True] if rows else [False])
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
        for _ in range(3):
            optimizer.zero_grad()
            cost = made.model.head(x).logits.square().sum()
            if rows:
                cost = cost + made.method.rows(torch.tensor([1])).sum()
            cost.backward()
            optimizer.step()
        ends.append(made.model.state_dict())
        assert isinstance(optimizer, torch.optim.Adam if name == "adam" else torch.optim.AdamW)
    assert all(torch.equal(value, ends[1][key]) for key, value in ends[0].items())


def test_sgd_is_refused_with_a_sentence(training, feature_data):
    made = training(feature_data(40), method="an")
    made.method.rows = nn.Embedding(3, 2, sparse=True)
    recipe = make_recipe({"optimizer": "sgd"})
    with pytest.raises(InputError, match="which sgd cannot do; use optimizer = adam or adamw"):
        make_optimizer(made.model, made.method, recipe, Stage(inputs="features", epochs=1, lr=0.1))


def test_optimizer_groups(training, image_data, tiny_backbone):
    made = training(image_data(), backbone=True, method="an")
    made.method.offsets = nn.Parameter(torch.zeros(2))
    recipe = make_recipe({"head_lr_mult": 10.0, "weight_decay": 0.1, "optimizer": "sgd"})
    full = make_optimizer(
        made.model, made.method, recipe, Stage(inputs="images", epochs=1, lr=0.5)
    ).param_groups
    assert [group["lr"] for group in full] == [0.5, 5.0, 0.5]
    assert [group["weight_decay"] for group in full] == [0.1, 0.1, 0.0]
    counts = [len(list(part.parameters())) for part in (made.model.backbone, made.model.head)]
    assert [len(group["params"]) for group in full] == [*counts, 1]
    for stage in (
        Stage(inputs="features", epochs=1, lr=0.5),
        Stage(inputs="images", epochs=1, lr=0.5, freeze_backbone=True),
    ):
        groups = make_optimizer(made.model, made.method, recipe, stage).param_groups
        assert [group["lr"] for group in groups] == [5.0, 0.5]
    of_the_recipe = make_recipe({"lr": 0.25, "optimizer": "sgd"})
    plain = make_optimizer(made.model, made.method, of_the_recipe, Stage(epochs=1)).param_groups
    assert [group["lr"] for group in plain] == [0.25, 0.25, 0.25]
    for name, kind in (("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)):
        other = make_recipe({"optimizer": name})
        assert isinstance(make_optimizer(made.model, made.method, other, stage), kind)
