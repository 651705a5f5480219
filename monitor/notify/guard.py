"""Open connections to targets that organizations name, and to no private ones.

The check stands where the final address is known, behind every spelling, resolver
and second answer of a name server: an address that is not public gets no socket.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, TypeAlias

from monitor.notify.addresses import is_public

AddressInfo: TypeAlias = (
    "tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]"
)
SocketFactory: TypeAlias = Callable[[AddressInfo], socket.socket]

REFUSAL = "the target's address is private"


class PrivateTarget(OSError):
    """The target is at an address that is not public."""

    def __init__(self) -> None:
        super().__init__(REFUSAL)


def socket_factory(*, allow_private: bool) -> SocketFactory:
    """Return what makes the socket for one resolved address, or raises PrivateTarget."""

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        if not allow_private and not is_public(str(address[0])):
            raise PrivateTarget
        return socket.socket(family, kind, protocol)

    return make


async def open_socket(host: str, port: int, factory: SocketFactory) -> socket.socket:
    """Return a socket connected to the first address of *host* that takes the connection.

    Raises:
        OSError: None does, the name has none, or *factory* refused them all.
    """
    loop = asyncio.get_running_loop()
    failure = OSError("the name has no address")
    for info in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            opened = factory(info)
        except PrivateTarget as error:
            failure = error
            continue
        opened.setblocking(False)
        try:
            await loop.sock_connect(opened, info[4])
        except OSError as error:
            opened.close()
            failure = error
        except BaseException:
            opened.close()
            raise
        else:
            return opened
    raise failure
