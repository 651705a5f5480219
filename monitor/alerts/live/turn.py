"""Judge pushes inside of their transaction.

What a process remembers of rules and open alerts is exact while the versions that the
transaction reads with the agents' locks are those remembered.  Then a push that changes
nothing costs no statement.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from aiohttp import web
from msgspec.structs import replace

from monitor.alerts.evaluate import Judged, Rates, judge, judge_down
from monitor.alerts.live import store
from monitor.alerts.live.record import Outcome, record
from monitor.alerts.rules import RuleSet, RuleText, prepared
from monitor.alerts.watch import AgentAt, Key, OpenAlert, Plan, Watch
from monitor.auth.tokens import new_id
from monitor.wire.push import Push

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

CACHED_ORGANIZATIONS = 2_000  # rules kept a process: about 2 KiB a rule
CACHED_AGENTS = 20_000  # bounds kept a process: below 1 KiB where no alert is open

new_alert_id: Callable[[], str] = partial(new_id, "alert")
V = TypeVar("V")


class Recent(OrderedDict[str, V]):
    """The entries used last, at most *most* of them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: str, value: V) -> None:
        """Store *value* as the newest entry."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Live:
    """What one process remembers of rules and open alerts."""

    def __init__(self) -> None:
        self._plans: Recent[tuple[int, Plan]] = Recent(CACHED_ORGANIZATIONS)
        self._watches: Recent[Watch] = Recent(CACHED_AGENTS)

    async def begin(
        self, conn: Connection, agents: Sequence[AgentAt], pushes: Mapping[str, Push] | None = None
    ) -> Turn:
        """Return a turn of judging *agents*, after reading what is not remembered.

        Args:
            conn: Inside the transaction that has read the versions in *agents*.
            agents: Each at most once.
            pushes: What is going to be judged, by agent; for times of ``samples``.
        """
        plans = await self._plans_of(conn, agents)
        watches: dict[str, Watch] = {}
        stale: list[AgentAt] = []
        for agent in agents:
            watch = self._watches.get(agent.agent_id)
            if not plans[agent.org_id].rules:
                continue
            if watch is not None and is_exact(watch, agent):
                watches[agent.agent_id] = watch
            else:
                stale.append(agent)
        if stale:
            held: dict[str, dict[Key, OpenAlert]] = {agent.agent_id: {} for agent in stale}
            for agent_id, key, alert in await store.open_alerts(conn, list(held)):
                held[agent_id][key] = alert
            for agent in stale:
                watches[agent.agent_id] = fresh(agent, held[agent.agent_id])
        await self._add_times(conn, agents, plans, watches, pushes or {})
        return Turn(self, agents, plans, watches)

    async def _plans_of(self, conn: Connection, agents: Sequence[AgentAt]) -> dict[str, Plan]:
        plans: dict[str, Plan] = {}
        missing: dict[str, int] = {}
        for agent in agents:
            known = self._plans.get(agent.org_id)
            if known is not None and known[0] == agent.rules_version:
                plans[agent.org_id] = known[1]
            else:
                missing[agent.org_id] = agent.rules_version
        if missing:
            texts: dict[str, list[RuleText]] = {org_id: [] for org_id in missing}
            for org_id, text in await store.rules_of(conn, list(missing)):
                texts[org_id].append(text)
            for org_id, version in missing.items():
                plan = plans[org_id] = plan_of(texts[org_id])
                self._plans.keep(org_id, (version, plan))
        return plans

    async def _add_times(
        self,
        conn: Connection,
        agents: Sequence[AgentAt],
        plans: Mapping[str, Plan],
        watches: dict[str, Watch],
        pushes: Mapping[str, Push],
    ) -> None:
        """Read the times of ``samples`` where a rule watches what was pushed and they are not known."""
        unknown = []
        for agent in agents:
            push, watch = pushes.get(agent.agent_id), watches.get(agent.agent_id)
            if (
                push is not None
                and push.samples
                and watch is not None
                and (watch.times is None or watch.version != agent.version)
                and plans[agent.org_id].watches_samples(push)
            ):
                unknown.append(agent)
        if unknown:
            found = await store.sample_times(conn, [agent.agent_id for agent in unknown])
            for agent in unknown:
                watch = watches[agent.agent_id]
                times = found.get(agent.agent_id, {})
                watches[agent.agent_id] = replace(watch, times=times, version=agent.version)

    def keep(self, agent_id: str, watch: Watch) -> None:
        """Remember what is known of an agent."""
        if watch is not self._watches.get(agent_id):
            self._watches.keep(agent_id, watch)

    def forget(self, agent_id: str) -> None:
        """Read an agent's alerts again next time."""
        self._watches.pop(agent_id, None)


class Turn:
    """One transaction's judgements: ``judge`` each push, ``record``, and ``keep`` after the commit."""

    def __init__(
        self, live: Live, agents: Sequence[AgentAt], plans: Mapping[str, Plan], watches: Mapping[str, Watch]
    ) -> None:
        self._live = live
        self._agents = {agent.agent_id: agent for agent in agents}
        self._plans = plans
        self._watches = watches
        self._now_ms = time.time_ns() // 1_000_000
        self._judged: dict[str, tuple[Judged, bool]] = {}
        self._raised: set[str] = set()
        self._missed: set[str] = set()

    def judge(
        self, agent_id: str, push: Push, at_ms: int, *, late: bool, rates: Rates, allowlist: Sequence[str]
    ) -> None:
        """Judge a push; see ``evaluate.judge``."""
        watch = self._watches.get(agent_id)
        if watch is None:
            return
        agent = self._agents[agent_id]
        judged = judge(
            self._plans[agent.org_id],
            watch,
            agent,
            push,
            at_ms=at_ms,
            now_ms=self._now_ms,
            late=late,
            rates=rates,
            new_id=new_alert_id,
            allowlist=allowlist,
        )
        self._judged[agent_id] = (judged, late)

    def judge_down(self, agent_id: str, metric: str, *, only_look: bool = False) -> bool:
        """Judge an agent whose *metric* is 0 because it is offline; tell whether that changes an alert.

        With *only_look* the agent is not locked, and what changes is left for another turn.
        """
        watch = self._watches.get(agent_id)
        if watch is None:
            return False
        agent = self._agents[agent_id]
        judged = judge_down(self._plans[agent.org_id], watch, agent, metric, new_alert_id)
        changes = bool(judged.changes)
        if not (changes and only_look):
            self._judged[agent_id] = (judged, True)
        return changes

    async def record(self, conn: Connection) -> None:
        """Store what the judgements changed; no statement if that is nothing."""
        outcomes = [
            Outcome(
                self._agents[agent_id],
                judged.changes,
                judged.watch.times if judged.timed else None,
                # A newest push raises the state's version, which the times are known by.
                bool(judged.changes) or (judged.timed and late),
            )
            for agent_id, (judged, late) in self._judged.items()
            if judged.changes or judged.timed
        ]
        self._raised = {outcome.agent.agent_id for outcome in outcomes if outcome.raise_version}
        self._missed = await record(conn, outcomes)

    def keep(self) -> None:
        """Remember what was judged; to be called once it is committed."""
        for agent_id, (judged, late) in self._judged.items():
            agent, watch = self._agents[agent_id], judged.watch
            if agent_id in self._missed:
                self._live.forget(agent_id)
                continue
            if agent_id in self._raised:
                watch = replace(watch, alerts_version=agent.alerts_version + 1)
            if watch.times is not None and not late:
                # Only what was exact before this push is exact after it.
                times = watch.times if watch.version == agent.version else None
                watch = replace(watch, times=times, version=agent.version + 1)
            self._live.keep(agent_id, watch)


def plan_of(texts: Sequence[RuleText]) -> Plan:
    """Return stored rules ready for evaluation."""
    return Plan(RuleSet([prepared(text) for text in texts]))


def is_exact(watch: Watch, agent: AgentAt) -> bool:
    """Tell whether what is remembered of rules and alerts is what is stored."""
    return watch.rules_version == agent.rules_version and watch.alerts_version == agent.alerts_version


def fresh(agent: AgentAt, open_: dict[Key, OpenAlert]) -> Watch:
    """Return what is known of an agent whose open alerts have just been read."""
    return Watch(agent.rules_version, agent.alerts_version, agent.version, open_, {})


LIVE: web.AppKey[Live] = web.AppKey("LIVE", Live)
