import pytest
import torch

from plusone.training.threads import SMALL_STEP, suitable_threads


@pytest.mark.parametrize(
    ("work", "wanted", "inside"),
    [(10, None, 1), (SMALL_STEP, None, 3), (None, None, 3), (10, 2, 2), (None, 2, 2)],
)
def test_threads_suit_the_work_and_are_put_back(work, wanted, inside):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with suitable_threads(work, wanted):
            assert torch.get_num_threads() == inside
        assert torch.get_num_threads() == 3
        with pytest.raises(KeyError), suitable_threads(work, wanted):
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
