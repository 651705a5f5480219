"""Requests, headers and paths that no honest client sends: refused as documented, never with a 500."""

from __future__ import annotations

import json

import pytest

from tests.raw_http import request_head, sent_raw

UNAUTHORIZED = {"error": "unauthorized"}


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key", "Cookie"])
async def test_a_credential_sent_twice_is_unauthorized(api, admin, agent, app, name):
    def value(secret: str) -> str:
        return {"Authorization": f"Bearer {secret}", "Cookie": f"auth_token={secret}"}.get(name, secret)

    secret = api.secret if name == "X-API-Key" else admin.secret
    token = agent.api.secret
    body = b'{"name":"a","type":"docker","version":"1"}'
    length = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    twice = f"{name}: {value(secret)}".encode()
    of_agent = f"{name}: {value(token)}".encode()
    requests = [
        request_head("GET", "/api/v1/containers", {}, twice, twice),
        request_head("GET", "/prometheus/api/v1/labels", {}, twice, twice),
        request_head("POST", "/api/v1/agents/register", length, twice, twice) + body,
        request_head("POST", f"{agent.path}/push", length, of_agent, of_agent) + body,
    ]

    for data in requests:
        [answer] = await sent_raw(app.base_url, data)
        assert (answer.status, json.loads(answer.body)) == (401, UNAUTHORIZED)
    [once] = await sent_raw(app.base_url, request_head("GET", "/api/v1/containers", {}, twice))
    assert once.status == 200


@pytest.mark.parametrize(
    "part",
    [
        "a%2Fb",
        "a%00b",
        "%00",
        "a%0d%0ab",
        "%0d%0aX-Injected:%201",
        "%ff%fe",
        "%ED%A0%80",
        "..%2f..",
        "%25",
        "%",
        "a" * 5000 + ".",
    ],
)
async def test_a_strange_id_in_a_path_is_nobodys(admin, agent, app, part):
    for method, path, headers in (
        ("DELETE", f"/api/v1/agents/{part}", admin.headers),
        ("DELETE", f"/api/v1/settings/api-keys/{part}", admin.headers),
        ("DELETE", f"/api/v1/settings/users/{part}", admin.headers),
    ):
        [answer] = await sent_raw(app.base_url, request_head(method, path, headers))
        assert (answer.status, answer.error) == (404, "not_found"), path
        assert "x-injected" not in answer.headers

    label = f"/prometheus/api/v1/label/{part}/values"
    [answer] = await sent_raw(app.base_url, request_head("GET", label, admin.headers))
    assert answer.status in (400, 404)
    assert answer.error

    push = request_head("POST", f"/api/v1/agents/{part}/push", {**agent.api.headers, "Content-Length": "2"})
    [answer] = await sent_raw(app.base_url, push + b"{}")
    assert answer.status in (401, 404)
    assert answer.error


@pytest.mark.parametrize(
    "value", ["metric=%ff", "metric=%ED%A0%80", "metric=a%00", "%ff=1", "metric=a%0d%0ab"]
)
async def test_a_query_that_is_no_text_is_refused(api, app, value):
    [answer] = await sent_raw(
        app.base_url, request_head("GET", f"/api/v1/metrics/instant?{value}", api.headers)
    )

    assert answer.status == 400
    assert answer.error


@pytest.mark.parametrize(
    "name", ["Authorization", "Cookie", "X-API-Key", "X-Request-Id", "Accept-Encoding", "Origin"]
)
@pytest.mark.parametrize("value", [b"\xff\xfe", b"\xed\xa0\x80", b"a\tb", b"=" * 4000])
async def test_a_header_that_is_no_text_never_breaks_anything(api, app, name, value):
    head = request_head("GET", "/api/v1/containers", {}, name.encode() + b": " + value)
    [alone] = await sent_raw(app.base_url, head)
    assert (alone.status, alone.error) == (401, "unauthorized")

    if name != "X-API-Key":
        head = request_head("GET", "/api/v1/containers", api.headers, name.encode() + b": " + value)
        [beside] = await sent_raw(app.base_url, head)
        assert beside.status == 200


async def test_pipelined_requests_are_answered_in_their_order(api, app):
    paths = ["/healthz", "/api/v1/containers", "/api/v1/missing", "/api/v1/me", "/healthz"]
    data = b"".join(request_head("GET", path, api.headers) for path in paths)

    answers = await sent_raw(app.base_url, data, answers=len(paths))

    assert [answer.status for answer in answers] == [200, 200, 404, 200, 200]
    assert json.loads(answers[3].body)["orgId"] == api.org_id


async def test_a_request_hidden_in_a_body_is_not_answered(agent, api, app):
    hidden = request_head("GET", "/api/v1/me", api.headers)
    headers = {**agent.api.headers, "Content-Length": str(len(hidden)), "Content-Type": "application/json"}
    data = request_head("POST", f"{agent.path}/push", headers) + hidden + request_head("GET", "/healthz", {})

    push, health = await sent_raw(app.base_url, data, answers=2)

    assert (push.status, push.error) == (400, "body: not valid JSON at byte 0")
    assert json.loads(health.body) == {"status": "ok"}


# Found out by the parser, before there is a request: the documented exception to the JSON bodies.
MALFORMED = {
    "a chunk size that is no number": (b"Transfer-Encoding: chunked", b"zz\r\n{}\r\n0\r\n\r\n"),
    "a negative chunk size": (b"Transfer-Encoding: chunked", b"-2\r\n{}\r\n0\r\n\r\n"),
    "a chunk longer than it says": (b"Transfer-Encoding: chunked", b"1\r\n{}\r\n0\r\n\r\n"),
    "chunked and a length": (b"Transfer-Encoding: chunked\r\nContent-Length: 2", b"2\r\n{}\r\n0\r\n\r\n"),
    "two lengths": (b"Content-Length: 2\r\nContent-Length: 3", b"{}"),
    "a length that is no number": (b"Content-Length: two", b"{}"),
    "a negative length": (b"Content-Length: -2", b"{}"),
    "chunked twice": (b"Transfer-Encoding: chunked, chunked", b"2\r\n{}\r\n0\r\n\r\n"),
    "a header without a colon": (b"nonsense", b""),
    "NUL in a header": (b"X-A: a\x00b", b""),
    "a space before the colon": (b"X-A : a", b""),
    "a folded header": (b"X-A: a\r\n b", b""),
    "a header of 64 KiB": (b"X-A: " + b"a" * 65536, b""),
}


@pytest.mark.parametrize(("header", "body"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_what_is_no_http_is_400_and_tells_nothing_of_the_inside(agent, app, header, body):
    head = request_head("POST", f"{agent.path}/push", agent.api.headers, header)

    [answer] = await sent_raw(app.base_url, head + body)

    assert answer.status == 400
    assert b"Traceback" not in answer.body
    assert b".py" not in answer.body


@pytest.mark.parametrize(
    "line",
    [
        b"GET",
        b"GET /healthz HTTP/9.9",
        b"G\xffT /healthz HTTP/1.1",
        b"BREW /healthz HTTP/1.1",
        b"GET /\0 HTTP/1.1",
        b"GET /api/v1/metrics/instant?metric=\xff\xfe HTTP/1.1",
        b"\x16\x03\x01",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1",
    ],
    ids=[
        "no path",
        "an unknown version",
        "a method of bytes",
        "a method of no RFC",
        "NUL",
        "a query of bytes",
        "TLS",
        "64 KiB",
    ],
)
async def test_a_first_line_that_is_no_http_is_400(app, line):
    [answer] = await sent_raw(app.base_url, line + b"\r\nHost: monitor\r\n\r\n")

    assert answer.status == 400
    assert b"Traceback" not in answer.body


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("TRACE", "/api/v1/containers", 405),
        ("OPTIONS", "/api/v1/containers", 405),
        ("OPTIONS", "*", 404),
        ("GET", "http://elsewhere.example/api/v1/missing", 404),
        ("GET", "/api/v1/../../etc/passwd", 404),
        ("GET", "//api/v1/containers", 404),
        ("GET", "/api/v1/containers;x=1", 404),
        ("GET", "/healthz/%2e%2e/api/v1/me", 404),
    ],
)
async def test_a_strange_method_or_target_is_refused_in_json(api, app, method, target, status):
    [answer] = await sent_raw(app.base_url, request_head(method, target, api.headers))

    assert answer.status == status
    assert answer.error
    if status == 405:
        assert answer.headers["allow"] == "GET,HEAD"


async def test_an_expectation_other_than_100_continue_is_417(agent, app):
    headers = {**agent.api.headers, "Expect": "the impossible", "Content-Length": "2"}

    [answer] = await sent_raw(app.base_url, request_head("POST", f"{agent.path}/push", headers) + b"{}")

    assert answer.status == 417
    assert answer.body == b"Unknown Expect: the impossible"
