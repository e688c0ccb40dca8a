"""Serving the review page on this computer alone."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from tempfile import mkstemp
from threading import Timer, current_thread, main_thread

import uvicorn

from plusone.errors import InputError
from plusone.review.app import make_app
from plusone.review.desk import Desk

HOST = "127.0.0.1"


@dataclass(frozen=True)
class ReviewServer:
    """A server that is bound to its port and not yet running.

    Args:
        url: The address to open, with the key in it.
        port: Its port.
    """

    url: str
    port: int
    _server: uvicorn.Server
    _socket: socket.socket

    def run(self, stop_after: float | None = None) -> None:
        """Serves until Ctrl-C, `stop`, or so many seconds."""
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
    """Makes Ctrl-C end the server, not break into it, from its first moment to its last."""
    if current_thread() is not main_thread():  # where signals do not arrive
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def make_server(desk: Desk, *, title: str, note: str = "", port: int = 0) -> ReviewServer:
    """Binds a server for a review.

    Args:
        desk: What is reviewed.
        title: Heading of the page.
        note: A few words above it, such as the order of the questions.
        port: Where to listen; 0 takes a free port.
    """
    # The protocol is named because asyncio sends small replies at once only if it is.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        raise InputError(f"port {port} {why}; choose another --port, or 0 for any") from None
    port = int(listener.getsockname()[1])
    token = secrets.token_urlsafe(32)
    config = uvicorn.Config(
        make_app(desk, title=title, note=note, token=token, port=port),
        access_log=False,  # it would hold the token
        log_level="error",
        http="h11",
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=16_384,
        limit_concurrency=200,
        timeout_graceful_shutdown=2,
    )
    url = f"http://{HOST}:{port}/?token={token}"
    return ReviewServer(url, port, uvicorn.Server(config), listener)


@contextmanager
def opened_in_browser(url: str, beside: Path) -> Iterator[None]:
    """Opens the address in the person's browser, where there is a screen for it.

    The browser is given a file that leads to the address, readable by nobody else: what is on a
    command line everybody on the computer can read, and the address has the key in it.
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
