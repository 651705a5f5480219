"""Make and check what proves an identity: session tokens, keys, agents' tokens, ids.

Sessions are JSON Web Tokens under HS256 and nothing else.  Of keys and agents'
tokens only the SHA-256 is ever stored: 256 random bits need no slow hash.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from typing import Annotated, Any

import jwt
import msgspec

SESSION_SECONDS = 24 * 60 * 60  # lifetime of a login (api.md)
ID_BYTES = 12  # 96 random bits: no two ids ever meet
SECRET_BYTES = 32  # 43 characters of base64url
ONE_TIME_BYTES = 15  # 20 characters, to be typed once
PREFIX_CHARACTERS = 10  # "mk_" and 7 more: enough to tell keys apart, useless to guess one

API_KEY = re.compile(r"mk_[A-Za-z0-9_-]{32,128}")
AGENT_TOKEN = re.compile(r"at_[A-Za-z0-9_-]{32,128}")
ALGORITHM = "HS256"

Id = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,64}$")]

_jws = jwt.PyJWS(algorithms=[ALGORITHM])


class Session(msgspec.Struct, frozen=True):
    """The claims of a session's token.

    Role and plan are those of the login; what counts is what is stored now.

    Attributes:
        sub: Id of the user.
        iat: Unix seconds of issue, compared with the user's ``tokens_valid_from``
            alone: replicas' clocks differ.
        exp: Unix seconds from which on the token is dead.
        jti: Id of the token; empty where there is none.
    """

    sub: Id
    org_id: Id
    exp: float
    role: str = ""
    plan: str = ""
    iat: float = 0
    jti: str = ""


_decoder = msgspec.json.Decoder(Session)


def issue(
    keys: Sequence[str],
    *,
    user_id: str,
    org_id: str,
    role: str,
    plan: str,
    now: float,
    not_before: int = 0,
) -> str:
    """Return a new session's token, signed with the first of *keys*.

    Args:
        keys: Secrets of at least 32 bytes, the newest first.
        user_id: The claim ``sub``.
        org_id: The user's organization.
        role: The user's role.
        plan: The organization's plan.
        now: Unix seconds.
        not_before: The user's ``tokens_valid_from``: the token is never older, even
            if this clock is behind the one that wrote it.
    """
    issued_at = max(int(now), not_before)
    claims: dict[str, Any] = {
        "sub": user_id,
        "org_id": org_id,
        "role": role,
        "plan": plan,
        "iat": issued_at,
        "exp": issued_at + SESSION_SECONDS,
        "jti": secrets.token_urlsafe(16),
    }
    return jwt.encode(claims, keys[0], algorithm=ALGORITHM)


def verify(token: str, keys: Sequence[str], now: float) -> Session | None:
    """Return the claims of *token* if one of *keys* signed it and it lives at *now*, else None."""
    for key in keys:
        try:
            session = _decoder.decode(_jws.decode(token, key, algorithms=[ALGORITHM]))
        except jwt.InvalidSignatureError:
            continue
        except (jwt.PyJWTError, msgspec.MsgspecError, UnicodeError):
            return None
        return session if session.exp > now else None
    return None


def digest(secret: str) -> bytes:
    """Return the 32 bytes under which a key or an agent's token is stored."""
    return hashlib.sha256(secret.encode()).digest()


def new_id(prefix: str) -> str:
    """Return a fresh id as ``user_5f0c…``."""
    return f"{prefix}_{secrets.token_hex(ID_BYTES)}"


def new_api_key() -> str:
    """Return a fresh API key."""
    return f"mk_{secrets.token_urlsafe(SECRET_BYTES)}"


def new_agent_token() -> str:
    """Return a fresh agent's token."""
    return f"at_{secrets.token_urlsafe(SECRET_BYTES)}"


def one_time_password() -> str:
    """Return a password to be changed at the first login."""
    return secrets.token_urlsafe(ONE_TIME_BYTES)


def shown_prefix(key: str) -> str:
    """Return what of an API key may be shown again."""
    return key[:PREFIX_CHARACTERS]
