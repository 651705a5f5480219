"""What single values of the configuration may look like.

Each function reads one text and raises ValueError with what was expected.  None of
those that may hold a password (DSNs, URLs, secrets) repeats the text it was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from msgspec import Meta, Struct

from monitor.wire.duration import format_duration, parse_duration

MIN_JWT_SECRET_BYTES = 32  # RFC 7518, 3.2: an HS256 key is as long as its hash
MAX_RETENTION_SECONDS = 100 * 365 * 86_400  # VictoriaMetrics' own upper bound of -retentionPeriod
MAX_QUERY_TIMEOUT_SECONDS = 3600.0  # no proxy or browser waits longer
PLANS = ("free", "pro", "enterprise")
_LABEL_KEY = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_./-]{0,316}[A-Za-z0-9_])?")  # Kubernetes: 253 + / + 63
_ORG_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*")
_MAIL_ADDRESS = re.compile(r"[^@\s<>,;:\"\x00-\x1f\x7f]{1,64}@[A-Za-z0-9.-]{1,253}")
_FLAGS = {"true": True, "false": False}


class Parsed(Struct, frozen=True):
    """Annotation of a value that is read from its text by *read*."""

    read: Callable[[str], object]


class Secret:
    """Annotation of a value that is never printed and may come from a ``*_file``."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``, did you mean "..."?`` with the word of *known* nearest to *word*, or nothing."""
    near = get_close_matches(word, list(known), n=1)
    return f', did you mean "{near[0]}"?' if near else ""


def one_of(text: str, choices: Iterable[str]) -> str:
    """Return *text* if it is one of *choices*."""
    known = list(choices)
    if text not in known:
        raise ValueError(
            f'expected one of {", ".join(known)}, found "{text[:64]}"{did_you_mean(text, known)}'
        )
    return text


def split_listen(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[ipv6]:port``, the brackets cut off."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host.strip("[]") or (":" in host and not bracketed):
        raise ValueError(f'expected host:port or [ipv6]:port, found "{text}"')
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise ValueError(f'expected a port from 1 to 65535, found "{port}"')
    return (host[1:-1] if bracketed else host), int(port)


def _listen(text: str) -> str:
    split_listen(text)
    return text


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(f"expected a network such as 10.0.0.0/8: {error}") from None


def _split_url(text: str, schemes: tuple[str, ...]) -> SplitResult:
    example = f"{schemes[0]}://host"
    try:
        url = urlsplit(text)
        _ = url.port  # parsed lazily: a bad port raises only when asked for
    except ValueError:
        raise ValueError(f"expected a URL such as {example}, this one is malformed") from None
    if url.scheme not in schemes:
        raise ValueError(f"expected a URL that begins with {' or '.join(f'{s}://' for s in schemes)}")
    return url


def _http_url(text: str) -> str:
    url = _split_url(text, ("http", "https"))
    if not url.hostname or re.search(r"\s", text):
        raise ValueError("expected a URL such as http://host:port, without white space")
    if "@" in url.netloc or url.query or url.fragment:
        raise ValueError("expected a URL without user, password, query and fragment")
    return text


def _dsn(text: str) -> str:
    _split_url(text, ("postgresql", "postgres"))
    return text


def _flag(text: str) -> bool:
    if text not in _FLAGS:
        raise ValueError(f'expected true or false, found "{text[:64]}"')
    return _FLAGS[text]


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError("expected a host name or address, without port")
    return text


def _mail_address(text: str) -> str:
    if not _MAIL_ADDRESS.fullmatch(text):
        raise ValueError(f'expected an e-mail address such as monitor@example.com, found "{text[:64]}"')
    return text


def _any_text(text: str) -> str:
    return text


def _jwt_secret(text: str) -> str:
    if (size := len(text.encode())) < MIN_JWT_SECRET_BYTES:
        raise ValueError(f"must be at least {MIN_JWT_SECRET_BYTES} bytes, has {size}")
    return text


def _retention_seconds(text: str) -> int:
    seconds = parse_duration(text)
    if not 1 <= seconds <= MAX_RETENTION_SECONDS or seconds % 1:
        longest = format_duration(MAX_RETENTION_SECONDS)
        raise ValueError(f'expected whole seconds from 1s to {longest}, found "{text}"')
    return int(seconds)


def _timeout_seconds(text: str) -> float:
    seconds = parse_duration(text)
    if not 0 < seconds <= MAX_QUERY_TIMEOUT_SECONDS:
        longest = format_duration(MAX_QUERY_TIMEOUT_SECONDS)
        raise ValueError(f'expected a duration above 0s and at most {longest}, found "{text}"')
    return seconds


def _plan(text: str) -> str:
    return one_of(text, PLANS)


def _org_id(text: str) -> str:
    if not _ORG_ID.fullmatch(text):
        raise ValueError("expected an organization id: 1 to 64 letters, digits, _ and -")
    return text


def _label_key(text: str) -> str:
    if not _LABEL_KEY.fullmatch(text):
        raise ValueError(f'expected a label key such as app.kubernetes.io/name, found "{text[:64]}"')
    return text


Listen = Annotated[str, Parsed(_listen)]
HttpUrl = Annotated[str, Parsed(_http_url)]
Network = Annotated[IPv4Network | IPv6Network, Parsed(_network)]
Dsn = Annotated[str, Secret, Parsed(_dsn)]
Flag = Annotated[bool, Parsed(_flag)]
Host = Annotated[str, Parsed(_host)]
MailAddress = Annotated[str, Parsed(_mail_address)]
AnyText = Annotated[str, Parsed(_any_text)]
AnySecret = Annotated[str, Secret, Parsed(_any_text)]
JwtSecret = Annotated[str, Secret, Parsed(_jwt_secret)]
RetentionSeconds = Annotated[int, Parsed(_retention_seconds)]
TimeoutSeconds = Annotated[float, Parsed(_timeout_seconds)]
PlanName = Annotated[str, Parsed(_plan)]
OrgId = Annotated[str, Parsed(_org_id)]
LabelKey = Annotated[str, Parsed(_label_key)]
# Above any real fleet, and far below where a product of two of them leaves 64 bits.
Ceiling = Annotated[int, Meta(ge=0, le=1_000_000_000)]
