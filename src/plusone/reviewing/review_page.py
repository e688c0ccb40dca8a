"""The review page: a web app on this computer only.

It serves the pages, images by row number, and a small JSON interface for the page's script. Every
request passes the guard first (`plusone.web.guard`).
"""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import mkstemp
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from plusone.errors import RunError
from plusone.reviewing.audit_desk import AuditDesk
from plusone.reviewing.desk import Desk, NewItemDesk, SuggestionDesk, UnknownQuestionError
from plusone.reviewing.pictures import SIDES
from plusone.reviewing.questions import ORDERS, Selection
from plusone.version import __version__
from plusone.web.guard import Guard, Keys, Rules
from plusone.web.pages import enter_page, static_file
from plusone.web.server import Server, bind
from plusone.web.templates import templates

RULES = Rules(
    refused=(403, "open the address that plusone review printed; it contains the access token"),
    max_body=65_536,
)
MOST_TILES = 200

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


def make_app(desk: Desk, *, title: str, keys: Keys) -> Guard:
    """The app behind its guard."""
    app = FastAPI(
        docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, title="review"
    )

    def page(mode: str) -> HTMLResponse:
        audit = isinstance(desk, AuditDesk)
        modes = ["items", "grid"] if isinstance(desk, SuggestionDesk) and not audit else []
        text = templates("plusone.reviewing").get_template(f"{mode}.html")
        parts = isinstance(desk, SuggestionDesk) and desk.outlines is not None
        context = {"mode": mode, "modes": modes, "title": title, "orders": ORDERS, "audit": audit}
        # The items of an audit come in random order, and nobody chooses among them.
        context["search"] = desk.table.texts is not None and mode != "grid" and not audit
        context |= {"parts": parts}
        return HTMLResponse(text.render(context, version=__version__))

    @app.get("/enter", response_class=HTMLResponse)
    def enter() -> HTMLResponse:
        return enter_page(keys)

    @app.get("/", response_class=HTMLResponse)
    def start() -> HTMLResponse:
        return page(desk.mode)

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        return static_file("plusone.reviewing", name)

    @app.get("/image/{size}/{row}")
    def image(size: str, row: int) -> Response:
        encoded = desk.pictures.get(row, size) if size in SIDES else None
        if encoded is None:
            raise HTTPException(404)
        return Response(encoded[0], media_type=encoded[1])

    @app.get("/api/search")
    def search(words: Annotated[str, Query(pattern=r"\S", max_length=200)]) -> dict[str, Any]:
        return desk.search(words)

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

    if isinstance(desk, AuditDesk):

        @app.get("/api/promise")
        def promise() -> dict[str, Any]:
            return {"promise": desk.promise()}

    if isinstance(desk, SuggestionDesk):
        _add_suggested(app, desk, page)
    if isinstance(desk, NewItemDesk):

        @app.post("/api/next")
        def next_question(request: NextItem) -> dict[str, Any]:
            return desk.next_question(request.session, request.again, request.row)

    _add_errors(app)
    return Guard(app, keys, RULES)


def _add_suggested(app: FastAPI, desk: SuggestionDesk, page: Any) -> None:
    @app.get("/grid", response_class=HTMLResponse)
    def grid() -> HTMLResponse:
        shown: HTMLResponse = page("grid")
        return shown

    @app.get("/api/classes")
    def classes() -> dict[str, Any]:
        return {"classes": desk.classes()}

    @app.get("/api/parts/{row}")
    def parts(row: int) -> dict[str, Any]:
        return {"parts": desk.parts_of(row) if 0 <= row < len(desk.table) else {}}

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


def make_server(desk: Desk, *, title: str, port: int = 0) -> Server:
    """Binds a server for a review."""
    listener = bind("127.0.0.1", port)
    keys = Keys("review", port=int(listener.getsockname()[1]))
    return Server(make_app(desk, title=title, keys=keys), keys, listener)


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
