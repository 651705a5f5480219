from __future__ import annotations

import base64

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from monitor.auth.credentials import agent_token, presented
from monitor.errors import Unauthorized

KEY = "mk_" + "k" * 40
TOKEN = "at_" + "t" * 40
BASIC = base64.b64encode(f"grafana:{KEY}".encode()).decode()


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], []),
        ([("Authorization", "Bearer a.b.c")], [("session", "a.b.c")]),
        ([("authorization", "bearer  a.b.c ")], [("session", "a.b.c")]),
        ([("Authorization", f"Bearer {KEY}")], [("session", KEY)]),
        ([("Authorization", f"Basic {BASIC}")], []),
        ([("Authorization", "Digest x")], []),
        ([("Cookie", "a=1; auth_token=a.b.c; b=2")], [("cookie", "a.b.c")]),
        ([("Cookie", 'auth_token="a.b.c"')], [("cookie", "a.b.c")]),
        ([("Cookie", "xauth_token=a.b.c; auth_tokenx=d")], []),
        ([("X-API-Key", KEY)], [("api_key", KEY)]),
        ([("X-API-Key", "")], [("api_key", "")]),
        (
            [("X-API-Key", KEY), ("Cookie", "auth_token=c"), ("Authorization", "Bearer s")],
            [("session", "s"), ("cookie", "c"), ("api_key", KEY)],
        ),
    ],
)
def test_credentials_come_in_the_order_in_which_they_count(pairs, expected):
    assert list(presented(headers(*pairs))) == expected


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (f"Bearer {KEY}", [("api_key", KEY)]),
        (f"Basic {BASIC}", [("api_key", KEY)]),
        (f"basic {BASIC}", [("api_key", KEY)]),
        ("Basic %%%", [("api_key", "")]),
        ("Basic /w==", [("api_key", "")]),
        ("Bearer a.b.c", [("session", "a.b.c")]),
    ],
)
def test_where_the_route_says_so_an_api_key_may_stand_in_authorization(authorization, expected):
    assert list(presented(headers(("Authorization", authorization)), api_key_bearer=True)) == expected


@pytest.mark.parametrize(
    "pairs",
    [
        [("Authorization", "Bearer a"), ("authorization", "Bearer a")],
        [("X-API-Key", KEY), ("x-api-key", KEY)],
        [("Cookie", "auth_token=a; auth_token=a")],
        [("Cookie", "auth_token=a"), ("Cookie", "b=1; auth_token=b")],
    ],
)
def test_a_credential_sent_twice_is_unauthorized(pairs):
    with pytest.raises(Unauthorized):
        list(presented(headers(*pairs)))


def test_an_agents_token_stands_in_authorization():
    assert agent_token(headers(("Authorization", f"Bearer {TOKEN}"))) == TOKEN


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("Authorization", TOKEN)],
        [("Authorization", f"Basic {TOKEN}")],
        [("Authorization", f"Bearer {KEY}")],
        [("Authorization", "Bearer at_short")],
        [("Authorization", f"Bearer {TOKEN}é")],
        [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}")],
        [("X-API-Key", TOKEN)],
        [("Cookie", f"auth_token={TOKEN}")],
    ],
)
def test_anything_else_is_no_agent(pairs):
    with pytest.raises(Unauthorized):
        agent_token(headers(*pairs))
