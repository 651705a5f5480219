"""Where a request comes from: the client's address, and the web origin of the page.

``X-Forwarded-*`` headers count only when the peer is one of the configuration's
``server.trusted_proxies``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from aiohttp import web

from monitor.config import CONFIG

Address: TypeAlias = IPv4Address | IPv6Address
Networks: TypeAlias = Sequence[IPv4Network | IPv6Network]

UNKNOWN = IPv4Address(0)  # a peer without an address, as on a Unix socket
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([\d.]+):\d+")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Client(NamedTuple):
    """The client's own address and the scheme it used, in front of all trusted proxies."""

    address: Address
    scheme: str


def client_address(request: web.Request) -> Client:
    """Return address and scheme of the client that sent *request*."""
    trusted = request.app[CONFIG].config.server.trusted_proxies
    peer = _parse(request.remote or "") or UNKNOWN
    if not _within(peer, trusted):
        return Client(peer, request.scheme)
    forwarded = ",".join(request.headers.getall("X-Forwarded-For", []))
    scheme = _last(request, "X-Forwarded-Proto").lower()
    return Client(
        rightmost_untrusted(peer, forwarded, trusted),
        scheme if scheme in _DEFAULT_PORTS else request.scheme,
    )


def rightmost_untrusted(peer: Address, forwarded: str, trusted: Networks) -> Address:
    """Return the first address, from the service outwards, that no trusted proxy has.

    Each proxy appends the address it saw: what stands left of the first untrusted
    one was written by the client itself.  An entry that is no address ends the walk.
    """
    client = peer
    for entry in reversed(forwarded.split(",")):
        if not _within(client, trusted):
            break
        address = _parse(entry)
        if address is None:
            break
        client = address
    return client


def is_foreign(request: web.Request) -> bool:
    """Return whether a browser sent *request* for a page of another origin.

    A request without ``Origin`` and ``Sec-Fetch-Site`` comes from no page.
    """
    if request.headers.get("Sec-Fetch-Site", "none").lower() in ("cross-site", "same-site"):
        return True
    if "Origin" not in request.headers:
        return False
    server = request.app[CONFIG].config.server
    host = request.host
    peer = _parse(request.remote or "") or UNKNOWN
    if _within(peer, server.trusted_proxies):
        host = _last(request, "X-Forwarded-Host") or host
    own = {_origin(f"{client_address(request).scheme}://{host}")}
    if server.public_url is not None:
        own.add(_origin(server.public_url))
    origins = {_origin(text) for text in request.headers.getall("Origin")}
    return not origins <= own - {None}


def _origin(url: str) -> tuple[str, str, int | None] | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if not parts.hostname:
        return None
    return parts.scheme, parts.hostname, port or _DEFAULT_PORTS.get(parts.scheme)


def _last(request: web.Request, name: str) -> str:
    # The nearest proxy's word: it is the one that is trusted.
    return ",".join(request.headers.getall(name, [])).rpartition(",")[2].strip()


def _within(address: Address, networks: Networks) -> bool:
    return any(address in network for network in networks)


def _parse(text: str) -> Address | None:
    text = text.strip()
    if with_port := _WITH_PORT.fullmatch(text):
        text = with_port[1] or with_port[2]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
