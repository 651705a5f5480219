"""Small files that outlive a start: secrets, ports and what a run tells others.

What is written is there whole or not at all, and only its owner may read it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SECRET_BYTES = 32  # 256 bits, as the service asks of a signing secret

LOOPBACK = "127.0.0.1"


class DevError(Exception):
    """Why the embedded stack cannot run; the text says what to do."""


class PortTaken(DevError):
    """Another program listens where a server was asked to."""


class FolderInUse(DevError):
    """Another living program holds the folder."""


def write_private(path: Path, text: str) -> None:
    """Write *text* to *path* at once, mode 0600."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def kept_secret(path: Path) -> str:
    """Return the secret in *path*, made at the first call: URL-safe text of 43 characters."""
    with suppress(FileNotFoundError):
        return path.read_text("utf-8")
    secret = secrets.token_urlsafe(SECRET_BYTES)
    write_private(path, secret)
    return secret


def is_free(host: str, port: int) -> bool:
    """Tell whether a server could listen on *host* and *port* now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            # A socket shared through SO_REUSEADDR can be bound beside a listener, not listened on.
            probe.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise DevError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return True


def check_port(host: str, port: int) -> None:
    """Raise PortTaken unless a server could listen on *host* and *port* now."""
    if not is_free(host, port):
        raise PortTaken(f"port {port} on {host} is in use by another program: choose another port")


def kept_port(path: Path, avoid: int | None = None) -> int:
    """Return the loopback port remembered in *path* if it is still free, else any free one, remembered.

    Args:
        path: The file that remembers it.
        avoid: A port that is free now and meant for another server.
    """
    port = _remembered(path)
    while port is None or port == avoid:
        port = _any_free()
    write_private(path, str(port))
    return port


def _remembered(path: Path) -> int | None:
    try:
        port = int(path.read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return None
    return port if 0 < port < 2**16 and is_free(LOOPBACK, port) else None


def _any_free() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold *folder* for this program alone; the kernel lets go of it when the program dies.

    Raises:
        FolderInUse: Another program holds it.
    """
    path = folder / "lock"
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise FolderInUse(f"{folder} is in use by process {file.read().strip() or '?'}") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
