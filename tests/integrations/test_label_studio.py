"""The ML backend of Label Studio, asked as Label Studio asks (version 1.23.2)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.patience import HOUR, PATIENCE
from tests.serve.conftest import Client

from plusone.data.formats import read
from plusone.data.source import load_source
from plusone.errors import InputError
from plusone.inputs.task import make_task
from plusone.integrations.label_studio.tasks import (
    Annotated,
    answers,
    control_in,
    pairs_in,
    read_control,
)
from plusone.prediction.run_folder import read_observed
from plusone.recipe import make_recipe
from plusone.suggestions.outputs import choices, labelling_config
from plusone.training.run import train

CLASSES = ("blue", "green", "red")
PREFIX = "/data/local-files/?d=my photos/"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 images with one or two colours, in the folder of one of them; and four others."""
    folder = tmp_path_factory.mktemp("label-studio") / "my photos"
    rng = np.random.default_rng(0)
    for number in range(64):
        label = number % 3
        others = [label] if number % 2 else [label, (label + 1) % 3]
        pixels = rng.integers(0, 100, (24, 24, 3)).astype(np.uint8)
        for one in others:
            pixels[:, :, {"blue": 2, "green": 1, "red": 0}[CLASSES[one]]] += 120
        place = folder / (CLASSES[label] if number < 60 else "new")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def run(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in closed form on the first 60 images."""
    data = load_source(str(images))
    rows = [row for row, name in enumerate(data.table.ids) if not name.startswith("new/")]
    table = data.table.take(rows).with_classes(CLASSES)
    settings = {"backbone": "cnn", "image_size": 16, "workers": 0, "weights": "random"}
    recipe = make_recipe({"method": "recovery", "mode": "linear"} | settings)
    to = tmp_path_factory.mktemp("runs") / "run"
    train(make_task(replace(data, table=table), recipe), recipe, to)
    return to


@pytest.fixture
def begin(run: Path, images: Path, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`begin()` opens a backend in `tmp_path / "out"`; what it says is in its `said`."""
    from plusone.integrations.label_studio.backend import Backend

    opened = []

    def make(folder: Path = run, **settings: Any) -> Any:
        said: list[str] = []
        given = {"prefix": PREFIX, "folder": tmp_path / "out", "say": said.append} | settings
        backend = Backend(folder, images, device="cpu", **given)
        backend.said = said
        opened.append(backend)
        return backend

    yield make
    for backend in opened:
        backend.close()


@pytest.fixture
def asked(begin: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """A backend behind its server, and a function that asks as Label Studio does."""
    service = pytest.importorskip(
        "plusone.integrations.label_studio.service", reason="needs the extra serve"
    )
    backend = begin()
    server = service.make_server(backend)
    thread = Thread(target=server.run, args=(HOUR,), daemon=True)
    thread.start()
    client = Client(server)
    basic = base64.b64encode(f"plusone:{client.token}".encode()).decode()

    def ask(path: str, body: Any = None, status: int = 200, **headers: str | None) -> Any:
        sent = {"authorization": f"Basic {basic}", "content_type": "application/json"} | headers
        content = None if body is None else json.dumps(body).encode()
        reply = client.ask("GET" if body is None else "POST", path, content, **sent)
        assert reply.status == status, client.text
        return json.loads(client.text)

    ask.backend, ask.client = backend, client  # type: ignore[attr-defined]
    yield ask
    server.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def task(name: str, number: int = 1) -> dict[str, Any]:
    address = PREFIX.replace(" ", "%20") + name
    return {"id": number, "data": {"image": address}, "project": 1}


def event(
    action: str, number: int, name: str, chosen: list[str], prediction: Any = None, **more: Any
) -> dict[str, Any]:
    """A webhook as Label Studio sends it, without what nobody reads."""
    annotation = {"id": number, "result": choices(chosen), "was_cancelled": False}
    annotation |= {"prediction": {}, "parent_prediction": prediction} | more
    project = {"id": 1, "label_config": labelling_config(CLASSES), "token": "secret"}
    return {"action": action, "annotation": annotation, "task": task(name), "project": project}


def labels(backend: Any, name: str) -> list[int]:
    """The states of the labels of an image, with all answers."""
    table = backend.labels()
    return table.labels.dense()[table.ids.tolist().index(name)].tolist()


def test_the_first_choices_with_classes_of_the_model_are_answered():
    config = """<View>
      <!-- a comment -->
      <Text name="t" value="$text"/><Choices name="tone" toName="t"><Choice value="red"/></Choices>
      <Image name="photo" value="$address"/>
      <Choices name="other" toName="photo"><Choice value="seen"/></Choices>
      <Choices name="colour" toName="photo">
        <Choice value="The colour red" alias="red"/><Choice value="blue"/><Choice value="pink"/>
      </Choices>
    </View>"""
    control = read_control(config, CLASSES)
    assert (control.name, control.image, control.key) == ("colour", "photo", "address")
    assert control.classes == {"red", "blue"}
    assert not control.several
    assert read_control(labelling_config(CLASSES), CLASSES).several


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ("<View>", "is not XML"),
        ("<View/>", "has no Choices for an Image"),
        (labelling_config(("cat", "dog")), "has no Choices for an Image"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><View/>', "entities"),
    ],
)
def test_configurations_without_classes_of_the_model_are_refused(config, why):
    with pytest.raises(InputError, match=why):
        read_control(config, CLASSES)


@pytest.mark.parametrize(
    ("chosen", "shown", "settings", "expected"),
    [
        (["red"], [], {}, {"red": True}),
        (["red"], ["red", "blue"], {}, {"red": True, "blue": False}),
        (["green"], ["blue"], {}, {"green": True, "blue": False}),
        ([], ["blue"], {}, {"blue": False}),
        (["red"], [], {"complete": True}, {"red": True, "blue": False, "green": False}),
        (["red"], ["blue"], {"several": False}, {"red": True}),
        (["red"], ["blue"], {"skipped": True}, {}),
    ],
)
def test_what_was_taken_away_is_a_no(chosen, shown, settings, expected):
    control = read_control(labelling_config(CLASSES), CLASSES)
    control = replace(control, several=settings.get("several", True))
    skipped = settings.get("skipped", False)
    one = Annotated(1, "a", frozenset(chosen), frozenset(shown), True, control, skipped)
    assert answers(one, one.shown, complete=settings.get("complete", False)) == expected


def test_predictions_are_what_suggest_and_predict_give(asked, run, images):
    from plusone.prediction.items import Items
    from plusone.prediction.load import load_run
    from plusone.prediction.tags import predict_all
    from plusone.probabilities.thresholds import read_thresholds
    from plusone.suggestions.find import find, run_k, run_recipe

    table = replace(read_observed(run), root=images)
    data = replace(load_source(str(images)), table=table)
    found = find(data, run_recipe(run), positives=run_k(run, table), run=run)
    assert found.reused  # nothing is fitted for a prediction
    ids = table.ids[:20].tolist()
    new = sorted(f"new/{path.name}" for path in (images / "new").iterdir())
    config = labelling_config(CLASSES)
    body = {"tasks": [task(name) for name in [*ids, *new]], "label_config": config}
    reply = asked("/predict", body)
    version = asked("/setup", {"schema": config})["model_version"]
    assert {one["model_version"] for one in reply["results"]} == {version, reply["model_version"]}
    (part,) = predict_all(load_run(run), [Items(tuple(new), tuple(images / n for n in new))])
    cuts = read_thresholds(run, CLASSES).array
    wanted = [(p, p > 0.5) for p in found.calibrated.probabilities[:20]]
    wanted += [(p, p > cuts) for p in part.probabilities.double().numpy()]
    for (p, above), got in zip(wanted, reply["results"], strict=True):
        names = [CLASSES[label] for label in np.argsort(-p, kind="stable") if above[label]]
        assert got["result"] == choices(names)
        assert got["score"] == pytest.approx(p[above].min() if above.any() else p.max(), abs=2e-6)
    assert sum(len(one["result"]) for one in reply["results"]) > 20


def test_predictions_are_valid_for_the_package_of_label_studio(begin):
    sdk = pytest.importorskip(
        "label_studio_sdk.label_interface", reason="the package label-studio-sdk is not installed"
    )
    config = labelling_config(CLASSES)
    tasks = [task(f"{CLASSES[number % 3]}/{number}.png") for number in range(20)]
    valid = sdk.LabelInterface(config).validate_prediction
    assert all(valid(one) for one in begin().predict(config, tasks))


@pytest.mark.parametrize(
    "name",
    ["../run/recipe.toml", "..%2F..%2Fsecret.png", "/etc/passwd", "a\\..\\b.png", "none.png", "red",
     "x" * 5000 + ".png", "link/out.png", ""],
)  # fmt: skip
def test_only_images_in_the_folder_are_looked_at(asked, images, tmp_path, name):
    Image.new("RGB", (8, 8)).save(tmp_path / "out.png")
    if not (images / "link").is_symlink():
        (images / "link").symlink_to(tmp_path)
    elsewhere = {"id": 2, "data": {"image": f"file://{images}/red/2.png"}}
    body = {"tasks": [task(name), elsewhere], "label_config": labelling_config(CLASSES)}
    assert asked("/predict", body)["results"] == [[], []]
    reply = asked("/webhook", event("ANNOTATION_CREATED", 1, name, ["red"]))
    assert "1 of images that are not ours" in reply["status"]
    (images / "link").unlink()


def test_annotations_become_answers(asked, tmp_path):
    backend, name = asked.backend, "red/2.png"
    assert labels(backend, name) == [0, 0, 1]
    body = {"tasks": [task(name)], "label_config": labelling_config(CLASSES)}
    (predicted,) = asked("/predict", body)["results"]
    shown = predicted["result"][0]["value"]["choices"]
    assert "red" in shown
    asked("/webhook", event("ANNOTATION_CREATED", 7, name, ["green"], prediction=3))
    assert labels(backend, name) == [-1 if "blue" in shown else 0, 1, -1]
    asked("/webhook", event("ANNOTATION_UPDATED", 7, name, ["red", "blue"], prediction=3))
    assert labels(backend, name) == [1, -1 if "green" in shown else 0, 1]
    one = event("ANNOTATION_CREATED", 8, name, ["blue"])
    one["annotation"]["prediction"] = {"result": choices(["red", "green"])}
    asked("/webhook", one)
    assert labels(backend, name) == [1, -1, -1]  # the last one counts
    asked("/webhook", {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 8}], "project": {}})
    assert labels(backend, name) == [1, -1 if "green" in shown else 0, 1]
    asked("/webhook", {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 7}], "project": {}})
    assert labels(backend, name) == [0, 0, 1]
    several = event("ANNOTATIONS_CREATED", 9, "new/60.png", ["blue"])
    several |= {key: [several[key]] for key in ("annotation", "task")}
    asked("/webhook", several)
    assert labels(backend, "new/60.png") == [1, 0, 0]
    table = backend.write_labels()
    again = read(tmp_path / "out" / "labels.npz").table
    assert again.ids.tolist() == table.ids.tolist()
    assert again.named is not None
    assert not again.named.dense()[-1].any()  # an answer, not named
    assert again.path(len(again) - 1).is_file()
    assert asked("/webhook", {"action": "PROJECT_UPDATED", "project": {}}) == {"status": "ignored"}


def test_answers_survive_a_restart_and_old_predictions_are_known(begin):
    backend, name = begin(), "red/2.png"
    config = labelling_config(CLASSES)
    (predicted,) = backend.predict(config, [task(name)])
    (first, *_) = predicted["result"][0]["value"]["choices"]
    backend.close()
    backend = begin()
    backend.event(event("ANNOTATION_CREATED", 1, name, [], prediction=3))
    assert labels(backend, name)[CLASSES.index(first)] == -1
    state = labels(backend, name)
    backend.event(event("ANNOTATION_CREATED", 1, name, [], prediction=3))  # sent again
    assert len(backend._store.since(0)) == len([one for one in state if one == -1])
    with pytest.raises(InputError, match="another plusone is at work"):
        begin()


def test_an_export_predicts_and_keeps_answers(begin, run, tmp_path):
    from plusone.export.publish import export_run

    exported = export_run(run, tmp_path / "exported").out
    backend = begin(exported)
    config = labelling_config(CLASSES)
    assert backend.predict(config, [task("red/2.png")])[0]["result"]
    assert "is an export" in backend.train()
    assert backend._thread is None


def test_the_password_is_for_programs(asked):
    assert asked("/health") == {"status": "UP", "model_class": "plusone"}
    bearer = f"Bearer {asked.client.token}"
    assert asked("/versions", authorization=bearer)["versions"]
    for wrong in (None, "Basic", "Basic !", "Basic " + base64.b64encode(b"plusone:no").decode()):
        asked("/health", status=401, authorization=wrong)
    assert "Basic" not in str(asked.client.ask("GET", "/health", authorization=None).headers)
    for site in ("cross-site", "same-origin", "none"):
        asked("/health", status=401, sec_fetch_site=site)
    asked("/predict", {}, status=415, content_type="text/plain")
    asked("/predict", [], status=400)
    asked("/predict", {"tasks": [1], "label_config": ""}, status=400)
    assert "no Choices" in asked("/setup", {"schema": "<View/>"}, status=400)["error"]
    assert any("no Choices" in line for line in asked.backend.said)


def test_serve_takes_no_password(feature_run):
    from tests.serve.conftest import serving

    with serving() as start:
        client = start(feature_run)
        basic = base64.b64encode(f"plusone:{client.token}".encode()).decode()
        assert client.get("/model") == 200
        assert client.get("/model", authorization=f"Basic {basic}") == 401


def test_an_export_of_label_studio(begin, tmp_path):
    regions = [{"from_name": "c", "to_name": "i", "type": "choices"}]
    regions[0]["value"] = {"choices": ["blue", "pink"]}  # type: ignore[assignment]
    export: list[dict[str, Any]] = [
        {"id": 1, "data": {"note": "x", "photo": PREFIX + "red/2.png"}},
        {"id": 2, "data": {"photo": "elsewhere.png"}},
    ]
    export[0]["annotations"] = [{"id": 5, "result": regions}, {"id": 6, "result": []}]
    export[1]["annotations"] = [{"id": 7, "result": regions}]
    backend = begin()
    control = control_in(export, CLASSES, PREFIX)
    assert (control.name, control.image, control.key) == ("c", "i", "photo")
    said = backend.annotations(control, pairs_in(export))
    assert said == "2 annotations kept, 1 of images that are not ours left out"
    assert labels(backend, "red/2.png") == [1, 0, 1]
    with pytest.raises(InputError, match="no annotation in it"):
        control_in([{"data": {}}], CLASSES, PREFIX)


@pytest.mark.slow
def test_training_on_answers_while_the_old_run_predicts(asked, begin, run, tmp_path):
    backend = asked.backend
    backend.train_every = 3
    before = asked("/versions")["versions"]
    for number, name in enumerate(("red/2.png", "new/60.png", "new/62.png")):
        assert backend._thread is None
        asked("/webhook", event("ANNOTATION_CREATED", number, name, ["green"]))
    assert "training already" in asked("/webhook", {"action": "START_TRAINING"})["status"]
    config = labelling_config(CLASSES)
    body = {"tasks": [task("red/2.png"), task("new/60.png")], "label_config": config}
    while asked("/versions")["versions"] == before:
        assert asked("/predict", body)["model_version"] in (*before, backend.serving.version)
        assert not [line for line in backend.said if "not trained" in line]
        time.sleep(0.2)
    wait_for(backend)
    assert backend.said[-1] == "not trained: no answer is new"
    reply = asked("/predict", body)
    assert reply["model_version"].startswith("run-1-")
    table = read_observed(tmp_path / "out" / "runs" / "1")
    assert "new/62.png" in table.ids.tolist()
    assert table.observation["answers"] == 3
    assert all("green" in one["result"][0]["value"]["choices"] for one in reply["results"])
    assert not any((run / name).exists() for name in ("answers.sqlite", "labels.npz"))
    (tmp_path / "out" / "runs" / "2").mkdir()  # a training that was stopped
    backend.close()
    again = begin()
    assert again.serving.version == reply["model_version"]
    assert len(backend.serving.found) == 62


@pytest.mark.slow
def test_a_training_that_fails_or_is_stopped_changes_nothing(begin, monkeypatch, tmp_path):
    backend = begin()
    backend.event(event("ANNOTATION_CREATED", 1, "red/2.png", ["green"]))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "nowhere"))
    (tmp_path / "nowhere" / "plusone").mkdir(parents=True)
    (tmp_path / "nowhere" / "plusone" / "__init__.py").write_text("raise SystemExit('broken')\n")
    backend.train()
    wait_for(backend)
    assert backend.said[-1] == "not trained: broken"
    assert backend.serving.version.startswith("run-")
    assert not [*(tmp_path / "out" / "runs").glob("*")]
    (tmp_path / "nowhere" / "plusone" / "__init__.py").write_text("import time\ntime.sleep(99)\n")
    backend.train()
    while backend._process is None or backend._process.poll() is not None:
        time.sleep(0.01)
    started = time.monotonic()
    backend.close()
    assert time.monotonic() - started < 60
    assert backend._process.poll() is not None
    assert backend.train() == "not trained: the server stops"


def wait_for(backend: Any) -> None:
    if (thread := backend._thread) is not None:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_the_command_prints_one_address(cli, run, images, tmp_path, monkeypatch):
    export = tmp_path / "export.json"
    one = event("ANNOTATION_CREATED", 1, "red/2.png", ["blue"])
    export.write_text(json.dumps([one["task"] | {"annotations": [one["annotation"]]}]))
    words = ["label-studio", run, "--images", images, "-o", tmp_path / "o", "--port", 0]
    answer = cli(*words, "--annotations", export, "--json", "--stop-after", 0.1)
    assert answer.code == 0, answer.err
    about = answer.json
    assert about["connect"] == f"http://plusone:{about['token']}@127.0.0.1:{about['port']}"
    assert "1 annotations kept" in answer.err
    assert (tmp_path / "o" / "label-studio.xml").read_text() == labelling_config(CLASSES)
    export.write_text("{}")
    wrong = cli(*words, "--annotations", export)
    assert (wrong.code, "a list of tasks" in wrong.err) == (2, True)
    far = cli(*words, "--host", "0.0.0.0")
    assert (far.code, "--token-file" in far.err) == (2, True)
