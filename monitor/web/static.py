"""The dashboard's pages, from ``monitor/static``, where the build has put them.

A page is one HTML file for a closed list of paths; what it loads lies below
``/assets`` under names that change with the content, so browsers keep it for ever.
Nothing is executed or loaded but what this service serves: the policy allows no
inline script, and inline style only with the page's own nonce, which the style
sheets that the editor and the components make at run time carry.

Where nothing was built the service has no pages and answers 404, as for any path.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from aiohttp import web

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

FOLDER = Path(__file__).parents[1] / "static"
NONCE = "CSP_NONCE"  # stands in the HTML where the page's nonce goes (dashboard/vite.config.ts)
NONCE_BYTES = 16  # 128 bits, as the CSP specification asks for

# First parts of the paths that the dashboard shows itself; anything else stays a 404 of the API.
PAGES = (
    "login",
    "password",
    "agents",
    "containers",
    "pods",
    "nodes",
    "logs",
    "tail",
    "alerts",
    "scaling",
    "explore",
    "settings",
)

IMMUTABLE = "public, max-age=31536000, immutable"  # a year: the name changes with the content
SHORTLY = "public, max-age=3600"  # an hour, for the one file without such a name
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'nonce-{nonce}'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def add_pages(app: web.Application, public: Callable[[Handler], Handler], folder: Path = FOLDER) -> None:
    """Add the routes of the dashboard and of ``/docs``, if *folder* holds a build.

    Files are listed once: what is not there at the start is never served.

    Args:
        app: The application.
        public: Marks a handler as open to everybody; it is a matter of the layer above.
        folder: Where the build has put its files.
    """
    index, docs = folder / "index.html", folder / "docs.html"
    if not index.is_file():
        return
    show_index = public(_page(index.read_text("utf-8")))
    app.router.add_get("/", show_index)
    for name in PAGES:
        app.router.add_get(f"/{name}", show_index)
        app.router.add_get(f"/{name}/{{rest:.+}}", show_index)
    app.router.add_get("/docs", public(_page(docs.read_text("utf-8"))))
    app.router.add_get("/assets/{name}", public(_assets(folder / "assets")))
    app.router.add_get("/favicon.svg", public(_file(folder / "favicon.svg")))


def _page(html: str) -> Handler:
    async def page(request: web.Request) -> web.Response:
        """Show a page of the dashboard, with a nonce of its own."""
        nonce = secrets.token_urlsafe(NONCE_BYTES)
        return web.Response(
            text=html.replace(NONCE, nonce),
            content_type="text/html",
            headers={
                **HEADERS,
                "Cache-Control": "no-store",  # the nonce is for this answer alone
                "Content-Security-Policy": POLICY.format(nonce=nonce),
            },
        )

    return page


def _assets(folder: Path) -> Handler:
    files = {path.name: path for path in folder.iterdir() if path.suffix not in {".br", ".gz"}}

    async def asset(request: web.Request) -> web.StreamResponse:
        """Send a script, a style sheet or an image of the dashboard."""
        path = files.get(request.match_info["name"])
        if path is None:
            raise web.HTTPNotFound
        return _sent(path, IMMUTABLE)

    return asset


def _file(path: Path) -> Handler:
    async def file(request: web.Request) -> web.StreamResponse:
        """Send one file of the dashboard."""
        return _sent(path, SHORTLY)

    return file


def _sent(path: Path, caching: str) -> web.FileResponse:
    # A compressed sibling, .br or .gz, goes out in its place where the client takes it.
    headers = {**HEADERS, "Cache-Control": caching, "Vary": "Accept-Encoding"}
    return web.FileResponse(path, headers=headers)
