"""The protocol of Label Studio's ML backends over HTTP.

Every request passes the guard first (`plusone.web.guard`): it needs the token, as the password of
HTTP Basic authentication, which Label Studio can send, or as a bearer token. No path and no address
of a request is opened: images are looked up by name in the folder that the user named. The keys
for its own interface that Label Studio sends are neither used nor kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

from plusone.errors import InputError, RunError
from plusone.integrations.label_studio.backend import Backend
from plusone.integrations.label_studio.tasks import pairs_in
from plusone.io.readers import parse_json
from plusone.web.guard import Guard, Keys, Rules
from plusone.web.server import Server, open_port

USER = "plusone"  # in the address; the guard looks at the password alone
JSON = "application/json"
NO_KEY = (
    "send the token that plusone label-studio printed as the password of HTTP Basic authentication"
)
MAX_BODY = 2**25
PLACES = 4  # requests that are read and answered at a time


def make_app(backend: Backend) -> FastAPI:
    """The app, without its guard."""
    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        title="label-studio",
    )
    places = asyncio.Semaphore(PLACES)

    async def answer(request: Request, work: Callable[[dict[str, Any]], Any]) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            return _reply({"error": f"the body must be of the type {JSON}"}, 415)
        async with places:
            try:
                body = parse_json(await request.body())
                if not isinstance(body, dict):
                    raise InputError("the body must be an object")
                return _reply(await run_in_threadpool(work, body))
            except RunError as error:
                backend.say(str(error))
                return _reply({"error": "it could not be saved; the terminal says why"}, 503)
            except ValueError as error:  # InputError, too
                backend.say(f"refused: {request.url.path}: {error}")
                return _reply({"error": str(error)}, 400)

    @app.get("/")
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "UP", "model_class": "plusone"}

    @app.get("/versions")
    async def versions() -> dict[str, list[str]]:
        return {"versions": [backend.serving.version]}

    @app.post("/setup")
    async def setup(request: Request) -> Response:
        def work(body: dict[str, Any]) -> Any:
            control = backend.control(body.get("schema"))
            missing = len(backend.serving.classes) - len(control.classes)
            if missing:
                backend.say(f"note: {missing} classes of the model are not in the configuration")
            return {"model_version": backend.serving.version}

        return await answer(request, work)

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        def work(body: dict[str, Any]) -> Any:
            tasks = body.get("tasks")
            if not isinstance(tasks, list) or not all(isinstance(one, dict) for one in tasks):
                raise InputError("tasks must be a list of objects")
            results = backend.predict(body.get("label_config"), tasks)
            if gone := results.count([]):
                first = tasks[results.index([])].get("data")
                backend.say(
                    f"{gone} of {len(tasks)} images are not in the folder, or unreadable; the "
                    f"first: {first}; addresses are expected to begin with {backend.prefix}"
                )
            return {"results": results, "model_version": backend.serving.version}

        return await answer(request, work)

    @app.post("/webhook")
    async def webhook(request: Request) -> Response:
        return await answer(request, lambda body: {"status": backend.event(body)})

    @app.post("/train")
    async def train(request: Request) -> Response:
        """Older versions of Label Studio send all annotations with the wish to train."""

        def work(body: dict[str, Any]) -> Any:
            control = backend.control(body.get("label_config"))
            backend.annotations(control, pairs_in(body.get("annotations")))
            return {"status": backend.train()}

        return await answer(request, work)

    return app


def _reply(content: Any, status: int = 200) -> Response:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    return Response(text.encode("utf-8", "replace"), status, media_type=JSON)


def make_server(
    backend: Backend, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None
) -> Server:
    """Binds a server for a backend, which is closed at its end."""
    listener, keys, local = open_port("label-studio", host, port, token)
    rules = Rules(
        refused=(401, NO_KEY), max_body=MAX_BODY, programs=True, basic=True, any_host=not local
    )
    return Server(Guard(make_app(backend), keys, rules), keys, listener, at_end=backend.close)


def address(keys: Keys) -> str:
    """The address to give Label Studio, with the token in it.

    >>> address(Keys("label-studio", 9090, token="secret"))
    'http://plusone:secret@127.0.0.1:9090'
    """
    from urllib.parse import quote

    return keys.address.replace("://", f"://{USER}:{quote(keys.token, safe='')}@", 1)
