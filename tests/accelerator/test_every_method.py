"""Every method on a second device: the numbers of the CPU, one device, no host read in a step.

The device has no float64, refuses to mix its tensors with those of the CPU, and notes every value
that is read on the host.
"""

import pytest
import torch

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


def test_on_features_it_gives_the_numbers_of_the_cpu(
    name, device, reads_in_steps, training, feature_data
):
    """Also if it resumes on the other device, and with its per-item tables on the host."""
    if METHODS[name].inputs == "images":
        pytest.skip("it needs images")
    data, given = feature_data(60), settings(name, epochs=2, batch_size=16)
    trained, after_one, rows = {}, {}, {}
    with reads_in_steps(device) as reads:
        for where in ("cpu", "mimic"):
            trained[where] = training(data, device=where, **given)
            epochs = trained[where].epochs()
            first = next(epochs)
            tensors, plain = trained[where].state()
            after_one[where] = ({key: value.cpu().clone() for key, value in tensors.items()}, plain)
            rows[where] = [
                record.model_copy(update={"seconds": 0.0}) for record in (first, *epochs)
            ]
    assert reads == []
    weights = (*trained["mimic"].model.parameters(), *trained["mimic"].method.state_dict().values())
    assert {weight.device.type for weight in weights} == {"mimic"}
    assert rows["cpu"] == rows["mimic"]
    assert_same(trained["cpu"], trained["mimic"])
    for begun, then in (("cpu", "mimic"), ("mimic", "cpu")):
        resumed = training(data, device=then, memory="host", **given)
        resumed.load_state(*after_one[begun])
        assert records(resumed) == rows["cpu"][1:]
        assert_same(trained["cpu"], resumed)


def test_on_images_it_gives_the_numbers_of_the_cpu(
    name, device, reads_in_steps, training, image_data
):
    data, given = image_data(32), settings(name, epochs=2, backbone=True, flip=True, ema=0.9)
    here = training(data, device="cpu", **given)
    there = training(data, device="mimic", **given)
    with reads_in_steps(device) as reads:
        assert records(here) == records(there)
    assert reads == []
    assert_same(here, there)


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
