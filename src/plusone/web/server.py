"""A web server in this process: bound to its port first, then running until it is stopped."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer, current_thread, main_thread
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from plusone.errors import InputError
from plusone.web.guard import HEADERS, MAX_HEADERS, Keys

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

CONNECTIONS = 200  # open at a time
REQUEST_SECONDS = 10.0  # for a request to arrive, unless a body comes at the least rate
LEAST_RATE = 20_000  # bytes per second; one read of a busy server (256 kB) is enough for 10 seconds


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small replies at once (TCP_NODELAY) only if the protocol is given.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise InputError(f"{host} is no address of this computer; choose another") from None
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error})"
        raise InputError(f"port {port} {why}; choose another --port, or 0 for any") from None
    return listener


def open_port(
    name: str, host: str, port: int, token: str | None = None
) -> tuple[socket.socket, Keys, bool]:
    """A socket that listens for a command, its keys, and whether it is on this computer alone.

    Raises:
        InputError: The host is no IP address, or lets other computers in without a token.
    """
    host = "127.0.0.1" if host == "localhost" else host
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise InputError(f"--host {host!r} is not an IP address, such as 127.0.0.1") from None
    if not local and token is None:
        raise InputError(
            f"--host {host} lets other computers in, so the service needs a token that you choose: "
            'python -c "import secrets; print(secrets.token_urlsafe(32))" > token && '
            "chmod 600 token, then --token-file token"
        )
    listener = bind(host, port)
    address = f"[{host}]" if ":" in host else host
    given = {} if token is None else {"token": token}
    return listener, Keys(name, int(listener.getsockname()[1]), address, **given), local


class Server:
    """A server that is bound to its port and not yet running."""

    def __init__(
        self,
        app: ASGIApp,
        keys: Keys,
        listener: socket.socket,
        *,
        grace: int = 2,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.keys = keys
        self._socket = listener
        self._at_end = at_end
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                access_log=False,  # it would contain the token
                log_level="error",
                http=_TimedProtocol,
                ws="none",
                lifespan="off",
                proxy_headers=False,
                server_header=False,
                h11_max_incomplete_event_size=MAX_HEADERS,  # of what arrives in several pieces
                timeout_graceful_shutdown=grace,
            )
        )

    @property
    def url(self) -> str:
        """The address to open, including the token."""
        return self.keys.page

    @property
    def local(self) -> bool:
        """Whether it listens on this computer alone."""
        return ipaddress.ip_address(self._socket.getsockname()[0]).is_loopback

    @property
    def port(self) -> int:
        """Its port."""
        return self.keys.port

    def run(self, stop_after: float | None = None) -> None:
        """Serves until Ctrl-C, SIGTERM, `stop`, or `stop_after` seconds."""
        timer = Timer(stop_after, self.stop) if stop_after is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            with _stopped_by_signals(self.stop):
                self._server.run(sockets=[self._socket])
        finally:
            if timer is not None:
                timer.cancel()
            self._socket.close()
            self._at_end()

    def stop(self) -> None:
        """Ends `run`, from any thread."""
        self._server.should_exit = True


@contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Makes Ctrl-C and SIGTERM stop the server cleanly, including while it starts and ends."""
    if current_thread() is not main_thread():  # signals arrive in the main thread only
        yield
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, frame: stop()) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    """The reply where every connection is at work."""
    body = b'{"error": "too many connections; try again"}'
    own = {b"content-type": b"application/json", b"content-length": str(len(body)).encode()}
    headers = HEADERS | own | {b"retry-after": b"1", b"connection": b"close"}
    await send({"type": "http.response.start", "status": 503, "headers": [*headers.items()]})
    await send({"type": "http.response.body", "body": body})


class _TimedProtocol(H11Protocol):
    """HTTP that closes a connection whose request stays incomplete, or whose reply is not read.

    Otherwise a few hundred connections that never say what they want would block the others. A long
    body has as much time as it needs while the app waits for it and it comes at the least rate.
    Where there are too many connections, a new one takes the place of the oldest that is not at
    work, so that whoever has the token is heard.
    """

    _patience: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None  # while the other side does not read
    _arrived = 0  # bytes since the time was started
    _ended = False  # to make room for another

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) > CONNECTIONS:
            others = (one for one in self.connections if isinstance(one, _TimedProtocol))
            idle = [one for one in others if one is not self and one.idle]
            if idle:
                oldest = min(idle, key=lambda one: one._since)
                oldest._ended = True
                oldest.transport.abort()
            elif sum(not getattr(one, "_ended", False) for one in self.connections) > CONNECTIONS:
                self.app = _busy
        self._wait()

    @property
    def idle(self) -> bool:
        """Whether no request of it is being answered, or nobody reads the answer."""
        answered = self.cycle is None or self.cycle.response_complete
        return not self._ended and (answered or self._unread is not None)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._arrived += len(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._patience, self._unread):
            if timer is not None:
                timer.cancel()

    def _wait(self) -> None:
        """Starts the time for a request, or ends it if the request is complete."""
        incomplete = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if incomplete and self._patience is None:
            self._arrived = 0
            self._patience = self.loop.call_later(REQUEST_SECONDS, self._look)
        elif not incomplete and self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _look(self) -> None:
        """Starts the time again for a body that arrives fast enough; closes other connections."""
        self._patience = None
        awaited = self.cycle is not None and not self.cycle.response_complete
        if awaited and self._arrived >= LEAST_RATE * REQUEST_SECONDS:
            self._wait()
        else:
            self.transport.abort()
