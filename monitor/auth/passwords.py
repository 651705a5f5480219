"""Passwords under Argon2id, on threads beside the event loop.

OWASP's second profile (19 MiB, two passes): about 40 ms here, where the library's
default takes a second.  The line in front of the two threads is bounded, and a
caller who leaves it is not computed.
https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from monitor.errors import TooManyRequests

T = TypeVar("T")

THREADS = 2  # 2 x 19 MiB, and never more than two cores
LINE_LENGTH = 200  # callers in line: about 4 s for the last one
RETRY_SECONDS = 5

_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
# Of a password nobody has, with these parameters: verified where there is no user.
_NOBODY = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


class _Line:
    """The line in front of the threads."""

    def __init__(self) -> None:
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="argon2")
        self.length = 0

    async def run(self, work: Callable[[], T]) -> T:
        if self.length >= LINE_LENGTH:
            raise TooManyRequests(retry_after_seconds=RETRY_SECONDS)
        self.length += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, work)
        finally:
            self.length -= 1


_line = _Line()


async def hash_password(password: str) -> str:
    """Return the Argon2id hash of *password* in the PHC string format.

    Raises:
        TooManyRequests: 200 callers are in line already.
    """
    return await _line.run(lambda: _hasher.hash(password))


async def verify_password(password: str, password_hash: str | None) -> bool:
    """Return whether *password* is the one of *password_hash*.

    None stands for an unknown user: False, after the same time.

    Raises:
        TooManyRequests: 200 callers are in line already.
    """

    def verify() -> bool:
        try:
            return _hasher.verify(password_hash or _NOBODY, password) and password_hash is not None
        except (VerificationError, InvalidHashError):
            return False

    return await _line.run(verify)
