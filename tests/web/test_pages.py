"""What the service serves of a built dashboard, and with which headers."""

from __future__ import annotations

import gzip
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from monitor.auth.middleware import access_of, public
from monitor.web.errors import errors
from monitor.web.static import FOLDER, PAGES, add_pages

SCRIPT = "console.log(1);\n" * 200
HTML = (
    '<!doctype html><meta property="csp-nonce" nonce="CSP_NONCE"><script src="/assets/index-1.js"></script>'
)
FIRST_LOAD_BYTES = 300_000  # of compressed JavaScript, before any page of its own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A build of a dashboard."""
    assets = tmp_path / "assets"
    assets.mkdir()
    (tmp_path / "index.html").write_text(HTML)
    (tmp_path / "docs.html").write_text(HTML.replace("index-1", "docs-1"))
    (tmp_path / "favicon.svg").write_text("<svg/>")
    (assets / "index-1.js").write_text(SCRIPT)
    (assets / "index-1.js.gz").write_bytes(gzip.compress(SCRIPT.encode()))
    (tmp_path / "secret.txt").write_text("not listed")
    return tmp_path


def pages_of(folder: Path) -> web.Application:
    app = web.Application(middlewares=[errors])
    add_pages(app, public, folder)
    return app


@pytest.fixture
async def client(folder: Path, aiohttp_client: Callable[..., Awaitable[Any]]) -> Any:
    return await aiohttp_client(pages_of(folder))


@pytest.mark.parametrize(
    "path", ["/", *(f"/{name}" for name in PAGES), "/containers/agent_1/abc%2Fdef", "/settings/keys"]
)
async def test_a_path_of_the_dashboard_shows_its_page(client: Any, path: str):
    response = await client.get(path)

    assert response.status == 200
    assert response.content_type == "text/html"
    assert "/assets/index-1.js" in await response.text()


async def test_docs_shows_the_pages_of_the_api(client: Any):
    assert "/assets/docs-1.js" in await (await client.get("/docs")).text()


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/missing",
        "/unknown",
        "/agents2",
        "/docs/more",
        "/assets/missing.js",
        "/assets/index-1.js.gz",
        "/assets/..%2Fsecret.txt",
        "/assets/../secret.txt",
        "/secret.txt",
        "/index.html",
    ],
)
async def test_another_path_is_not_found_in_json(client: Any, path: str):
    response = await client.get(path)

    assert response.status == 404
    assert await response.json() == {"error": "not_found"}


async def test_no_page_allows_inline_script_or_anything_of_others(client: Any):
    for path in ("/", "/docs"):
        response = await client.get(path)
        policy = dict(part.split(" ", 1) for part in response.headers["Content-Security-Policy"].split("; "))

        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
        assert policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in response.headers["Content-Security-Policy"]
        assert not re.search(r"https?:|\*", response.headers["Content-Security-Policy"])
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "same-origin"


async def test_each_answer_has_a_nonce_of_its_own_that_the_page_knows(client: Any):
    nonces = set()
    for _ in range(3):
        response = await client.get("/")
        [nonce] = re.findall(r"'nonce-([^']+)'", response.headers["Content-Security-Policy"])
        assert f'nonce="{nonce}"' in await response.text()
        assert response.headers["Cache-Control"] == "no-store"
        nonces.add(nonce)

    assert len(nonces) == 3
    assert all(len(nonce) >= 22 for nonce in nonces)


async def test_an_asset_is_kept_for_ever_and_comes_compressed_where_that_is_taken(client: Any):
    plain = await client.get("/assets/index-1.js", headers={"Accept-Encoding": "identity"})
    packed = await client.get("/assets/index-1.js", headers={"Accept-Encoding": "gzip"})

    assert await plain.text() == await packed.text() == SCRIPT
    assert plain.headers["Cache-Control"] == packed.headers["Cache-Control"]
    assert "immutable" in plain.headers["Cache-Control"]
    assert plain.content_type in ("text/javascript", "application/javascript")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) < len(SCRIPT)
    assert packed.headers["Vary"] == "Accept-Encoding"


async def test_without_a_build_there_are_no_pages(tmp_path: Path, aiohttp_client: Any):
    client = await aiohttp_client(pages_of(tmp_path))

    for path in ("/", "/login", "/docs"):
        response = await client.get(path)
        assert (response.status, await response.json()) == (404, {"error": "not_found"})


def test_every_page_is_open_to_everybody(folder: Path):
    kinds = {access_of(route.handler).kind for route in pages_of(folder).router.routes()}

    assert kinds == {"public"}


def test_the_first_load_is_small():
    index = FOLDER / "index.html"
    if not index.is_file():
        pytest.skip("the dashboard is not built (MONITOR_SKIP_WEB=1)")

    named = re.findall(r'(?:src|href)="/assets/([^"]+\.js)"', index.read_text("utf-8"))

    sizes = {name: len(gzip.compress((FOLDER / "assets" / name).read_bytes(), 9)) for name in named}
    assert sizes
    assert sum(sizes.values()) < FIRST_LOAD_BYTES, sizes
