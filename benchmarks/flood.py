"""Push as fast as answers come: one thread, bare sockets, requests made by filling gaps.

The same snapshots go out in two forms: as an agent's push, and as the lines that the
service makes of it.  Each push of an agent is 15 s after its last one by its own time,
so that every push has rates and no sample is there twice.
"""

from __future__ import annotations

import contextlib
import functools
import math
import random
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from benchmarks.stack import Agent
from monitor.dev.files import LOOPBACK
from monitor.ingest.counters import Counters, counters_of
from monitor.ingest.samples import AgentRef, samples_of
from monitor.wire.push import Push

CONTAINERS = 50
VARIANTS = 8  # snapshots before the counters' leading digits change
INTERVAL_MS = 15_000  # an agent's default
RECEIVE_BYTES = 65_536
STALL_SECONDS = 30.0  # no answer at all for this long ends the run

# What stands in a template's gaps: as long as what replaces it, and found nowhere else.
CYCLE = 86_420
GAP_MS = 1_713_579_135_791
GAP_TIME = "2020-02-29T23:59:58.765Z"

_Maker = Callable[[Agent, int, int], bytes]


class Snapshots:
    """One host's snapshots as templates, of both forms.

    Attributes:
        sample_count: Samples of each.
        line_bytes: Size of the lines of one.
        push_bytes: Size of one as it is pushed.
    """

    def __init__(self, org_id: str, like: Agent) -> None:
        """Make them for agents of *org_id* whose id and name are as long as those of *like*."""
        self._like = like
        self.pushes: list[bytes] = []
        self.lines: list[bytes] = []
        values = random.Random(1)
        base = [[values.randrange(10**8) for _ in range(4)] for _ in range(CONTAINERS)]
        previous: Counters | None = None
        # The first one is made twice: its lines need a snapshot before it.
        for variant in (-1, *range(VARIANTS)):
            cycle = CYCLE - 1 if variant < 0 else CYCLE
            for row in base:
                for which in range(4):
                    row[which] += values.randrange(10**6)
            push = _push(cycle, base, values)
            decoded = msgspec.json.decode(push, type=Push)
            assert decoded.containers is not None
            at_ms = GAP_MS + (0 if variant < 0 else INTERVAL_MS)
            agent = AgentRef(org_id, like.agent_id, like.name)
            samples = samples_of(decoded, agent, previous, at_ms)
            previous = counters_of(decoded.containers, at_ms - INTERVAL_MS)
            if variant < 0:
                continue
            self.pushes.append(push)
            self.lines.append(samples.lines.replace(b" %d\n" % at_ms, b" %d\n" % GAP_MS))
            self.sample_count = samples.count
        counters = CONTAINERS * 4
        assert all(made.count(b"%d" % CYCLE) == counters for made in (*self.pushes, *self.lines))
        self.line_bytes, self.push_bytes = len(self.lines[0]), len(self.pushes[0])

    def push(self, agent: Agent, number: int, at_ms: int) -> bytes:
        """Return the request of an agent's push."""
        seconds, ms = divmod(at_ms, 1000)
        text = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03d}Z"
        body = _in_cycle(self.pushes[number % VARIANTS], number // VARIANTS)
        body = body.replace(GAP_TIME.encode(), text.encode(), 1)
        head = (
            f"POST /api/v1/agents/{agent.agent_id}/push HTTP/1.1\r\nHost: bench\r\n"
            f"Authorization: Bearer {agent.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def write(self, agent: Agent, number: int, at_ms: int) -> bytes:
        """Return the request that writes the same samples to VictoriaMetrics."""
        body = _in_cycle(self.lines[number % VARIANTS], number // VARIANTS)
        body = body.replace(_tags(self._like), _tags(agent)).replace(b" %d\n" % GAP_MS, b" %d\n" % at_ms)
        # u:p, which vmauth asks for and VictoriaMetrics ignores
        head = (
            "POST /write?precision=ms HTTP/1.1\r\nHost: bench\r\nAuthorization: Basic dTpw\r\n"
            f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def _tags(agent: Agent) -> bytes:
    return f",agent_id={agent.agent_id},agent={agent.name}".encode()


@functools.lru_cache(maxsize=64)  # agents are in the same few cycles
def _in_cycle(template: bytes, cycle: int) -> bytes:
    return template.replace(b"%d" % CYCLE, b"%d" % (10_000 + cycle))


def _push(cycle: int, counters: list[list[int]], values: random.Random) -> bytes:
    """Return a push with all documented fields; *cycle* leads the digits of its counters."""
    containers = []
    for which, row in enumerate(counters):
        used = round(values.uniform(20, 900), 2)
        cumulated = [int(f"{cycle}{value:09d}") for value in row]
        containers.append(
            {
                "id": f"{which:02x}" * 32,
                "shortId": f"{which:02x}" * 6,
                "name": f"service-{which % 12}-{which // 12 + 1}",
                "image": f"registry.example.com/team/service-{which % 12}:1.{which}.0",
                "status": "Up 3 hours",
                "state": "running",
                "created": "2026-01-31T12:00:00Z",
                "source": "docker",
                "cpuPercent": round(values.uniform(0.1, 180), 2),
                "memoryUsageMB": used,
                "memoryLimitMB": 1024,
                "memoryPercent": round(used / 10.24, 2),
                "netRxBytes": cumulated[0],
                "netTxBytes": cumulated[1],
                "blkReadBytes": cumulated[2],
                "blkWriteBytes": cumulated[3],
                "ports": [{"PrivatePort": 8080, "PublicPort": 30_000 + which, "Type": "tcp"}],
            }
        )
    push = {"collectedAt": GAP_TIME, "version": "1.4.2", "containers": containers, "nodes": [], "pods": []}
    return msgspec.json.encode(push)


class Clock:
    """How often each agent has pushed, whichever way: its own time."""

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._numbers: dict[str, int] = {}

    def tick(self, agent: Agent) -> tuple[int, int]:
        """Return the number and the time in milliseconds of the agent's next push."""
        number = self._numbers.get(agent.agent_id, -1) + 1
        self._numbers[agent.agent_id] = number
        return number, self._start_ms + number * INTERVAL_MS


class Flooded(msgspec.Struct, frozen=True):
    """One flood: pushes answered, how long each took in ms, and our own processor time."""

    pushes: int
    latencies_ms: list[float]
    cpu_seconds: float

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that *percent* of the pushes did not exceed."""
        return sorted(self.latencies_ms)[max(0, math.ceil(len(self.latencies_ms) * percent / 100) - 1)]


class Flood:
    """Connections to one server; to the service they stay open from flood to flood."""

    def __init__(self, port: int, agents: Sequence[Agent], connections: int, *, as_lines: bool) -> None:
        """Spread *agents* over at most as many connections; an agent keeps to its own."""
        count = min(connections, len(agents))
        self._connections = [_Connection(port, deque(agents[which::count])) for which in range(count)]
        self._as_lines = as_lines

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()

    def once(self, snapshots: Snapshots, clock: Clock) -> Flooded:
        """Push once from every agent; return when all are answered."""
        return self._run(snapshots, clock, math.inf, once=True)

    def run(self, snapshots: Snapshots, clock: Clock, seconds: float) -> Flooded:
        """Push for *seconds*; return when all is answered."""
        return self._run(snapshots, clock, time.perf_counter() + seconds, once=False)

    def _run(self, snapshots: Snapshots, clock: Clock, deadline: float, *, once: bool) -> Flooded:
        cpu = time.thread_time()
        latencies: list[float] = []
        make = snapshots.write if self._as_lines else snapshots.push
        waiting: dict[int, _Connection] = {}
        with select.epoll() as poll:
            for connection in self._connections:
                connection.open()
                waiting[connection.socket.fileno()] = connection
                poll.register(connection.socket, connection.send(make, clock))
            while waiting:
                ready = poll.poll(STALL_SECONDS)
                if not ready:
                    raise SystemExit(f"no answer within {STALL_SECONDS:.0f} s")
                for number, events in ready:
                    connection = waiting[number]
                    if events & select.EPOLLOUT:
                        poll.modify(number, connection.send_rest())
                    elif connection.is_answered():
                        now = time.perf_counter()
                        latencies.append((now - connection.began) * 1000)
                        if now < deadline and not (once and connection.sent == len(connection.agents)):
                            poll.modify(number, connection.send(make, clock))
                        else:
                            poll.unregister(number)
                            del waiting[number]
        if self._as_lines:
            self.close()  # VictoriaMetrics and vmauth close what lasts longer than two minutes
        return Flooded(len(latencies), latencies, time.thread_time() - cpu)


class _Connection:
    """One connection: one request at a time, its agents in turn."""

    def __init__(self, port: int, agents: deque[Agent]) -> None:
        self.agents = agents
        self.sent = 0
        self.began = 0.0
        self._port = port
        self._socket: socket.socket | None = None
        self._rest = memoryview(b"")
        self._answer = b""

    @property
    def socket(self) -> socket.socket:
        """The open socket."""
        assert self._socket is not None
        return self._socket

    def open(self) -> None:
        """Connect if it is not connected."""
        self.sent = 0
        if self._socket is None:
            self._socket = socket.create_connection((LOOPBACK, self._port))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setblocking(False)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, make: _Maker, clock: Clock) -> int:
        """Send the next agent's push; return the events to wait for."""
        agent = self.agents[0]
        self.agents.rotate(-1)
        self.sent += 1
        self._rest, self._answer = memoryview(make(agent, *clock.tick(agent))), b""
        self.began = time.perf_counter()
        return self.send_rest()

    def send_rest(self) -> int:
        """Send what the kernel takes; return the events to wait for."""
        with contextlib.suppress(BlockingIOError):
            self._rest = self._rest[self.socket.send(self._rest) :]
        return select.EPOLLOUT if self._rest else select.EPOLLIN

    def is_answered(self) -> bool:
        """Read what is there; tell whether the answer is whole.

        Raises:
            SystemExit: It is a refusal, or the connection was closed.
        """
        piece = self.socket.recv(RECEIVE_BYTES)
        self._answer += piece
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not piece or (end and head[9:12] not in (b"200", b"204")):
            raise SystemExit(f"the push was refused: {self._answer.decode()}")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return bool(end) and len(body) >= int(length or 0)
