"""Access to the review server: only the user who started it, and only from its own page.

| threat | protection |
| --- | --- |
| other computers | the server listens on 127.0.0.1 only |
| other people on this computer | a random token, in the address once, then path and cookie |
| other servers on this computer: cookies ignore ports | the cookie is limited to a random path |
| another site that sends requests (CSRF) | SameSite=Strict, Origin, Sec-Fetch-Site, JSON only |
| another site's name that resolves to this computer (DNS rebinding) | Host must be ours |
| script in the name of a class or a file | escaped; only our own script file may run (CSP) |
| the page inside another page | frame-ancestors 'none' |
| the token in a link's referrer, a log, a cache | no referrer, no access log, no-store |
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 65_536

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Keys:
    """What a server is opened with: drawn at random when it starts, worthless when it ends.

    Browsers send a cookie to every port of a computer, so the cookie is limited to a path that
    other servers do not know, and the token opens nothing without being in the address.

    Args:
        port: Port of the server.
        token: In the address that the user opens.
        folder: First part of all paths after that.
        cookie: Value of the cookie.
    """

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    folder: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie_name(self) -> str:
        """The name of the cookie, which contains the port."""
        return f"plusone_review_{self.port}"

    @property
    def path(self) -> str:
        """The path of the page, to which the cookie is limited."""
        return f"/{self.folder}/"


def refusal(
    method: str, path: str, query: str, headers: Mapping[str, str], keys: Keys
) -> tuple[int, str] | None:
    """Why a request is refused, as a status and a sentence; None if it may pass.

    Args:
        method: HTTP method.
        path: Path without query.
        query: The query string.
        headers: Names in lower case.
        keys: The secrets.
    """
    hosts = (f"127.0.0.1:{keys.port}", f"localhost:{keys.port}")
    host = headers.get("host", "")
    if host not in hosts:
        return 421, "unknown host"
    if method not in ("GET", "HEAD", "POST"):
        return 405, "only GET and POST are supported"
    if method != "POST" and path == "/" and _token_given(query, keys.token):
        return None
    own_path = _same(path[: len(keys.path)], keys.path)
    if not own_path or not _same(_cookie(headers.get("cookie", ""), keys.cookie_name), keys.cookie):
        return 403, "open the address that plusone review printed; it contains the access token"
    site = headers.get("sec-fetch-site", "same-origin")
    if site not in (("same-origin",) if method == "POST" else ("same-origin", "none")):
        return 403, "requests from other sites are refused"
    return _post_refusal(headers, host) if method == "POST" else None


def _token_given(query: str, token: str) -> bool:
    """Whether the address has the right token in it."""
    try:
        given = parse_qs(query, max_num_fields=4).get("token", [])
    except ValueError:
        return False
    return len(given) == 1 and _same(given[0], token)


def _post_refusal(headers: Mapping[str, str], host: str) -> tuple[int, str] | None:
    if headers.get("origin") != f"http://{host}":
        return 403, "requests from other sites are refused"
    if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return 415, "the body must be JSON"
    length = headers.get("content-length", "")
    if not (length.isascii() and length.isdigit()):
        return 411, "the request needs a content length"
    if len(length) > 9 or int(length) > MAX_BODY:
        return 413, f"the body must not be longer than {MAX_BODY} bytes"
    return None


def _cookie(text: str, name: str) -> str:
    try:
        cookie = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode("utf-8"))


class Guard:
    """Middleware that rejects requests by `refusal` and adds the headers to every reply.

    The app sees paths without the secret folder; `/enter` stands for the address with the token.

    Args:
        app: The app.
        keys: The secrets.
    """

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self.app = app
        self.keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(k, v) for k, v in message["headers"] if k.decode("latin-1") not in HEADERS]
                ours = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [*own, *ours]
            await send(message)

        raw = [(k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in scope["headers"]]
        headers = dict(raw)
        why = refusal(
            scope["method"],
            scope["path"],
            scope["query_string"].decode("latin-1"),
            headers,
            self.keys,
        )
        if why is None and sum(name == "host" for name, _ in raw) != 1:
            why = 400, "a request must have exactly one host"
        if why is None:
            path = scope["path"]
            inner = "/enter" if path == "/" else path[len(self.keys.path) - 1 :]
            await self.app({**scope, "path": inner}, receive, guarded)
            return
        status, sentence = why
        body = sentence.encode()
        kind = [(b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", str(len(body)).encode())]  # fmt: skip
        await guarded({"type": "http.response.start", "status": status, "headers": kind})
        await guarded({"type": "http.response.body", "body": body})
