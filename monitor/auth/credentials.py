"""Read the credentials out of a request's headers; pure.

Nothing is looked up here: what comes out is only what the caller claims.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Literal, NamedTuple

from multidict import CIMultiDictProxy

from monitor.auth.tokens import AGENT_TOKEN
from monitor.errors import Unauthorized

COOKIE = "auth_token"
API_KEY_HEADER = "X-API-Key"


class Credential(NamedTuple):
    """One presented credential, not yet checked."""

    kind: Literal["session", "cookie", "api_key"]
    text: str


def presented(headers: CIMultiDictProxy[str], *, api_key_bearer: bool = False) -> Iterator[Credential]:
    """Yield a tenant's credentials in the order in which they count.

    ``Authorization``, then the cookie, then ``X-API-Key``.

    Args:
        headers: The request's headers.
        api_key_bearer: An API key may also stand in ``Authorization``: as Bearer or
            as Basic password of any user.

    Raises:
        Unauthorized: One of them was sent twice.
    """
    authorization = single(headers, "Authorization")
    cookies = _cookies(headers)
    api_key = single(headers, API_KEY_HEADER)
    if len(cookies) > 1:
        raise Unauthorized
    scheme, _, value = (authorization or "").partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer":
        as_key = api_key_bearer and value.startswith("mk_")
        yield Credential("api_key" if as_key else "session", value)
    elif scheme.lower() == "basic" and api_key_bearer:
        yield Credential("api_key", _basic_password(value))
    if cookies:
        yield Credential("cookie", cookies[0])
    if api_key is not None:
        yield Credential("api_key", api_key)


def agent_token(headers: CIMultiDictProxy[str]) -> str:
    """Return the agent's token that stands in ``Authorization`` as Bearer.

    Raises:
        Unauthorized: There is none, more than one, or no agent's token.
    """
    scheme, _, value = (single(headers, "Authorization") or "").partition(" ")
    value = value.strip()
    if scheme.lower() != "bearer" or not AGENT_TOKEN.fullmatch(value):
        raise Unauthorized
    return value


def single(headers: CIMultiDictProxy[str], name: str) -> str | None:
    """Return the value of the header *name*, None if it was not sent.

    Raises:
        Unauthorized: It was sent twice: nobody can say which one a proxy saw.
    """
    values = headers.getall(name, [])
    if len(values) > 1:
        raise Unauthorized
    return values[0].strip() if values else None


def _cookies(headers: CIMultiDictProxy[str]) -> list[str]:
    # Not request.cookies: it keeps the last of several with the same name.
    pairs = (pair.partition("=") for header in headers.getall("Cookie", []) for pair in header.split(";"))
    return [value.strip().strip('"') for name, _, value in pairs if name.strip() == COOKIE]


def _basic_password(value: str) -> str:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
    return text.partition(":")[2]
