"""Note what is to be told, in the transaction in which it came about.

What is noted is delivered at least once, whatever dies after the commit.  One
statement does it, whatever the number of alerts and channels; without a channel
it writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from monitor.notify import store
from monitor.notify.models import AlertChange
from monitor.tsdb.selector import series_text

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

SERIES_BYTES = 16  # of the digest that stands for a rule and a series


async def enqueue(conn: Connection, changes: Sequence[AlertChange]) -> None:
    """Note *changes*, of any organizations, for each enabled channel whose filters they pass.

    Of the changes of one alert the earlier comes first, here and in the order of the
    transactions.  A state of an alert that was noted before is not noted again.
    """
    if not changes:
        return
    await store.insert_changes(
        conn,
        [change.org_id for change in changes],
        [change.alert_id for change in changes],
        [change.state for change in changes],
        [change.severity for change in changes],
        [change.rule_id for change in changes],
        [series_digest(change) for change in changes],
        [msgspec.msgpack.encode(change) for change in changes],
    )


def series_digest(change: AlertChange) -> bytes:
    """Return what is equal for all alerts of one rule and series, and for no others."""
    text = "\0".join((change.rule_id, change.agent_id, series_text(change.metric)))
    return blake2b(text.encode(), digest_size=SERIES_BYTES).digest()
