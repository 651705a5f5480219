"""Give the held batches to the service, whatever they are read from."""

from __future__ import annotations

import structlog

from monitor.collector.client import Service
from monitor.collector.failure import BodyRefused
from monitor.collector.logs.batch import OpenBatch
from monitor.collector.logs.spool import LogSpool
from monitor.collector.state import Identity

log = structlog.get_logger(__name__)


async def deliver(spool: LogSpool, batch: OpenBatch, service: Service, identity: Identity) -> None:
    """Wait for a batch, and send what is held, oldest first, until nothing is.

    Raises:
        AgentStopped, ServiceAway: As ``Service.ship_logs``; the batch stays held.
    """
    await batch.spooled.wait()
    while held := spool.oldest():
        try:
            await service.ship_logs(identity.agent_id, identity.token, held.batch_id, held.body)
        except BodyRefused as error:
            spool.drop(held.seq)
            log.error(
                "log lines refused and dropped", lines=held.lines, error=str(error), total=spool.dropped_lines
            )
        else:
            spool.remove(held.seq)
            log.debug("log lines shipped", lines=held.lines, held=len(spool))
    batch.spooled.clear()
