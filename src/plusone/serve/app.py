"""The web service of a model: predictions for programs, and a page that describes it.

Every request passes the guard first (`plusone.web.guard`). Bodies are read only if there is a place
for the request; threads of a pool decode and compute, so that the others are heard meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import StringIO
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import python_multipart  # noqa: F401 (starlette imports it only when a form arrives)
import torch
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from pydantic import BaseModel, Field
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect
from torch import Tensor

from plusone.data.images import pixels_of
from plusone.io.readers import parse_json
from plusone.prediction.items import Skipped
from plusone.prediction.tags import JsonTags
from plusone.serve.metrics import Metrics
from plusone.serve.model import ServedModel
from plusone.version import __version__
from plusone.web.guard import Guard, Keys, RefusedError, Rules
from plusone.web.pages import enter_page, static_file
from plusone.web.server import Server, open_port
from plusone.web.templates import templates

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_IMAGES, MAX_TEXTS, MAX_VECTORS = 64, 256, 4096  # in a batch
RETRY_SECONDS = 1  # after an overload
GRACE = 10  # seconds for running requests to end after a stop
THREADS = min(4, os.cpu_count() or 1)  # that decode
LARGE = 16_000_000  # pixels; images with more are decoded one at a time, and wait for each other
IMAGE_TYPE = "image/*"
FORM_TYPE = "multipart/form-data"
JSON_TYPE = "application/json"
FEATURES, TEXT, TEXTS = "features", "text", "texts"  # keys of bodies
NO_KEY = "send the token that plusone serve printed, as the header Authorization: Bearer TOKEN"


class Tags(BaseModel):
    """Labels of one item."""

    labels: Annotated[
        list[str], Field(description="Classes above their thresholds, most likely first.")
    ]
    probabilities: Annotated[
        dict[str, float], Field(description="Calibrated probability of every class.")
    ]


class Item(Tags):
    """One item of a batch."""

    id: Annotated[str, Field(description="File name, or position in the list.")]


class SkippedItem(BaseModel):
    """An item that could not be read."""

    id: str
    reason: str


class Batch(BaseModel):
    """What `plusone predict --json` prints."""

    origin: Annotated[str, Field(alias="from", description="Where the thresholds come from.")]
    thresholds: dict[str, float]
    items: list[Item]
    skipped: Annotated[list[SkippedItem], Field(description="Items that could not be read.")]


class About(BaseModel):
    """The model that is served."""

    name: str
    classes: list[str]
    thresholds: dict[str, float]
    input: Annotated[str, Field(description="What one item is.")]
    runtime: Annotated[str, Field(description="onnx or torch")]
    version: Annotated[str, Field(description="Of plusone.")]


class Health(BaseModel):
    """The service answers."""

    status: str


class Problem(BaseModel):
    """Why a request was refused."""

    error: Annotated[str, Field(description="One sentence.")]


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body cannot be parsed."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
    411: {"model": Problem, "description": "There is no content length."},
    413: {"model": Problem, "description": "The body or the batch is too large."},
    415: {"model": Problem, "description": "The body is of another type."},
    422: {"model": Problem, "description": "The image cannot be read, or the numbers do not fit."},
    503: {"model": Problem, "description": "Too busy; Retry-After says when to try again."},
}


class Service:
    """A model, the threads that compute it, and the places for requests."""

    def __init__(self, model: ServedModel, places: int) -> None:
        self.model, self.places = model, places
        about = {"model": model.name, "runtime": model.runtime, "version": __version__}
        self.metrics = Metrics(
            ("/predict", "/predict/batch", "/model", "/health", "/metrics", "/openapi.json"), about
        )
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="predict")
        self._decoders = ThreadPoolExecutor(THREADS, thread_name_prefix="decode")
        self._large = ThreadPoolExecutor(1, thread_name_prefix="decode-large")
        # One body of JSON at a time: its values take 10 times its length if they are numbers, and
        # up to 45 times if not. Threads would not parse faster.
        self._parsing = Lock()

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place for a request while it is read and computed."""
        if self.metrics.in_progress >= self.places:
            raise RefusedError(503, f"{self.places} requests are in progress; try again")
        self.metrics.in_progress += 1
        try:
            yield
        finally:
            self.metrics.in_progress -= 1

    async def compute(self, work: Callable[[], tuple[str, int, int]]) -> Response:
        """Answers with the JSON of `work`, which runs in the pool and counts items and skipped."""
        text, items, skipped = await asyncio.get_running_loop().run_in_executor(self._pool, work)
        self.metrics.items += items
        self.metrics.skipped += skipped
        return Response(text.encode("utf-8", "replace"), media_type=JSON_TYPE)

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown(cancel_futures=True)
        self._decoders.shutdown(cancel_futures=True)
        self._large.shutdown(cancel_futures=True)

    async def decoded(self, content: bytes) -> Tensor | str:
        """An image file as an input, or why it is none; small ones do not wait for large ones."""
        loop = asyncio.get_running_loop()
        pixels = await loop.run_in_executor(self._decoders, pixels_of, content)
        decoders = self._large if pixels > LARGE else self._decoders
        return await loop.run_in_executor(decoders, self.model.decoded, content)

    async def one_image(self, content: bytes) -> Response:
        """The tags of one image file."""
        item = await self.decoded(content)
        if isinstance(item, str):
            raise RefusedError(422, f"image: {item}")
        return await self.compute(lambda: self._one(item))

    async def images(self, ids: Sequence[str], contents: Sequence[bytes]) -> Response:
        """The tags of several image files."""
        items = await asyncio.gather(*map(self.decoded, contents))
        return await self.compute(lambda: self._several(ids, items))

    def one_value(self, body: bytes) -> tuple[str, int, int]:
        """The tags of one text, or of the features of one item."""
        with self._parsing:
            if self.model.encoder is None:
                return self._one(self._input(_value(body, FEATURES), FEATURES))
            text = _text(_value(body, TEXT), TEXT)
        return self._one(*self.model.encoded([text]))

    def several_values(self, body: bytes) -> tuple[str, int, int]:
        """The tags of several texts, or of the features of several items."""
        key, most = (FEATURES, MAX_VECTORS) if self.model.encoder is None else (TEXTS, MAX_TEXTS)
        items: Sequence[Tensor]
        with self._parsing:
            listed = _value(body, key)
            if not isinstance(listed, list) or not listed:
                raise RefusedError(422, f"{key} must be a list with an entry for each item")
            if len(listed) > most:
                raise RefusedError(413, f"{len(listed)} items; a batch has at most {most}")
            named = [(one, f"{key}[{number}]") for number, one in enumerate(listed)]
            if self.model.encoder is None:
                items = [self._input(*one) for one in named]
            else:
                texts = [_text(*one) for one in named]
        if self.model.encoder is not None:
            items = self.model.encoded(texts)
        return self._several([str(number) for number in range(len(items))], items)

    def _input(self, values: Any, what: str) -> Tensor:
        width = self.model.shape[-1]
        rows = [values] if len(self.model.shape) == 1 else values
        # NumPy is given numbers only: an array of texts would take as much for each as the longest.
        fits = isinstance(rows, list) and all(
            isinstance(row, list)
            and len(row) == width
            and all(isinstance(value, int | float) for value in row)
            for row in rows
        )
        array = np.array(values if fits else None)
        if array.dtype.kind not in "iuf" or not array.size:
            raise RefusedError(422, f"{what} must be {self.model.what}")
        with np.errstate(over="ignore"):
            single = array.astype(np.float32)
        if not np.isfinite(single).all():
            raise RefusedError(422, f"{what} has a number that is not finite")
        return torch.from_numpy(single)

    def _one(self, item: Tensor) -> tuple[str, int, int]:
        predictions = self.model.predict([""], [item])
        tags = predictions.to_json(0, self.model.thresholds.array)
        return json.dumps(tags, ensure_ascii=False, allow_nan=False), 1, 0

    def _several(self, ids: Sequence[str], items: Sequence[Tensor | str]) -> tuple[str, int, int]:
        """What `plusone predict --json` prints."""
        named = [*zip(ids, items, strict=True)]
        good = [(name, item) for name, item in named if isinstance(item, Tensor)]
        skipped = [Skipped(name, item) for name, item in named if isinstance(item, str)]
        if not good:
            raise RefusedError(
                422, f"none of the {len(ids)} images can be read; the first: {skipped[0].reason}"
            )
        file = StringIO()
        tags = JsonTags(file, self.model.classes, self.model.thresholds)
        tags.add(self.model.predict([name for name, _ in good], [item for _, item in good]))
        tags.end(skipped)
        return file.getvalue(), len(good), len(skipped)


def _value(body: bytes, key: str) -> Any:
    """The value of the only key of a JSON object."""
    try:
        value = parse_json(body)
    except ValueError as error:
        reason = str(error) if "nested" in str(error) else "it cannot be parsed"
        raise RefusedError(400, f"the body is not JSON: {reason}") from None
    if not isinstance(value, dict) or set(value) != {key}:
        raise RefusedError(422, f'the body must be an object with one key, "{key}"')
    return value[key]


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RefusedError(422, f"{what} must be a text that is not empty")
    return value.strip()


def make_app(service: Service, keys: Keys) -> FastAPI:
    """The app, without its guard."""
    app = FastAPI(
        title=f"plusone serve: {service.model.name}",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it logs every broken form
    model = service.model
    one, several = _bodies(model)
    curl = f"curl -H 'Authorization: Bearer TOKEN' {keys.address}"

    @app.post(
        "/predict",
        summary="Tags of one item",
        response_model=None,
        responses={200: {"model": Tags, "description": "The tags."}, **PROBLEMS},
        openapi_extra=_described(one, f"{curl}/predict {_example(model, batch=False)}"),
    )
    async def predict(request: Request) -> Response:
        """The body is one item; the reply has its labels and all probabilities."""
        _check_kind(request, one, model)
        with service.place():
            body = await request.body()
            if model.images:
                return await service.one_image(body)
            return await service.compute(lambda: service.one_value(body))

    @app.post(
        "/predict/batch",
        summary="Tags of several items",
        response_model=None,
        responses={200: {"model": Batch, "description": "The tags, in order."}, **PROBLEMS},
        openapi_extra=_described(several, f"{curl}/predict/batch {_example(model, batch=True)}"),
    )
    async def predict_batch(request: Request) -> Response:
        """The reply is what plusone predict --json prints; it names the items that were skipped."""
        _check_kind(request, several, model)
        with service.place():
            if not model.images:
                body = await request.body()
                return await service.compute(lambda: service.several_values(body))
            ids, contents = await _uploads(request)
            return await service.images(ids, contents)

    @app.get("/model", summary="Classes, thresholds and input", responses={401: PROBLEMS[401]})
    async def about() -> About:
        return About(
            name=model.name,
            classes=list(model.classes),
            thresholds=model.thresholds.by_name(model.classes),
            input=model.what,
            runtime=model.runtime,
            version=__version__,
        )

    @app.get("/health", summary="Whether the service answers; needs no token")
    async def health() -> Health:
        return Health(status="ok")

    @app.get(
        "/metrics",
        summary="Counts and times for Prometheus",
        response_class=PlainTextResponse,
        responses={401: PROBLEMS[401]},
    )
    async def metrics() -> Response:
        return Response(
            service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    _add_page(app, service, keys)
    _add_errors(app)
    return app


def _bodies(model: ServedModel) -> tuple[dict[str, Any], dict[str, Any]]:
    if model.images:
        file = {"type": "string", "format": "binary"}
        listed = {"type": "array", "items": file, "maxItems": MAX_IMAGES}
        form = {"type": "object", "properties": {"images": listed}}
        return {IMAGE_TYPE: {"schema": file}}, {FORM_TYPE: {"schema": form}}

    def body(key: str, schema: dict[str, Any]) -> dict[str, Any]:
        required = {"required": [key], "additionalProperties": False}
        return {JSON_TYPE: {"schema": {"type": "object", "properties": {key: schema}} | required}}

    if model.encoder is not None:
        text = {"type": "string", "minLength": 1}
        listed = {"type": "array", "items": text, "minItems": 1, "maxItems": MAX_TEXTS}
        return body(TEXT, text), body(TEXTS, listed)
    vector: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
    vector |= {"minItems": model.shape[-1], "maxItems": model.shape[-1]}
    item = vector if len(model.shape) == 1 else {"type": "array", "items": vector, "minItems": 1}
    listed = {"type": "array", "items": item, "minItems": 1, "maxItems": MAX_VECTORS}
    return body(FEATURES, item), body(FEATURES, listed)


def _example(model: ServedModel, *, batch: bool) -> str:
    """The arguments of curl that send items."""
    if model.images:
        one = "-H 'Content-Type: image/jpeg' --data-binary @photo.jpg"
        return "-F images=@one.jpg -F images=@two.jpg" if batch else one
    if model.encoder is not None:
        value = '"texts": ["one text", "another", ...]' if batch else '"text": "one text"'
    else:
        vector = "[0.1, 0.2, ...]" if len(model.shape) == 1 else "[[0.1, 0.2, ...], ...]"
        value = f'"features": [{vector}, ...]' if batch else f'"features": {vector}'
    return f"-H 'Content-Type: {JSON_TYPE}' --data '{{{value}}}'"


def _described(body: Mapping[str, Any], curl: str) -> dict[str, Any]:
    samples = [{"lang": "Shell", "source": curl}]
    return {"requestBody": {"required": True, "content": body}, "x-codeSamples": samples}


def _check_kind(request: Request, body: Mapping[str, Any], model: ServedModel) -> None:
    """Refuses a body of another type than the endpoint takes."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    (kind,) = body
    if kind == IMAGE_TYPE:
        fits = given.startswith("image/") or given == "application/octet-stream"
        named = "an image, sent as it is with its type (Content-Type: image/jpeg)"
    else:
        fits, named = given == kind, f"of the type {kind}"
    if not fits:
        raise RefusedError(415, f"the body must be {named}; this model takes {model.what}")


class _Form(MultiPartParser):
    """A parser that says whether the end of the form arrived."""

    complete = False

    def on_end(self) -> None:
        self.complete = True


async def _uploads(request: Request) -> tuple[list[str], list[bytes]]:
    """Names and contents of the files of a form."""

    async def stream() -> AsyncGenerator[bytes]:
        async for chunk in request.stream():
            yield chunk

    parser = _Form(request.headers, stream(), max_files=MAX_IMAGES, max_fields=0)
    parser.spool_max_size = 2**40  # in memory: the length of the body is bounded, disks may be full
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError) as error:
        text = str(error)
        if "Too many files" in text:
            raise RefusedError(413, f"a batch has at most {MAX_IMAGES} images") from None
        raise RefusedError(400, "the body is not a form of image files") from None
    ids, contents = [], []
    for number, (_, file) in enumerate(form.multi_items()):
        if isinstance(file, str):  # pragma: no cover (max_fields is 0)
            continue
        ids.append(file.filename or str(number))
        contents.append(await file.read())
    await form.close()
    if not parser.complete:
        raise RefusedError(400, "the form is not complete: the boundary at its end is missing")
    if not ids:
        raise RefusedError(422, "the form has no image files")
    return ids, contents


def _add_page(app: FastAPI, service: Service, keys: Keys) -> None:
    make_schema = app.openapi

    def schema() -> dict[str, Any]:
        described = make_schema()
        parts = described.setdefault("components", {})
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in described["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path == "/health" else [{"token": []}]
        return described

    app.openapi = schema  # type: ignore[method-assign]

    @app.get("/enter", include_in_schema=False)
    async def enter() -> HTMLResponse:
        return enter_page(keys)

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        model = service.model
        text = templates("plusone.serve").get_template("page.html")
        context = {"model": model, "schema": app.openapi(), "version": __version__}
        context["thresholds"] = model.thresholds.by_name(model.classes)
        return HTMLResponse(text.render(context))

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return static_file("plusone.serve", name)


def _add_errors(app: FastAPI) -> None:
    """Every error is one sentence as JSON."""

    def sentence(status: int, text: str) -> JSONResponse:
        headers = {"retry-after": str(RETRY_SECONDS)} if status == 503 else None
        return JSONResponse({"error": text}, status_code=status, headers=headers)

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> JSONResponse:
        return sentence(error.status, error.sentence)

    @app.exception_handler(HTTPException)
    @app.exception_handler(404)
    @app.exception_handler(405)
    async def missing(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 405:
            return sentence(405, "this address takes another method; see /openapi.json")
        return sentence(error.status_code, "there is no such address; see /openapi.json")

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> JSONResponse:
        return sentence(400, "the body is not complete")

    @app.exception_handler(MemoryError)
    async def full(request: Request, error: MemoryError) -> JSONResponse:
        return sentence(503, "there is not enough memory for this request")

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return sentence(500, "this should not have happened; the terminal says what did")


class Counted:
    """Middleware that counts requests, those that the guard refuses too."""

    def __init__(self, app: ASGIApp, metrics: Metrics, folder: str) -> None:
        self.app, self.metrics, self.folder = app, metrics, folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            path = scope["path"].removeprefix(f"/{self.folder}")
            self.metrics.request(path, status, time.perf_counter() - started)


def make_server(
    model: ServedModel,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    max_body: int = 2**25,
    places: int = 32,
) -> Server:
    """Binds a server for a model; an address beyond this computer needs a token.

    `max_body` is the longest body in bytes, `places` are the requests that may be read, waiting or
    computed at a time.
    """
    listener, keys, local = open_port("serve", host, port, token)
    rules = Rules(
        refused=(401, NO_KEY),
        max_body=max_body,
        programs=True,
        any_host=not local,
        public=frozenset({"/health"}),
    )
    service = Service(model, places)
    app = Counted(Guard(make_app(service, keys), keys, rules), service.metrics, keys.folder)
    return Server(app, keys, listener, grace=GRACE, at_end=service.close)
