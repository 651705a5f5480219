"""The composition root: one straight function, in the order of the start.

A process has one of two roles.  ``web`` answers requests; ``background`` does what
goes on without one.  ``all`` is both, for tests and small installations.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

import structlog
from aiohttp import web

import monitor.agents.routes
import monitor.alerts.routes
import monitor.auth.routes
import monitor.commands.routes
import monitor.ingest.routes
import monitor.inventory.routes
import monitor.lifecycle.routes
import monitor.logs.routes
import monitor.logs.tail.routes
import monitor.metrics.routes
import monitor.prometheus.routes
import monitor.prometheus.write
import monitor.scaling.routes
import monitor.settings.channel_routes
import monitor.settings.routes
from monitor.alerts.live import forget, gauge
from monitor.alerts.live.turn import LIVE, Live
from monitor.auth.last_used import last_used
from monitor.auth.login import forget_old_failures
from monitor.auth.lookups import lookups_context
from monitor.auth.middleware import authentication, public, security_of
from monitor.commands import poll
from monitor.config import CONFIG, ConfigFile
from monitor.db.migrate import is_owner, missing
from monitor.db.postgres import connection, pool_context
from monitor.db.wakeups import wakeups_context
from monitor.errors import StorageUnavailable
from monitor.ingest.push import ingest_context
from monitor.inventory.lists import inventory_context
from monitor.journal.journal import TICK_SECONDS, journal_context
from monitor.journal.upkeep import LOOK_SECONDS, keep_journal, keep_leases
from monitor.lifecycle import deletion, offline
from monitor.logs import compact, retention
from monitor.logs.ingest import ceilings
from monitor.logs.ingest.append import appends_context
from monitor.logs.searches import searches_context
from monitor.logs.tail import sweep
from monitor.logs.tail.lines import feeds
from monitor.notify import deliver
from monitor.notify.outlet import outlet_context
from monitor.scaling import reconcile, wake
from monitor.scaling.log import append as decision_log
from monitor.tsdb.client import TSDB
from monitor.tsdb.context import tsdb_context
from monitor.web import codec
from monitor.web.background import background
from monitor.web.errors import errors
from monitor.web.health import DRAINING, Health, healthz, readyz
from monitor.web.openapi import describes, document
from monitor.web.static import add_pages

Role = Literal["web", "background", "all"]

SWEEP_SECONDS = 300.0  # old login failures cost nothing but room

log = structlog.get_logger()


def make_app(config_file: ConfigFile, role: Role = "all") -> web.Application:
    """Return the application; what it needs is opened when it starts."""
    config = config_file.config
    app = web.Application(middlewares=[errors, authentication], client_max_size=codec.BODY_BYTES)
    app[CONFIG] = config_file
    app[DRAINING] = asyncio.Event()
    app[LIVE] = Live()

    app.cleanup_ctx.append(pool_context(config))
    app.cleanup_ctx.append(tsdb_context(config))
    app.cleanup_ctx.append(schema_context)
    app.cleanup_ctx.append(last_used)
    app.cleanup_ctx.append(outlet_context(config))
    app.cleanup_ctx.append(journal_context)
    app.cleanup_ctx.append(background(TICK_SECONDS, keep_leases))
    if role in ("web", "all"):
        app.cleanup_ctx.append(lookups_context)
        app.cleanup_ctx.append(ingest_context)
        app.cleanup_ctx.append(inventory_context)
        app.cleanup_ctx.append(wakeups_context(config))
        app.cleanup_ctx.append(poll.polls_context)
        app.cleanup_ctx.append(background(poll.LOOK_SECONDS, poll.look))
        app.on_shutdown.append(poll.end_polls)
        app.cleanup_ctx.append(appends_context)
        app.cleanup_ctx.append(ceilings.ceilings_context)
        app.cleanup_ctx.append(background(ceilings.EXCHANGE_SECONDS, ceilings.exchange))
        app.cleanup_ctx.append(searches_context)
        app.cleanup_ctx.append(feeds.feeds_context)
        app.cleanup_ctx.append(background(feeds.LOOK_SECONDS, feeds.look))
        app.cleanup_ctx.append(background(feeds.WATCH_SECONDS, feeds.note_watched))
        app.on_shutdown.append(feeds.end_feeds)
        add_routes(app)
    if role in ("background", "all"):
        app.cleanup_ctx.append(background(LOOK_SECONDS, keep_journal))
        app.cleanup_ctx.append(background(offline.ROUND_SECONDS, offline.mark_offline))
        app.cleanup_ctx.append(background(gauge.ROUND_SECONDS, gauge.write_firing))
        app.cleanup_ctx.append(background(forget.ROUND_SECONDS, forget.forget_resolved))
        app.cleanup_ctx.append(background(deletion.ROUND_SECONDS, deletion.delete_due))
        for _ in range(deliver.WORKERS):
            app.cleanup_ctx.append(background(deliver.ROUND_SECONDS, deliver.deliver))
        app.cleanup_ctx.append(background(deliver.SWEEP_SECONDS, deliver.forget_old))
        app.cleanup_ctx.append(background(reconcile.ROUND_SECONDS, reconcile.reconcile))
        app.cleanup_ctx.append(background(wake.ROUND_SECONDS, wake.ask))
        app.cleanup_ctx.append(background(decision_log.LOOK_SECONDS, decision_log.tell_heads))
        app.cleanup_ctx.append(background(SWEEP_SECONDS, forget_old_failures))
        app.cleanup_ctx.append(background(poll.FORGET_SECONDS, poll.forget))
        app.cleanup_ctx.append(background(retention.ROUND_SECONDS, retention.keep_days))
        app.cleanup_ctx.append(background(compact.ROUND_SECONDS, compact.compact_due))
        app.cleanup_ctx.append(background(sweep.ROUND_SECONDS, sweep.sweep))
        app.cleanup_ctx.append(background(SWEEP_SECONDS, check_victoriametrics))
    return app


def add_routes(app: web.Application) -> None:
    """Add the routes of every feature, and the description of them all."""
    for feature in (
        monitor.auth.routes,
        monitor.settings.routes,
        monitor.settings.channel_routes,
        monitor.agents.routes,
        monitor.ingest.routes,
        monitor.lifecycle.routes,
        monitor.commands.routes,
        monitor.logs.routes,
        monitor.logs.tail.routes,
        monitor.inventory.routes,
        monitor.alerts.routes,
        monitor.scaling.routes,
        monitor.metrics.routes,
        monitor.prometheus.routes,
        monitor.prometheus.write,
    ):
        app.add_routes(feature.routes)
    for path, handler in (
        ("/healthz", healthz),
        ("/-/healthy", healthz),
        ("/readyz", readyz),
        ("/-/ready", readyz),
        ("/openapi.json", openapi),
    ):
        app.router.add_get(path, handler)
    add_pages(app, public)


public(describes(reply=Health)(healthz))
public(describes(reply=Health)(readyz))


@public
@describes(reply=dict)
async def openapi(request: web.Request) -> web.Response:
    """Describe the API: OpenAPI 3.1."""
    return codec.reply(document(request.app, security_of))


async def schema_context(app: web.Application) -> AsyncIterator[None]:
    """Refuse to start on a schema that lacks something; warn where the log is less protected.

    Raises:
        SystemExit: ``monitor migrate`` has to run first.
    """
    async with connection(app) as conn:
        lacking = await missing(conn)
        if lacking:
            raise SystemExit(f"the database lacks {', '.join(lacking)}: run `monitor migrate` first")
        owner = await is_owner(conn)
    if owner:
        log.warning("postgres.dsn is the tables' owner: triggers alone protect the decision log")
    yield


async def check_victoriametrics(app: web.Application) -> None:
    """Say loudly when VictoriaMetrics runs with flags that break what the service promises."""
    tsdb = app[TSDB]
    needed = app[CONFIG].config.retention.longest("metrics")
    try:
        dedup, kept = await tsdb.dedup_enabled(), await tsdb.retention_seconds()
    except StorageUnavailable:
        return  # readyz says so
    if not dedup:
        log.error("VictoriaMetrics runs without -dedup.minScrapeInterval=1ms: replays leave duplicates")
    if kept < needed:
        log.error(
            "VictoriaMetrics keeps less than the longest retention: raise its -retentionPeriod",
            kept_seconds=kept,
            needed_seconds=needed,
        )
