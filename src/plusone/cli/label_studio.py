"""The command label-studio."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import check_folder, read_token
from plusone.cli.loading import warn_if_diverged
from plusone.cli.printing import emit, out, say
from plusone.errors import InputError
from plusone.extras import install_command

if TYPE_CHECKING:
    from plusone.integrations.label_studio.backend import Backend

PACKAGES = ("fastapi", "uvicorn", "starlette")
LOCAL = "/data/local-files/?d={folder}/"


def label_studio(
    run: opt.Run,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of the images; by default that of the run's data."
        ),
    ] = None,
    image_prefix: Annotated[
        str | None,
        typer.Option(
            help="What the addresses of the images in Label Studio have before the names below "
            "that folder; by default /data/local-files/?d=FOLDER/ with its name."
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder of the answers and of the runs trained on them; default RUN-label-studio.",
        ),
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option(
            "--annotations",
            metavar="FILE",
            help="JSON export of the project, whose annotations are taken first: those made while "
            "this command did not run.",
        ),
    ] = None,
    train_every: Annotated[
        int,
        typer.Option(min=0, help="Train after so many annotations; 0 waits for Start Training."),
    ] = 20,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Classes that an annotator does not choose are absent."),
    ] = False,
    host: opt.Host = "127.0.0.1",
    port: opt.Port = 9090,
    token_file: opt.TokenFile = None,
    device: opt.Device = None,
    stop_after: opt.StopAfter = None,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Predict for Label Studio, and train on what its annotators answer.

    An ML backend: the printed address, pasted into Settings, Model, Connect Model, is all that
    Label Studio needs. Predictions are choices with a score; an annotation is a yes to what is
    chosen, and a no to what was predicted and taken away. OUT/labels.npz has all answers for
    plusone train. One run is trained at a time, and the one before predicts until it is complete.

    Example: [bold]plusone label-studio run --train-every 50[/bold]
    """
    try:
        from plusone.integrations.label_studio.service import address, make_server
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        raise InputError(f"Label Studio needs a web server: {install_command('serve')}") from None
    from plusone.integrations.label_studio.backend import Backend

    token = None if token_file is None else read_token(token_file)
    folder = to or run.with_name(f"{run.name}-label-studio")
    check_folder(folder)
    place = images or _images_of(run)
    if not place.is_dir():
        raise InputError(f"{place}: is no folder; --images names that of the images")
    prefix = LOCAL.format(folder=place.resolve().name) if image_prefix is None else image_prefix
    backend = Backend(
        run,
        place,
        prefix,
        folder,
        train_every=train_every,
        complete=complete,
        device=device or "auto",
        plugins=plugin or (),
        say=say,
    )
    try:
        if annotations is not None:
            _take(backend, annotations)
        server = make_server(backend, host=host, port=port, token=token)
    except BaseException:
        backend.close()
        raise
    warn_if_diverged(run)
    _announce(backend)
    keys = server.keys
    shown = keys.address if token_file is not None else address(keys)
    try:
        if as_json:
            about = {"url": keys.address, "port": keys.port, "out": str(folder)}
            secret = {} if token_file is not None else {"token": keys.token, "connect": shown}
            emit(about | {"version": backend.serving.version} | secret)
        else:
            say("in Label Studio, Settings, Model, Connect Model, as Backend URL:")
            out.print(shown, soft_wrap=True)
        if token_file is not None:
            say(f"with the token in it: http://plusone:TOKEN@{keys.address.partition('://')[2]}")
        if not server.local:
            say(f"warning: {host} is open to other computers; the token is sent unencrypted")
        say("Ctrl-C stops the server")
        server.run(stop_after)
    except KeyboardInterrupt:
        pass  # Ctrl-C before the server had started
    say(f"stopped; the answers are in {folder}")


def _images_of(run: Path) -> Path:
    """The folder of the images of a run."""
    from plusone.data.formats import read
    from plusone.data.source import EMBEDDED
    from plusone.prediction.run_folder import source_of

    source = source_of(run)
    if source.data in EMBEDDED or source.features:
        raise InputError(f"{run}: was not trained on image files, which Label Studio shows")
    table = read(
        source.data, format=source.format, labels=source.labels, separator=source.separator,
        check_images=False,
    ).table  # fmt: skip
    if table.root is None:
        raise InputError(f"{run}: its data names no folder of images; --images does")
    return table.root


def _take(backend: Backend, path: Path) -> None:
    """Keeps the annotations of an export of Label Studio."""
    from plusone.integrations.label_studio.tasks import control_in, pairs_in
    from plusone.io.readers import read_json

    try:
        tasks = read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    if not isinstance(tasks, list):
        raise InputError(f"{path}: is no JSON export of Label Studio, which is a list of tasks")
    try:
        control = control_in(tasks, backend.serving.classes, backend.prefix)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    say(f"{path}: {backend.annotations(control, pairs_in(tasks))}")


def _announce(backend: Backend) -> None:
    """Says what predicts, and where images are looked for."""
    serving = backend.serving
    say(f"{serving.version}: {len(serving.classes)} classes, from {serving.folder}")
    say(f"images: {backend.prefix}NAME in Label Studio is NAME in {backend.images}")
    if why := backend.untrainable:
        say(f"note: answers are kept, but nothing is trained: {why}")
    elif not len(serving.found):
        say("note: items of the run are predicted by a model that was trained on them; a run in "
            "closed form would predict each without it")  # fmt: skip
