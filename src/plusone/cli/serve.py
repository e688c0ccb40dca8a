"""The command serve."""

from __future__ import annotations

from typing import Annotated

import typer

from plusone.cli import options as opt
from plusone.cli.checks import read_token
from plusone.cli.loading import warn_if_diverged
from plusone.cli.printing import emit, out, say
from plusone.errors import InputError
from plusone.extras import install_command

PACKAGES = ("fastapi", "uvicorn", "starlette", "python_multipart")


def serve(
    run: opt.Run,
    host: opt.Host = "127.0.0.1",
    port: opt.Port = 8000,
    token_file: opt.TokenFile = None,
    threshold: opt.ByClass = None,
    max_mb: Annotated[
        int, typer.Option(min=1, max=4096, help="Longest body of a request, in megabytes.")
    ] = 32,
    queue: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="Requests in progress and waiting; more are told to try later."
        ),
    ] = 32,
    device: opt.Device = None,
    no_onnx: Annotated[
        bool,
        typer.Option(
            "--no-onnx",
            help="Compute by torch, also where there is model.onnx: for untrusted folders.",
        ),
    ] = False,
    stop_after: opt.StopAfter = None,
    seed: opt.UnusedSeed = 0,
    as_json: opt.Json = False,
    plugin: opt.Plugin = None,
) -> None:
    """Answer requests over HTTP with the labels and probabilities of predict.

    Only programs that send the printed token are answered, on this computer alone unless --host
    says otherwise. The printed address opens a page that describes the service and tries it; GET
    /openapi.json has the same for programs. A folder of plusone export --onnx is computed by
    onnxruntime, others by torch; --no-onnx is for untrusted folders.

    Example: [bold]plusone serve my-model --port 8000[/bold], then
    Example: [bold]curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: image/jpeg"
    --data-binary @photo.jpg http://127.0.0.1:8000/predict[/bold]
    Example: [bold]curl -H "Authorization: Bearer $TOKEN" -F images=@a.jpg -F images=@b.jpg
    http://127.0.0.1:8000/predict/batch[/bold]
    """
    try:
        from plusone.serve.app import make_server
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        raise InputError(f"serving needs a web server: {install_command('serve')}") from None
    from plusone.serve.model import load_model

    token = None if token_file is None else read_token(token_file)
    model = load_model(run, device or "auto", threshold, onnx=not no_onnx)
    warn_if_diverged(run)
    server = make_server(
        model, host=host, port=port, token=token, max_body=max_mb * 1_000_000, places=queue
    )
    keys = server.keys
    say(f"{model.name}: {len(model.classes)} classes, computed by {model.runtime}")
    say(model.thresholds.sentence())
    if not server.local:
        say(f"warning: {host} is open to other computers; the token is sent unencrypted, so put a "
            "proxy with TLS before it")  # fmt: skip
    secret = {} if token_file is not None else {"token": keys.token, "page": keys.page}
    try:
        if as_json:
            about = {"url": keys.address, "port": keys.port, "runtime": model.runtime}
            emit(about | secret)
        else:
            out.print(keys.address if token_file is not None else keys.page, soft_wrap=True)
            if token_file is None:
                say(f"programs send the header Authorization: Bearer {keys.token}")
        say("Ctrl-C stops the server")
        server.run(stop_after)
    except KeyboardInterrupt:
        pass  # Ctrl-C before the server had started
    say("stopped")
