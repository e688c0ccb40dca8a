"""The review page: a web app on this computer only.

It serves the pages, images by row number, and a small JSON interface for the page's script. Every
request passes the guard first (`plusone.review._guard`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from tempfile import mkstemp
from threading import Timer, current_thread, main_thread
from typing import Annotated, Any, Literal

import h11
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from uvicorn.protocols.http.h11_impl import H11Protocol

from plusone.errors import InputError, RunError
from plusone.review._guard import Guard, Keys
from plusone.review.desk import Desk, NewItemDesk, SuggestionDesk, UnknownQuestionError
from plusone.review.pictures import SIDES
from plusone.review.questions import ORDERS, Selection
from plusone.version import __version__

HOST = "127.0.0.1"
SCRIPT = "text/javascript; charset=utf-8"
STATIC = {
    "page.js": SCRIPT,
    "items.js": SCRIPT,
    "grid.js": SCRIPT,
    "labels.js": SCRIPT,
    "zoom.js": SCRIPT,
    "annotate.js": SCRIPT,
    "review.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
MOST_TILES = 200
REQUEST_SECONDS = 10.0  # for a request to arrive completely

Name = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16,64}$")]
Row = Annotated[int, Field(ge=0, lt=2**31)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Step(_Body):
    """A step of a session; `step` is its name, so that sending it again changes nothing."""

    session: Name
    step: Name


class Given(_Body):
    """One answer."""

    row: Row
    label: Annotated[int, Field(ge=-1, lt=2**31)]
    action: Literal["yes", "no", "skip"]


class AnswerStep(Step):
    """The answers of one step."""

    answers: Annotated[list[Given], Field(min_length=1, max_length=MOST_TILES)]


class Session(_Body):
    """One open page."""

    session: Name


class NextItem(Session):
    """Asks for the next item, including those skipped up to row `again` of the history."""

    again: Row = 0
    row: Row | None = None


class NextPage(Session):
    """Asks for the next page of one class."""

    label: Row
    again: Row = 0
    size: Annotated[int, Field(ge=1, le=MOST_TILES)] = 24


class Select(Session):
    """Chooses which questions are asked."""

    order: str
    budget: Annotated[int, Field(ge=1, lt=2**31)] | None
    least: Annotated[float, Field(ge=0, le=1)]


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("plusone.review"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def make_app(desk: Desk, *, title: str, keys: Keys) -> Guard:
    """The app behind its guard.

    Args:
        desk: The review.
        title: Heading of the page.
        keys: The secrets of the server.
    """
    app = FastAPI(
        docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, title="review"
    )

    def page(mode: str) -> HTMLResponse:
        modes = ["items", "grid"] if isinstance(desk, SuggestionDesk) else []
        text = _templates().get_template(f"{mode}.html")
        context = {"mode": mode, "modes": modes, "title": title, "orders": ORDERS}
        return HTMLResponse(text.render(context, version=__version__))

    @app.get("/enter", response_class=HTMLResponse)
    def enter() -> HTMLResponse:
        # A page with a link instead of a redirect: browsers do not send a SameSite=Strict cookie
        # with a redirect that follows a click on another site.
        reply = HTMLResponse(_templates().get_template("enter.html").render(path=keys.path))
        reply.set_cookie(
            keys.cookie_name, keys.cookie, httponly=True, samesite="strict", path=keys.path
        )
        return reply

    @app.get("/", response_class=HTMLResponse)
    def start() -> HTMLResponse:
        return page(desk.mode)

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404)
        content = files("plusone.review").joinpath("static", name).read_bytes()
        return Response(content, headers={"content-type": STATIC[name]})

    @app.get("/image/{size}/{row}")
    def image(size: str, row: int) -> Response:
        encoded = desk.pictures.get(row, size) if size in SIDES else None
        if encoded is None:
            raise HTTPException(404)
        return Response(encoded[0], media_type=encoded[1])

    @app.post("/api/answer")
    def answer(body: AnswerStep) -> dict[str, Any]:
        desk.answer(body.session, body.step, [(a.row, a.label, a.action) for a in body.answers])
        return {"progress": desk.progress()}

    @app.post("/api/undo")
    def undo(body: Step) -> dict[str, Any]:
        undone = desk.undo(body.session, body.step)
        return {"undone": undone, "progress": desk.progress()}

    @app.post("/api/hold")
    def hold(body: Session) -> dict[str, Any]:
        desk.hold(body.session)
        return {"progress": desk.progress()}

    @app.post("/api/release")
    def release(body: Session) -> dict[str, Any]:
        desk.release(body.session)
        return {}

    if isinstance(desk, SuggestionDesk):
        _add_suggested(app, desk, page)
    if isinstance(desk, NewItemDesk):

        @app.post("/api/next")
        def next_question(request: NextItem) -> dict[str, Any]:
            return desk.next_question(request.session, request.again, request.row)

    _add_errors(app)
    return Guard(app, keys)


def _add_suggested(app: FastAPI, desk: SuggestionDesk, page: Any) -> None:
    @app.get("/grid", response_class=HTMLResponse)
    def grid() -> HTMLResponse:
        shown: HTMLResponse = page("grid")
        return shown

    @app.get("/api/classes")
    def classes() -> dict[str, Any]:
        return {"classes": desk.classes()}

    @app.get("/api/names")
    def names() -> dict[str, Any]:
        return {"names": desk.table.classes}

    @app.get("/api/selection")
    def selection() -> dict[str, Any]:
        return desk.selection()

    @app.post("/api/selection")
    def select(request: Select) -> dict[str, Any]:
        if request.order not in ORDERS:
            raise UnknownQuestionError
        seed = desk.questions.selection.seed
        desk.select(Selection(request.order, request.budget, request.least, seed))
        return desk.selection() | {"progress": desk.progress()}

    @app.post("/api/next")
    def next_item(request: NextItem) -> dict[str, Any]:
        return desk.next_item(request.session, request.again, request.row)

    @app.post("/api/page")
    def next_page(request: NextPage) -> dict[str, Any]:
        return desk.next_page(request.session, request.label, request.again, request.size)


def _add_errors(app: FastAPI) -> None:
    """Error messages are fixed sentences that repeat nothing of the request."""

    def sentence(status: int, text: str) -> JSONResponse:
        return JSONResponse({"error": text}, status_code=status)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return sentence(422, "the request is malformed")

    @app.exception_handler(UnknownQuestionError)
    def unknown(request: Request, error: UnknownQuestionError) -> JSONResponse:
        return sentence(404, "no such question")

    @app.exception_handler(RunError)
    def failed(request: Request, error: RunError) -> JSONResponse:
        sys.stderr.write(f"plusone: {error}\n")
        return sentence(503, "the answer could not be saved; the terminal says why")


@dataclass(frozen=True)
class ReviewServer:
    """A server that is bound to its port and not yet running.

    Args:
        url: The address to open, including the token.
        port: Its port.
    """

    url: str
    port: int
    _server: uvicorn.Server
    _socket: socket.socket

    def run(self, stop_after: float | None = None) -> None:
        """Serves until Ctrl-C, `stop`, or `stop_after` seconds."""
        timer = Timer(stop_after, self.stop) if stop_after is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            with _quiet_ctrl_c(self.stop):
                self._server.run(sockets=[self._socket])
        finally:
            if timer is not None:
                timer.cancel()
            self._socket.close()

    def stop(self) -> None:
        """Ends `run`, from any thread."""
        self._server.should_exit = True


@contextmanager
def _quiet_ctrl_c(stop: Callable[[], None]) -> Iterator[None]:
    """Makes Ctrl-C stop the server cleanly, including while it starts and ends."""
    if current_thread() is not main_thread():  # signals arrive in the main thread only
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _TimedProtocol(H11Protocol):
    """HTTP that closes a connection whose request stays incomplete.

    Otherwise a few hundred connections that never say what they want would block the reviewer.
    """

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._patience is not None:
            self._patience.cancel()

    def _wait(self) -> None:
        """Starts the time for a request, or ends it if the request is complete."""
        incomplete = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if incomplete and self._patience is None:
            self._patience = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)
        elif not incomplete and self._patience is not None:
            self._patience.cancel()
            self._patience = None


def make_server(desk: Desk, *, title: str, port: int = 0) -> ReviewServer:
    """Binds a server for a review.

    Args:
        desk: The review.
        title: Heading of the page.
        port: Port to listen on; 0 takes a free one.
    """
    # asyncio sends small replies at once (TCP_NODELAY) only if the protocol is given.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        raise InputError(f"port {port} {why}; choose another --port, or 0 for any") from None
    keys = Keys(port=int(listener.getsockname()[1]))
    config = uvicorn.Config(
        make_app(desk, title=title, keys=keys),
        access_log=False,  # it would contain the token
        log_level="error",
        http=_TimedProtocol,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=16_384,
        limit_concurrency=200,
        timeout_graceful_shutdown=2,
    )
    url = f"http://{HOST}:{keys.port}/?token={keys.token}"
    return ReviewServer(url, keys.port, uvicorn.Server(config), listener)


@contextmanager
def opened_in_browser(url: str, beside: Path) -> Iterator[None]:
    """Opens the address in the user's browser, if there is a display.

    The browser is given a file that redirects to the address and that only the user can read: the
    address contains the token, and command lines are visible to everybody on the computer.
    """
    if sys.platform.startswith("linux") and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        yield
        return
    handle, name = mkstemp(prefix=f".{beside.name}.", suffix=".html", dir=beside.resolve().parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f'<meta http-equiv="refresh" content="0;url={escape(url)}">')
    try:
        webbrowser.open(Path(name).as_uri())
        yield
    finally:
        Path(name).unlink(missing_ok=True)
