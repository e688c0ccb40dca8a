"""How the rows of a batch are divided among processes."""

import torch

from plusone.parallel.sharing import Division, check_equal_weights, even_owners
from plusone.types import Outputs


def test_a_division_of_one_is_the_whole():
    division = Division(even_owners(4), views=2)
    outputs = Outputs(torch.arange(8.0)[:, None], torch.zeros(8, 3), maps=torch.zeros(8, 1, 2, 2))
    assert division.own.tolist() == division.places.tolist() == list(range(8))
    assert Division(even_owners(4)).places is None
    whole = division.whole(outputs)
    assert torch.equal(whole.logits, outputs.logits)
    assert whole.embeddings is None
    assert whole.maps.shape == (8, 1, 2, 2)


def test_one_process_has_no_other_to_differ_from():
    check_equal_weights(torch.nn.Linear(2, 2), torch.nn.Linear(1, 1))
