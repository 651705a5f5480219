"""The agent's state directory: its identity, and a lock that makes it one agent's own.

``agent.json`` is written whole or not at all, and readable by its owner alone.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from monitor.collector.failure import AgentStopped

IDENTITY_FILE = "agent.json"
LOCK_FILE = "lock"


class Identity(Struct, frozen=True, rename="camel"):
    """What the registration gave, and the service that gave it."""

    agent_id: str
    token: str
    url: str


class StateDir:
    """The state directory, locked while the context is open.

    Raises:
        AgentStopped: On entering: it cannot be made or written, or another agent holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity_path = path / IDENTITY_FILE

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AgentStopped(f"--state-dir {self.path} cannot be used: {error.strerror}") from error
        try:
            # The kernel drops this lock with the process, however that ends.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise AgentStopped(f"--state-dir {self.path} is in use by another agent") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    def load_identity(self, url: str) -> Identity | None:
        """Return the stored identity, or None before the first registration.

        Raises:
            AgentStopped: The file is damaged, or was given by another service than *url*:
                a token is shown to nobody but its own service.
        """
        try:
            identity = msgspec.json.decode(self.identity_path.read_bytes(), type=Identity)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise AgentStopped(
                f"{self.identity_path} cannot be read ({error}); repair it or remove it to register again"
            ) from error
        if identity.url != url:
            raise AgentStopped(
                f"{self.identity_path} belongs to the service at {identity.url}, not to {url}; use another "
                "--state-dir, remove the file to register again, or correct its url if the service has moved",
                exit_code=2,
            )
        return identity

    def save_identity(self, identity: Identity) -> None:
        """Store *identity* so that it is there after a power loss.

        Raises:
            AgentStopped: It cannot be written.
        """
        try:
            write_durably(self.identity_path, msgspec.json.encode(identity))
        except OSError as error:
            raise AgentStopped(f"{self.identity_path} cannot be written: {error.strerror}") from error


def write_durably(path: Path, content: bytes) -> None:
    """Replace *path*, mode 0600, in one step that survives a power loss."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)  # left by a kill; made anew for its mode
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
