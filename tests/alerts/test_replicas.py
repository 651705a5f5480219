"""Two server processes on the same stores: one alert, whoever sees the push; and the table of transitions."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.alerts.conftest import CPU, container, new_rule, open_alerts, put
from tests.conftest import Agent, Api, start_service
from tests.conftest import settings as service_settings


@pytest.fixture(scope="session")
async def replica(servers: Any, tmp_path_factory: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """Another server on the same stores."""
    folder = tmp_path_factory.mktemp("replica")
    service = await start_service(folder / "monitor.yaml", service_settings(servers), "web")
    async with aiohttp.ClientSession(service.base_url, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session
    await service.stop()


def at(session: aiohttp.ClientSession, api: Api) -> Api:
    """Return the same caller at another server."""
    return Api(session, api.org_id, api.secret, api.headers)


def agent_at(session: aiohttp.ClientSession, agent: Agent) -> Agent:
    return Agent(at(session, agent.api), agent.agent_id)


async def test_forty_pushes_of_one_violation_at_two_servers_make_one_alert(api, agent, replica):
    await new_rule(api)
    both = (agent, agent_at(replica, agent))
    body = {"containers": [container("a", 95), container("b", 95)]}

    await asyncio.gather(*(both[number % 2].pushed(**body) for number in range(40)))

    alerts = await api.json("/api/v1/alerts")
    assert sorted(alert["resourceName"] for alert in alerts) == ["a", "b"]
    assert {alert["state"] for alert in alerts} == {"firing"}


async def test_what_one_server_fired_the_other_resolves_and_the_other_way_round(api, agent, replica):
    other = agent_at(replica, agent)
    await new_rule(api)
    seen = []

    for first, second in [(agent, other), (other, agent)] * 5:
        for _ in range(2):  # it knows now that nothing is open
            await second.pushed(containers=[container("a", 5)])
        await first.pushed(containers=[container("a", 95)])
        seen.append(len(await open_alerts(api)))
        await second.pushed(containers=[container("a", 5)])
        seen.append(len(await open_alerts(api)))

    assert seen == [1, 0] * 10
    assert {alert["resolvedBy"] for alert in await api.json("/api/v1/alerts")} == {"recovered"}


async def test_a_rule_made_at_one_server_holds_for_the_next_push_at_the_other(api, agent, replica):
    there, pushing = at(replica, api), agent_at(replica, agent)
    await pushing.pushed(containers=[container("a", 50)])
    seen = []

    for _ in range(10):
        rule = await new_rule(api, threshold=90)
        await pushing.pushed(containers=[container("a", 95)])
        seen.append(len(await open_alerts(there)))
        await put(api, f"/api/v1/alerts/rules/{rule['id']}", json={"threshold": 99})
        await pushing.pushed(containers=[container("a", 95)])
        seen.append(len(await open_alerts(there)))
        await put(api, f"/api/v1/alerts/rules/{rule['id']}/toggle")
        await pushing.pushed(containers=[container("a", 100)])
        seen.append(len(await open_alerts(there)))

    assert seen == [1, 0, 0] * 10


async def test_rules_that_change_under_pushes_leave_no_alert_behind(api, make_agent, replica):
    """Rules come, are disabled and deleted at one server while both take violating pushes."""
    agents = [await make_agent(api, f"host-{number}") for number in range(4)]
    senders = [*agents, *(agent_at(replica, agent) for agent in agents)]
    done = asyncio.Event()

    async def push(sender: Agent) -> None:
        for number in itertools.count():
            await sender.pushed(containers=[container("a", 95 if number % 3 else 5)])
            if done.is_set():
                return

    async def change() -> None:
        for _ in range(8):
            rules = [await new_rule(api, threshold=threshold) for threshold in (80, 90)]
            await put(api, f"/api/v1/alerts/rules/{rules[0]['id']}/toggle")
            for rule in rules:
                async with api.delete(f"/api/v1/alerts/rules/{rule['id']}") as response:
                    assert response.status == 204
        done.set()

    async with asyncio.timeout(60):
        await asyncio.gather(change(), *(push(sender) for sender in senders))

    assert await open_alerts(api) == []


VALUES = st.sampled_from([None, 10, 50, 90])
PUSH = st.tuples(st.just("push"), st.integers(0, 1), st.dictionaries(st.sampled_from("ab"), VALUES))
OPERATIONS = st.lists(
    st.one_of(
        *[PUSH] * 4,
        st.tuples(st.just("create"), st.sampled_from(["gt", "lt"]), st.sampled_from([20, 80])),
        st.tuples(st.just("toggle"), st.integers(0, 3), st.none()),
        st.tuples(st.just("threshold"), st.integers(0, 3), st.sampled_from([20, 60, 80])),
        st.tuples(st.just("drop"), st.integers(0, 3), st.none()),
        st.tuples(st.sampled_from(["acknowledge", "resolve"]), st.integers(0, 5), st.none()),
        st.tuples(st.just("leave"), st.integers(0, 1), st.none()),
    ),
    min_size=12,
    max_size=30,
)
Series = tuple[str, str, str]  # rule, agent, container


class Model:
    """The document's table of transitions, in memory."""

    def __init__(self) -> None:
        self.rules: dict[str, tuple[str, float, bool]] = {}
        self.newest: dict[str, dict[str, float | None]] = {}
        self.open: dict[Series, str] = {}
        self.ended: Counter[tuple[Series, str]] = Counter()

    def end(self, by: str, is_meant: Callable[[Series], bool]) -> None:
        for series in [series for series in self.open if is_meant(series)]:
            del self.open[series]
            self.ended[series, by] += 1

    def look(self, rule_id: str, agent_id: str) -> None:
        """The condition of a rule on the latest sample of each of an agent's series."""
        operator, threshold, enabled = self.rules[rule_id]
        for name, value in self.newest[agent_id].items():
            series = (rule_id, agent_id, name)
            if value is None or not enabled:
                continue
            if value > threshold if operator == "gt" else value < threshold:
                self.open.setdefault(series, "firing")
            else:
                self.end("recovered", series.__eq__)

    def push(self, agent_id: str, cpus: dict[str, float | None]) -> None:
        self.newest[agent_id] = cpus
        self.end("gone", lambda series: series[1] == agent_id and cpus.get(series[2]) is None)
        for rule_id in self.rules:
            self.look(rule_id, agent_id)

    def sweep(self, rule_id: str) -> None:
        for agent_id in self.newest:
            self.look(rule_id, agent_id)


class Walk:
    """The service beside the model: each operation goes to both, by turns at either server."""

    def __init__(self, apis: list[Api], make_agent: Callable[..., Awaitable[Agent]]) -> None:
        self.model = Model()
        self._apis = itertools.cycle(apis)
        self._sessions = [api.session for api in apis]
        self._make_agent = make_agent
        self._agents: dict[int, Agent] = {}

    async def do(self, operation: str, which: int, value: Any) -> None:
        api = next(self._apis)
        if operation == "push":
            await self._push(which, value)
        elif operation == "leave":
            await self._leave(api, which)
        elif operation == "create":
            rule = await new_rule(api, operator=which, threshold=value)
            self.model.rules[rule["id"]] = (str(which), value, True)
            self.model.sweep(rule["id"])
        elif operation in ("acknowledge", "resolve"):
            await self._handle(api, operation, which)
        elif self.model.rules:
            await self._change(api, operation, [*self.model.rules][which % len(self.model.rules)], value)
        assert await self._shown(next(self._apis)) == (self.model.open, self.model.ended), (
            operation,
            which,
            value,
        )

    async def _push(self, which: int, cpus: dict[str, float | None]) -> None:
        if which not in self._agents:
            self._agents[which] = await self._make_agent(next(self._apis), f"host-{which}")
        agent = agent_at(next(self._apis).session, self._agents[which])
        await agent.pushed(containers=[container(name, cpu) for name, cpu in cpus.items()])
        self.model.push(agent.agent_id, cpus)

    async def _leave(self, api: Api, which: int) -> None:
        agent = self._agents.pop(which, None)
        if agent is not None:
            async with api.delete(agent.path) as response:
                assert response.status == 204
            del self.model.newest[agent.agent_id]
            self.model.end("gone", lambda series: series[1] == agent.agent_id)

    async def _change(self, api: Api, operation: str, rule_id: str, value: Any) -> None:
        model, path = self.model, f"/api/v1/alerts/rules/{rule_id}"
        operator, threshold, enabled = model.rules[rule_id]
        if operation == "drop":
            async with api.delete(path) as response:
                assert response.status == 204
            del model.rules[rule_id]
        elif operation == "toggle":
            await put(api, f"{path}/toggle")
            model.rules[rule_id] = (operator, threshold, not enabled)
        else:
            await put(api, path, json={"threshold": value})
            model.rules[rule_id] = (operator, value, enabled)
        if not model.rules.get(rule_id, (0, 0, False))[2]:
            model.end("rule", lambda series: series[0] == rule_id)
        elif operation == "toggle" or value != threshold:
            model.sweep(rule_id)

    async def _handle(self, api: Api, operation: str, which: int) -> None:
        alerts = sorted(await api.json("/api/v1/alerts"), key=lambda alert: alert["id"])
        if not alerts:
            return
        alert = alerts[which % len(alerts)]
        series, model = series_of(alert), self.model
        good = 204 if operation == "resolve" or alert["state"] == "firing" else 404
        await put(api, f"/api/v1/alerts/{alert['id']}/{operation}", good)
        if operation == "resolve" and alert["state"] != "resolved":
            model.end("user", series.__eq__)
        elif operation == "acknowledge" and good == 204:
            model.open[series] = "acknowledged"

    @staticmethod
    async def _shown(api: Api) -> tuple[dict[Series, str], Counter[tuple[Series, str]]]:
        alerts = await api.json("/api/v1/alerts")
        ended = Counter((series_of(it), it["resolvedBy"]) for it in alerts if it["state"] == "resolved")
        opened = [(series_of(it), it["state"]) for it in alerts if it["state"] != "resolved"]
        assert len(opened) == len(dict(opened)), "two open alerts for one rule and series"
        return dict(opened), ended


def series_of(alert: Any) -> Series:
    assert alert["metric"]["__name__"] == CPU
    return alert["ruleId"], alert["agentId"], alert["resourceName"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OPERATIONS)
async def test_two_servers_follow_the_table_of_transitions(make_api, make_agent, replica, operations):
    api = await make_api()
    walk = Walk([api, at(replica, api)], make_agent)
    for operation in operations:
        await walk.do(*operation)
