"""Parts that all pages of our servers have: the first page, static files."""

from __future__ import annotations

from importlib.resources import files

from fastapi import HTTPException, Response
from fastapi.responses import HTMLResponse

from plusone.web.guard import Keys

KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
ENTER = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0;url={path}">
<title>plusone {name}</title>
<link rel="icon" href="{path}static/icon.svg">
</head>
<body><p><a href="{path}">To the page</a></p></body>
</html>
"""


def enter_page(keys: Keys) -> HTMLResponse:
    """The reply to the address with the token: sets the cookie and leads to the page.

    It has a link instead of a redirect: browsers do not send a SameSite=Strict cookie with a
    redirect that follows a click on another site.
    """
    reply = HTMLResponse(ENTER.format(path=keys.path, name=keys.name))
    reply.set_cookie(
        keys.cookie_name, keys.cookie, httponly=True, samesite="strict", path=keys.path
    )
    return reply


def static_file(package: str, name: str) -> Response:
    """A file of the folder `static` of a package, or of this one; 404 if there is none."""
    for owner in (package, "plusone.web"):
        for file in files(owner).joinpath("static").iterdir():
            if file.name == name:
                kind = KINDS[name[name.rfind(".") :]]
                return Response(file.read_bytes(), headers={"content-type": kind})
    raise HTTPException(404)
