"""How many queries one organization has under way: a share, so that none starves the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from monitor.errors import TooManyRequests

RETRY_SECONDS = 1  # most queries are shorter: a place is free by then


class Places:
    """A number of places for each organization, in this process."""

    def __init__(self, most: int) -> None:
        """Give *most* places to each."""
        self._most = most
        self._taken: dict[str, int] = {}

    @contextmanager
    def held(self, org_id: str) -> Iterator[None]:
        """Hold one of the organization's places.

        Raises:
            TooManyRequests: All are taken.
        """
        taken = self._taken.get(org_id, 0)
        if taken >= self._most:
            raise TooManyRequests(
                f"limit reached: {self._most} concurrent queries", retry_after_seconds=RETRY_SECONDS
            )
        self._taken[org_id] = taken + 1
        try:
            yield
        finally:
            self._taken[org_id] -= 1
            if not self._taken[org_id]:
                del self._taken[org_id]
