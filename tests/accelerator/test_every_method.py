"""Every method, run twice, resumed and on a second device: the same numbers.

The device has no float64, refuses to mix its tensors with those of the CPU, and notes every value
that is read on the host.
"""

import math

import pytest
import torch

from plusone.errors import InputError
from plusone.methods import METHODS

pytestmark = pytest.mark.slow


@pytest.fixture(params=sorted(METHODS))
def name(request):
    return request.param


def settings(name, **rest):
    options = dict(METHODS[name].quick)
    if METHODS[name].inputs == "vectors":  # of images too
        rest["mode"] = "linear"
    return {"method": name, "expected_positives": 1.7, "lr": 0.02, "options": options} | rest


def assert_same(mine, theirs):
    """Two finished trainings have the same state and predictions."""
    (state, _), (other, _) = mine.state(), theirs.state()
    assert state.keys() == other.keys()
    assert [key for key in state if not torch.equal(state[key].cpu(), other[key].cpu())] == []
    test = mine.task.test
    assert torch.equal(mine.log_odds(test), theirs.log_odds(test))


def records(training):
    return [record.model_copy(update={"seconds": 0.0}) for record in training.epochs()]


def stopped_and_finished(training):
    """Its state after the first epoch, and the records of all."""
    epochs = training.epochs()
    first = next(epochs)
    tensors, plain = training.state()
    stopped = ({key: value.cpu().clone() for key, value in tensors.items()}, plain)
    return stopped, [record.model_copy(update={"seconds": 0.0}) for record in (first, *epochs)]


@pytest.mark.parametrize("kind", ["features", "images"])
def test_resumed_and_on_another_device_it_ends_the_same(
    name, kind, second, training, feature_data, image_data
):
    """Resumed on the other device than it began on, and with its per-item tables on the host."""
    where, noting = second
    if kind == "features":
        data, given = feature_data(60), settings(name, epochs=2, batch_size=16)
    else:
        data, given = image_data(32), settings(name, epochs=2, backbone=True, flip=True, ema=0.9)
    if kind == "features" and METHODS[name].inputs == "images":
        with pytest.raises(InputError, match="needs images in every step, and this data has"):
            training(data, **given)
        return
    here, there = (training(data, device=one, **given) for one in ("cpu", where))
    with noting() as reads:
        after_one, rows = stopped_and_finished(here)
        after_one_there, rows_there = stopped_and_finished(there)
    assert reads == []
    closed = METHODS[name].closed_form and sum(stage.epochs for stage in here.stages) == 1
    assert len(rows) == (1 if closed else 2 * len(METHODS[name].phases))
    assert all(math.isfinite(value) for record in rows for value in record.losses.values())
    assert all(0 < record.val_map <= 1 for record in rows)
    weights = (*there.model.parameters(), *there.method.state_dict().values())
    assert {weight.device.type for weight in weights} == {where}
    assert rows == rows_there
    assert_same(here, there)
    torch.manual_seed(7)  # whatever the process did before must not matter
    ends = {where: after_one, "cpu": after_one_there} if kind == "features" else {"cpu": after_one}
    for then, begun in ends.items():
        memory = {"memory": "host"} if kind == "features" else {}
        resumed = training(data, device=then, **memory, **given)
        resumed.load_state(*begun)
        assert records(resumed) == rows[1:]
        assert_same(here, resumed)


def test_the_network_estimator_of_role(device, reads_in_steps, training, feature_data):
    """The factored one has sparse gradients, which this device does not have."""
    data, given = feature_data(60), settings("role", epochs=2, batch_size=16)
    given["options"] = {"estimator": "network"}
    here = training(data, device="cpu", **given)
    there = training(data, device="mimic", **given)
    with reads_in_steps(device) as reads:
        assert records(here) == records(there)
    assert reads == []
    assert_same(here, there)
