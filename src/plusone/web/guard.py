"""Access to a server: only with its token, and in a browser only from its own page.

| threat | protection |
| --- | --- |
| other computers | the server listens on 127.0.0.1 only, unless the user says otherwise |
| other people on this computer | a random token; in a browser it becomes path and cookie |
| other servers on this computer: cookies ignore ports | the cookie is limited to a random path |
| another site that sends requests (CSRF) | SameSite=Strict, Origin, Sec-Fetch-Site, JSON only |
| another site's name that resolves to this computer (DNS rebinding) | Host must be ours |
| script in the name of a class or a file | escaped; only our own script file may run (CSP) |
| the page inside another page | frame-ancestors 'none' |
| the token in a link's referrer, a log, a cache | no referrer, no access log, no-store |
"""

from __future__ import annotations

import hmac
import json
import secrets
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_HEADERS = 16_384
_HEADERS = {
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
HEADERS = {name.encode(): value.encode() for name, value in _HEADERS.items()}


@dataclass(frozen=True)
class Keys:
    """What a server is opened with: drawn at random when it starts, but for a token of the user.

    Browsers send a cookie to every port of a computer, so the cookie is limited to a path that
    other servers do not know, and the token opens nothing without being in the address.

    Args:
        name: Of the command, in the name of the cookie.
        host: Its address, as in a URL.
        token: In the address that the user opens.
        folder: First part of all paths after that.
    """

    name: str
    port: int
    host: str = "127.0.0.1"
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    folder: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie_name(self) -> str:
        """The name of the cookie, which contains the port."""
        return f"plusone_{self.name}_{self.port}"

    @property
    def path(self) -> str:
        """The path of the page, to which the cookie is limited."""
        return f"/{self.folder}/"

    @property
    def address(self) -> str:
        """The address of the server, without the token."""
        return f"http://{self.host}:{self.port}"

    @property
    def page(self) -> str:
        """The address to open in a browser, with the token."""
        return f"{self.address}/?token={quote(self.token, safe='')}"


@dataclass(frozen=True)
class Rules:
    """What a server accepts.

    Args:
        refused: Status and sentence for requests without the key.
        max_body: Longest body, in bytes.
        programs: Whether programs may use it: with the token as `Authorization: Bearer`, on paths
            without the secret folder. Refusals are JSON then, and bodies need not be: the app looks
            at their type.
        basic: Whether programs may also send the token as the password of HTTP Basic
            authentication, with any user.
        any_host: Whether it answers to any host name, also behind a proxy with TLS; one that
            listens beyond this computer does not know its names.
        public: Paths that need no key.
    """

    refused: tuple[int, str]
    max_body: int
    programs: bool = False
    basic: bool = False
    any_host: bool = False
    public: frozenset[str] = frozenset()


class RefusedError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def inner_path(
    method: str, path: str, query: str, headers: Mapping[str, str], keys: Keys, rules: Rules
) -> str:
    """The path that the app sees of a request that may pass; `RefusedError` for others."""
    host = headers.get("host", "")
    if not rules.any_host and host not in (f"{keys.host}:{keys.port}", f"localhost:{keys.port}"):
        raise RefusedError(421, "unknown host")
    if method not in ("GET", "HEAD", "POST"):
        raise RefusedError(405, "only GET and POST are supported")
    if method != "POST" and path in rules.public:
        return path
    if method != "POST" and path == "/" and _token_given(query, keys.token):
        return "/enter"
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if rules.basic and scheme.lower() == "basic" and "sec-fetch-site" not in headers:
        # Browsers remember passwords and add them to requests of any site; these are no programs.
        scheme, given = "bearer", _password(given)
    if rules.programs and scheme.lower() == "bearer" and _same(given, keys.token):
        # No page of another site can send this header: browsers ask first (OPTIONS).
        if method == "POST":
            _check_body(headers, rules)
        return path
    own_path = _same(path[: len(keys.path)], keys.path)
    if not own_path or not _same(_cookie(headers.get("cookie", ""), keys.cookie_name), keys.cookie):
        raise RefusedError(*rules.refused)
    site = headers.get("sec-fetch-site", "same-origin")
    if site not in (("same-origin",) if method == "POST" else ("same-origin", "none")):
        raise RefusedError(403, "requests from other sites are refused")
    if method == "POST":
        schemes = ("http", "https") if rules.any_host else ("http",)
        if headers.get("origin") not in [f"{scheme}://{host}" for scheme in schemes]:
            raise RefusedError(403, "requests from other sites are refused")
        _check_body(headers, rules)
    return path[len(keys.path) - 1 :]


def _token_given(query: str, token: str) -> bool:
    try:
        given = parse_qs(query, max_num_fields=4).get("token", [])
    except ValueError:
        return False
    return len(given) == 1 and _same(given[0], token)


def _password(given: str) -> str:
    """The password of HTTP Basic authentication."""
    try:
        return b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:  # neither base64 nor UTF-8
        return ""


def _check_body(headers: Mapping[str, str], rules: Rules) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if not rules.programs and kind != "application/json":
        raise RefusedError(415, "the body must be JSON")
    length = headers.get("content-length", "")
    if "transfer-encoding" in headers:  # it would overrule the length
        raise RefusedError(411, "the request needs a content length, not a transfer encoding")
    if not (length.isascii() and length.isdigit()):
        raise RefusedError(411, "the request needs a content length")
    if len(length) > 12 or int(length) > rules.max_body:
        raise RefusedError(413, f"the body must not be longer than {rules.max_body} bytes")


def _cookie(text: str, name: str) -> str:
    try:
        cookie = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return "" if cookie is None else cookie.value


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode("utf-8"))


class Guard:
    """Middleware that rejects requests by `inner_path` and adds the headers to every reply.

    The app sees paths without the secret folder; `/enter` stands for the address with the token.
    """

    def __init__(self, app: ASGIApp, keys: Keys, rules: Rules) -> None:
        self.app = app
        self.keys = keys
        self.rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(k, v) for k, v in message["headers"] if k not in HEADERS]
                message["headers"] = [*own, *HEADERS.items()]
            await send(message)

        raw = [(k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in scope["headers"]]
        query = scope["query_string"].decode("latin-1")
        try:
            path = inner_path(
                scope["method"], scope["path"], query, dict(raw), self.keys, self.rules
            )
            if sum(name == "host" for name, _ in raw) != 1:
                raise RefusedError(400, "a request must have exactly one host")
            if sum(len(name) + len(value) for name, value in raw) > MAX_HEADERS:
                raise RefusedError(431, f"the headers must not be longer than {MAX_HEADERS} bytes")
        except RefusedError as error:
            await self._refuse(error, guarded)
        else:
            await self.app({**scope, "path": path}, receive, guarded)

    async def _refuse(self, error: RefusedError, send: Send) -> None:
        body, kind = error.sentence.encode(), b"text/plain; charset=utf-8"
        if self.rules.programs:
            body, kind = json.dumps({"error": error.sentence}).encode(), b"application/json"
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        headers.append((b"connection", b"close"))  # it would take the place of others
        if error.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await send({"type": "http.response.start", "status": error.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
