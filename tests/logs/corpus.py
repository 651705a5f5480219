"""Lines that are hard to search, questions about them, and the plainest possible answers.

The answers come from a filter over Python strings that shares no code with the service.
"""

from __future__ import annotations

import io
import json
import random
from dataclasses import dataclass, field
from typing import Any

from monitor.logs.times import format_ns
from tests.conftest import Agent, Api

SECOND = 10**9
SHORT = 64 * 1024  # bytes of a message that is not cut

WORDS = [
    *("error", "Error", "ERROR", "timeout", "connection", "refused", "GET", "/api/v1/things", "status=500"),
    *(
        "straße",
        "STRASSE",
        "İstanbul",
        "ΣΊΣΥΦΟΣ",
        "naïve",
        "日本語",
        "ログ",
        "Kelvin",
        "ﬁne",
        "e\u0301te",
        "été",
    ),
    *("100%", "%d", "a_b", "a-b", "_", "C:\\temp\\x", "\\", "*", "?", "[a-z]+", "'single'", '"double"', '"'),
    *(
        "\x1b[31mred\x1b[0m",
        "<b>bold</b>",
        "&amp;",
        "<script>alert(1)</script>",
        "\x00",
        "a\x00b",
        "\t",
        "\x85",
    ),
    *("8f3a09c2", "deadbeef", "10.0.0.1", "-v", "--flag", "😀", "abc", "bcd", "cde", "x"),
]


@dataclass(frozen=True)
class Sent:
    """A line as it was sent; ``order`` breaks ties of time: batch and number in it."""

    time: int
    order: tuple[int, int]
    agent_id: str
    fields: dict[str, Any]
    message: str


@dataclass
class Corpus:
    """What an organization's agents have sent so far."""

    seed: int
    start: int
    lines: list[Sent] = field(default_factory=list)
    batches: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def message(self) -> str:
        kind = self.random.random()
        if kind < 0.02:
            return "".join(self.random.choices(WORDS, k=3)) + "long " * 20_000  # above 64 KiB
        if kind < 0.05:
            return "\n".join(self.random.choices(WORDS, k=4))
        if kind < 0.07:
            return ""
        separator = self.random.choice([" ", "  ", "", "=", "\t"])
        return separator.join(self.random.choices(WORDS, k=self.random.randint(1, 9)))

    def batch(self, agent_id: str, count: int) -> list[dict[str, Any]]:
        """Make a batch and note what it says."""
        made = []
        for number in range(count):
            where: dict[str, Any]
            if self.random.random() < 0.6:
                name = self.random.choice(["web", "db", "straße"])
                where = {"container": name, "containerId": name.encode().hex().ljust(64, "0")}
            else:
                namespace = self.random.choice(["default", "kube-system"])
                where = {"namespace": namespace, "pod": self.random.choice(["web", "db"]), "container": "web"}
            time = self.start + self.random.randrange(50) * SECOND  # many ties
            stream = self.random.choice(["stdout", "stdout", "stderr"])
            message = self.message()
            made.append({"time": format_ns(time), "stream": stream, "message": message, **where})
            kept = message.encode()[:SHORT].decode(errors="ignore")
            self.lines.append(Sent(time, (self.batches, number), agent_id, {"stream": stream, **where}, kept))
        self.batches += 1
        return made

    async def send(self, agent: Agent, count: int) -> None:
        await send(agent, self.batch(agent.agent_id, count))


@dataclass(frozen=True)
class Asked:
    """A question: terms (text, is a phrase, is excluded) and parameters."""

    terms: tuple[tuple[str, bool, bool], ...]
    params: dict[str, str]

    def query(self) -> dict[str, str]:
        shown = [
            ("-" if excluded else "") + (f'"{text}"' if phrase else text)
            for text, phrase, excluded in self.terms
        ]
        return {**self.params, **({"q": " ".join(shown)} if shown else {})}

    def matches(self, line: Sent, start: int, end: int) -> bool:
        folded = line.message.casefold()
        is_docker = "pod" not in line.fields
        checks = {
            "source": lambda value: value == ("docker" if is_docker else "kubernetes"),
            "agentId": lambda value: value == line.agent_id,
            "containerId": lambda value: (
                is_docker and value in (line.fields["containerId"], line.fields["containerId"][:12])
            ),
            "containerName": lambda value: is_docker and value == line.fields["container"],
            "namespace": lambda value: value == line.fields.get("namespace"),
            "pod": lambda value: value == line.fields.get("pod"),
            "container": lambda value: not is_docker and value == line.fields["container"],
            "stream": lambda value: value == line.fields["stream"],
        }
        return (
            start <= line.time <= end
            and all((text.casefold() in folded) != excluded for text, _, excluded in self.terms)
            and all(checks[name](value) for name, value in self.params.items() if name in checks)
        )


def questions(corpus: Corpus, agents: list[str], count: int) -> list[Asked]:
    """Make questions: every filter, every form of q, alone and together."""
    chance = corpus.random
    values = {
        "source": ["docker", "kubernetes"],
        "agentId": [*agents, "agent_unknown"],
        "containerId": [
            name.encode().hex().ljust(length, "0") for name in ("web", "db") for length in (12, 64)
        ],
        "containerName": ["web", "db", "straße", "WEB"],
        "namespace": ["default", "kube-system"],
        "pod": ["web", "db"],
        "container": ["web", "db"],
        "stream": ["stdout", "stderr"],
    }
    asked = [Asked((), {name: value}) for name, choices in values.items() for value in choices]
    for _ in range(count):
        terms = []
        for _ in range(chance.randint(0, 3)):
            phrase, excluded = chance.random() < 0.4, chance.random() < 0.25
            text = chance.choice(WORDS)
            if chance.random() < 0.5:
                line = chance.choice(corpus.lines).message
                at = chance.randrange(len(line) + 1)
                text = line[at : at + chance.randint(1, 12)]
            text = chance.choice([text, text.upper(), text.lower(), text.swapcase()])
            bare = "".join(text.split()).replace('"', "").lstrip("-")
            text = text.replace('"', "") if phrase else bare
            if text:
                terms.append((text, phrase, excluded))
        chosen = chance.sample(sorted(values), k=chance.choice([0, 0, 1, 2]))
        asked.append(Asked(tuple(terms), {name: chance.choice(values[name]) for name in chosen}))
    return asked


async def send(agent: Agent, lines: list[dict[str, Any]], batch_id: str | None = None) -> None:
    headers = {"Content-Type": "application/x-ndjson", **({"X-Batch-Id": batch_id} if batch_id else {})}
    body = "\n".join(map(json.dumps, lines)).encode()
    async with agent.api.post(f"{agent.path}/logs", data=io.BytesIO(body), headers=headers) as response:
        assert response.status == 200, await response.text()
        assert await response.json() == {"accepted": len(lines)}


async def search(api: Api, params: dict[str, str]) -> tuple[list[dict[str, Any]], str | None]:
    async with api.get("/api/v1/logs/search", params=params) as response:
        assert response.status == 200, (params, await response.text())
        return await response.json(), response.headers.get("X-Next-Cursor")


async def search_all(api: Api, params: dict[str, str]) -> list[dict[str, Any]]:
    """Page through everything."""
    found, cursor = await search(api, params)
    while cursor:
        page, cursor = await search(api, {**params, "cursor": cursor})
        found += page
    return found


def expected(corpus: Corpus, asked: Asked, start: int, end: int) -> list[tuple[str, str, str]]:
    """Return (time, agent, message) of the lines that are asked for, newest first."""
    lines = sorted(
        (line for line in corpus.lines if asked.matches(line, start, end)),
        key=lambda line: (line.time, line.order),
        reverse=True,
    )
    return [(format_ns(line.time), line.agent_id, line.message) for line in lines]


def told(found: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(line["time"], line["agentId"], line["message"]) for line in found]
