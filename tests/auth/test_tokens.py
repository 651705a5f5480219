from __future__ import annotations

import re
from typing import Any

import jwt
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.auth import tokens

NEW, OLD = "n" * 32, "o" * 32
NOW = 1_900_000_000.5


def issued(*keys: str, now: float = NOW, not_before: int = 0) -> str:
    return tokens.issue(
        keys or (NEW,),
        user_id="user_1",
        org_id="org_1",
        role="admin",
        plan="pro",
        now=now,
        not_before=not_before,
    )


def signed(key: str = NEW, algorithm: str = "HS256", **claims: Any) -> str:
    given = {"sub": "user_1", "org_id": "org_1", "exp": int(NOW) + 60} | claims
    return jwt.api_jws.encode(
        msgspec.json.encode({name: value for name, value in given.items() if value is not None}),
        key if algorithm != "none" else None,
        algorithm=algorithm,
    )


def test_a_session_carries_the_documented_claims():
    claims = jwt.decode(issued(), NEW, algorithms=["HS256"], options={"verify_iat": False})

    assert claims.pop("jti")
    assert claims == {
        "sub": "user_1",
        "org_id": "org_1",
        "role": "admin",
        "plan": "pro",
        "iat": int(NOW),
        "exp": int(NOW) + 24 * 3600,
    }


def test_a_session_lives_for_24_hours():
    token = issued(now=NOW)

    assert tokens.verify(token, (NEW,), int(NOW) + 24 * 3600 - 0.1) is not None
    assert tokens.verify(token, (NEW,), int(NOW) + 24 * 3600) is None


def test_the_first_secret_signs_and_all_verify():
    token = issued(NEW, OLD)

    assert tokens.verify(token, (NEW,), NOW) is not None
    assert tokens.verify(token, ("x" * 32, NEW), NOW) is not None
    assert tokens.verify(token, (OLD,), NOW) is None


def test_a_session_is_never_older_than_the_last_change_of_the_password():
    session = tokens.verify(issued(not_before=int(NOW) + 7), (NEW,), NOW)

    assert session is not None
    assert session.iat == int(NOW) + 7


def test_a_session_issued_by_a_clock_that_is_ahead_is_good():
    assert tokens.verify(issued(now=NOW + 3600), (NEW,), NOW) is not None


@pytest.mark.parametrize(
    "token",
    [
        signed(algorithm="none"),
        signed(algorithm="HS512", key="n" * 64),
        signed(key="m" * 32),
        signed(exp=int(NOW)),
        signed(exp=None),
        signed(exp=str(int(NOW) + 60)),
        signed(exp=True),
        signed(sub=None),
        signed(sub=7),
        signed(sub=""),
        signed(org_id=None),
        signed(org_id=7),
        signed(org_id=["org_1"]),
        signed(org_id=""),
        signed(org_id="a\0b"),
        signed(jti=7),
        issued()[:-4] + "AAAA",
        "",
        "a.b.c",
        "é.é.é",
    ],
)
def test_a_token_that_is_not_quite_right_is_none(token):
    assert tokens.verify(token, (NEW, OLD), NOW) is None


def test_a_token_with_only_the_required_claims_is_good():
    session = tokens.verify(signed(), (NEW,), NOW)

    assert session is not None
    assert (session.iat, session.jti) == (0, "")


@given(st.text() | st.from_regex(r"\A[\w-]*\.[\w-]*\.[\w-]*\Z"))
def test_no_text_is_a_session_or_an_exception(text):
    assert tokens.verify(text, (NEW, OLD), NOW) is None


def test_secrets_have_the_documented_forms_and_are_never_the_same():
    assert tokens.API_KEY.fullmatch(tokens.new_api_key())
    assert tokens.AGENT_TOKEN.fullmatch(tokens.new_agent_token())
    assert re.fullmatch(r"org_[A-Za-z0-9_-]{16,59}", tokens.new_id("org"))
    assert len({tokens.new_api_key() for _ in range(100)}) == 100
    assert len(tokens.one_time_password()) >= 12


def test_the_shown_prefix_tells_keys_apart_and_gives_nothing_away():
    key = tokens.new_api_key()

    assert key.startswith(tokens.shown_prefix(key))
    assert len(key) - len(tokens.shown_prefix(key)) >= 32
