"""The web app: pages, images by row number, and a small JSON interface for the page's script."""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from plusone.errors import RunError
from plusone.review.desk import Desk, NewItemDesk, SuggestionDesk, UnknownQuestionError
from plusone.review.guard import Guard, cookie_name, token_given
from plusone.review.pictures import SIDES
from plusone.version import __version__

SCRIPT = "text/javascript; charset=utf-8"
STATIC = {
    "page.js": SCRIPT,
    "items.js": SCRIPT,
    "grid.js": SCRIPT,
    "annotate.js": SCRIPT,
    "review.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
MOST_TILES = 200

Name = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16,64}$")]
Row = Annotated[int, Field(ge=0, lt=2**31)]


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Step(_Said):
    """Something a session does; `step` names it, so that sending it again changes nothing."""

    session: Name
    step: Name


class Given(_Said):
    """One answer."""

    row: Row
    label: Annotated[int, Field(ge=-1, lt=2**31)]
    action: Literal["yes", "no", "skip"]


class AnswerStep(Step):
    """The answers of one step."""

    answers: Annotated[list[Given], Field(min_length=1, max_length=MOST_TILES)]


class Session(_Said):
    """A screen."""

    session: Name


class Wanted(Session):
    """The next item: what was skipped up to row `again` of the history included."""

    again: Row = 0
    row: Row | None = None


class WantedPage(Session):
    """The next page of one class."""

    label: Row
    again: Row = 0
    size: Annotated[int, Field(ge=1, le=MOST_TILES)] = 24


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("plusone.review"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def make_app(desk: Desk, *, title: str, note: str = "", token: str, port: int) -> Guard:
    """The app behind its guard.

    Args:
        desk: What is reviewed.
        title: Heading of the page.
        note: A few words above it, such as the order of the questions.
        token: The secret that opens it.
        port: Where it will listen.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, title="plusone review")

    def page(mode: str) -> HTMLResponse:
        modes = ["items", "grid"] if isinstance(desk, SuggestionDesk) else []
        text = _templates().get_template(f"{mode}.html")
        words = {"mode": mode, "modes": modes, "title": title, "note": note}
        return HTMLResponse(text.render(words, version=__version__))

    @app.get("/", response_class=HTMLResponse)
    def start(request: Request) -> Response:
        if not token_given(request.url.query, token):
            return page(desk.mode)
        # A page that leads on, not a redirect: after a click elsewhere a browser would not send
        # a strict cookie along a redirect.
        reply = HTMLResponse(_templates().get_template("enter.html").render())
        reply.set_cookie(cookie_name(port), token, httponly=True, samesite="strict", path="/")
        return reply

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404)
        content = files("plusone.review").joinpath("static", name).read_bytes()
        return Response(content, headers={"content-type": STATIC[name]})

    @app.get("/image/{size}/{row}")
    def image(size: str, row: int) -> Response:
        made = desk.pictures.get(row, size) if size in SIDES else None
        if made is None:
            raise HTTPException(404)
        return Response(made[0], media_type=made[1])

    @app.post("/api/answer")
    def answer(said: AnswerStep) -> dict[str, Any]:
        desk.answer(said.session, said.step, [(a.row, a.label, a.action) for a in said.answers])
        return {"progress": desk.progress()}

    @app.post("/api/undo")
    def undo(said: Step) -> dict[str, Any]:
        taken = desk.undo(said.session, said.step)
        return {"undone": taken, "progress": desk.progress()}

    @app.post("/api/hold")
    def hold(said: Session) -> dict[str, Any]:
        desk.hold(said.session)
        return {"progress": desk.progress()}

    @app.post("/api/release")
    def release(said: Session) -> dict[str, Any]:
        desk.release(said.session)
        return {}

    if isinstance(desk, SuggestionDesk):
        _add_suggested(app, desk, page)
    if isinstance(desk, NewItemDesk):

        @app.post("/api/next")
        def next_question(wanted: Wanted) -> dict[str, Any]:
            return desk.next_question(wanted.session, wanted.again, wanted.row)

    _add_errors(app)
    return Guard(app, token, port)


def _add_suggested(app: FastAPI, desk: SuggestionDesk, page: Any) -> None:
    @app.get("/grid", response_class=HTMLResponse)
    def grid() -> HTMLResponse:
        shown: HTMLResponse = page("grid")
        return shown

    @app.get("/api/classes")
    def classes() -> dict[str, Any]:
        return {"classes": desk.classes()}

    @app.post("/api/next")
    def next_item(wanted: Wanted) -> dict[str, Any]:
        return desk.next_item(wanted.session, wanted.again, wanted.row)

    @app.post("/api/page")
    def next_page(wanted: WantedPage) -> dict[str, Any]:
        return desk.next_page(wanted.session, wanted.label, wanted.again, wanted.size)


def _add_errors(app: FastAPI) -> None:
    """Errors say what is wrong in a sentence, and repeat nothing of the request."""

    def sentence(status: int, text: str) -> JSONResponse:
        return JSONResponse({"error": text}, status_code=status)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return sentence(422, "the request is not of the right form")

    @app.exception_handler(UnknownQuestionError)
    def unknown(request: Request, error: UnknownQuestionError) -> JSONResponse:
        return sentence(404, "this is not asked here")

    @app.exception_handler(RunError)
    def failed(request: Request, error: RunError) -> JSONResponse:
        sys.stderr.write(f"plusone: {error}\n")
        return sentence(503, "the answer could not be kept; the terminal says why")
