"""What agents ship as logs (contract 11): NDJSON, one ``LogLine`` a line.

The header ``X-Batch-Id`` makes a repeated batch harmless: ``<epoch>:<n>``, where
*n* is a decimal number that grows within its epoch and *epoch* has no colon.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

BATCH_ID_HEADER = "X-Batch-Id"
CONTENT_TYPE = "application/x-ndjson"
MESSAGE_BYTES = 64 * 1024  # of UTF-8; the service cuts what is longer and says so

Stream = Literal["stdout", "stderr"]


class LogLine(Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A line of a container (``container_id``, ``container``) or a pod (``namespace``, ``pod``, ``container``).

    ``time`` is RFC 3339, with up to nine digits after the point.
    """

    time: str
    stream: Stream
    message: str
    container_id: str | None = None
    container: str | None = None
    namespace: str | None = None
    pod: str | None = None


class Accepted(Struct, frozen=True):
    """Answer to a batch: how many lines are stored."""

    accepted: int
