"""What evaluation costs in statements, and what it leaves for the channels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from monitor.alerts.live.turn import Live
from monitor.alerts.watch import AgentAt
from monitor.ingest.store import lock_agents
from monitor.notify.models import AlertChange
from monitor.wire.push import Push
from tests.alerts.conftest import CPU, container, new_rule, open_alerts, put


class Process:
    """A process that judges pushes of one agent, as the ingest does in its transaction."""

    def __init__(self, pool: Any, agent: Any) -> None:
        self._pool = pool
        self._agent_id = agent.agent_id
        self._live = Live()

    async def judge(
        self, *, meanwhile: Callable[[], Awaitable[None]] | None = None, **body: Any
    ) -> list[str]:
        """Judge a push; return the tables of the statements that this took.

        What happens *meanwhile* comes before the commit.
        """
        seen: list[Any] = []
        push = msgspec.convert(body, Push)
        async with self._pool.acquire() as conn, conn.transaction():
            row = (await lock_agents(conn, [self._agent_id]))[self._agent_id]
            names = ("org_id", "agent_id", "name", "rules_version", "alerts_version", "version")
            agent = AgentAt(**{name: getattr(row, name) for name in names})
            with conn.query_logger(seen.append):
                turn = await self._live.begin(conn, [agent], {self._agent_id: push})
                at_ms = turn._now_ms
                turn.judge(self._agent_id, push, at_ms, late=False, rates=None, allowlist=())
                await turn.record(conn)
            if meanwhile is not None:
                await meanwhile()
        turn.keep()
        # The driver asks for types once a connection; that is not counted.
        tables = ("notifications", "sample_times", "fired_alerts", "alert_rules", "agent_state")
        named = ([name for name in tables if name in it.query] for it in seen)
        return sorted(names[0] for names in named if names)


CALM, HOT = {"containers": [container("a", 5)]}, {"containers": [container("a", 95)]}
READ, WRITE = ["alert_rules", "fired_alerts"], ["fired_alerts", "notifications", "sample_times"]


async def test_a_push_that_changes_nothing_costs_no_statement(api, agent, pool):
    process, another = Process(pool, agent), Process(pool, agent)
    await new_rule(api)

    assert await process.judge(**CALM) == READ
    assert await process.judge(**CALM) == []
    assert await process.judge(**HOT) == WRITE
    assert await process.judge(**HOT) == []
    assert await another.judge(**CALM) == sorted(READ + WRITE)
    assert await process.judge(**CALM) == ["fired_alerts"]  # another has changed the alerts
    assert await process.judge(**CALM) == []
    await new_rule(api, "agent_up", "lt", 1)
    assert await process.judge(**CALM) == READ


async def test_without_a_rule_an_organization_costs_no_look_at_alerts(api, agent, pool):
    process = Process(pool, agent)

    assert await process.judge(**HOT) == ["alert_rules"]
    assert await process.judge(**HOT) == []


async def test_watched_samples_cost_one_statement_and_others_none(api, agent, pool):
    process = Process(pool, agent)
    await new_rule(api, "queue_length")
    watched, other = ({"samples": [{"metric": metric, "value": 1}]} for metric in ("queue_length", "other"))

    assert await process.judge(**other) == READ
    assert await process.judge(**other) == []
    assert await process.judge(**watched) == ["sample_times", "sample_times"]  # read once, written
    assert await process.judge(**other) == []


async def test_a_thousand_rules_for_a_thousand_containers_cost_no_statement_more(api, agent, pool):
    process = Process(pool, agent)
    rows = [
        (f"rule_{agent.agent_id}_{n}", api.org_id, f'{CPU}{{container="c{n}"}}', 80.0) for n in range(1000)
    ]
    await pool.executemany(
        "INSERT INTO alert_rules (id, org_id, name, metric, operator, threshold, severity)"
        " VALUES ($1, $2, 'many', $3, 'gt', $4, 'warning')",
        rows,
    )
    body = {"containers": [container(f"c{n}", 95) for n in range(1000)]}

    assert await process.judge(**body) == sorted(READ + WRITE)
    assert await process.judge(**body) == []
    assert await pool.fetchval("SELECT count(*) FROM fired_alerts WHERE org_id = $1", api.org_id) == 1000


@pytest.mark.parametrize("how", ["DELETE", "PUT"])
async def test_a_rule_that_ends_waits_for_the_push_that_fires_it(api, agent, pool, how):
    """Else the push would leave an alert that nobody resolves."""
    rule = await new_rule(api)
    path = f"/api/v1/alerts/rules/{rule['id']}{'/toggle' if how == 'PUT' else ''}"
    ending: list[asyncio.Task[Any]] = []

    async def end() -> None:
        ending.append(asyncio.ensure_future(api.request(how, path)))
        await asyncio.wait(ending, timeout=0.3)

    await Process(pool, agent).judge(meanwhile=end, **HOT)
    response = await ending[0]

    assert response.status == 204
    assert await open_alerts(api) == []
    assert [alert["resolvedBy"] for alert in await api.json("/api/v1/alerts")] == ["rule"]


@pytest.fixture
async def channel(api: Any, pool: Any) -> str:
    """A channel to an address to which nothing is ever sent."""
    await pool.execute(
        "INSERT INTO notification_channels"
        " (id, org_id, name, type, settings, severities, rule_ids, send_resolved, enabled)"
        " VALUES ($1, $2, 'hook', 'webhook', $3, '{}', '{}', true, true)",
        f"channel_of_{api.org_id}",
        api.org_id,
        '{"url": "http://127.0.0.1:9/", "secret": "s"}',
    )
    return f"channel_of_{api.org_id}"


async def told(pool: Any, channel: str) -> list[AlertChange]:
    rows = await pool.fetch("SELECT change FROM notifications WHERE channel_id = $1 ORDER BY id", channel)
    return [msgspec.msgpack.decode(row["change"], type=AlertChange) for row in rows]


async def test_every_change_of_an_alert_is_noted_for_the_channels(api, agent, pool, channel):
    rule = await new_rule(api, name="hot", severity="page")
    await agent.pushed(containers=[container("a", 95)])
    [first] = await open_alerts(api)
    await put(api, f"/api/v1/alerts/{first['id']}/acknowledge")
    await agent.pushed(containers=[container("a", 5)])
    await agent.pushed(containers=[container("a", 96)])
    [second] = await open_alerts(api)
    await put(api, f"/api/v1/alerts/{second['id']}/resolve")

    changes = await told(pool, channel)

    assert [(it.alert_id, it.state, it.value) for it in changes] == [
        (first["id"], "firing", 95),
        (first["id"], "acknowledged", 95),
        (first["id"], "resolved", 5),
        (second["id"], "firing", 96),
        (second["id"], "resolved", 96),
    ]
    one = changes[0]
    assert (one.org_id, one.rule_id, one.rule_name, one.severity) == (api.org_id, rule["id"], "hot", "page")
    assert (one.resource_type, one.resource_id, one.resource_name) == ("container", "id-of-a", "a")
    assert (one.agent_id, one.metric, one.message) == (agent.agent_id, first["metric"], first["message"])
    assert (one.threshold, one.operator) == (80, "gt")


@pytest.mark.parametrize("how", ["gone", "deleted agent", "deleted rule", "disabled rule"])
async def test_what_ends_an_alert_is_noted_whatever_it_is(api, agent, pool, channel, how):
    rule = await new_rule(api)
    await agent.pushed(containers=[container("a", 95)])

    if how == "gone":
        await agent.pushed(containers=[])
    elif how == "deleted agent":
        await api.delete(agent.path)
    elif how == "deleted rule":
        await api.delete(f"/api/v1/alerts/rules/{rule['id']}")
    else:
        await put(api, f"/api/v1/alerts/rules/{rule['id']}/toggle")

    assert [it.state for it in await told(pool, channel)] == ["firing", "resolved"]
