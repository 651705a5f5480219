"""What docs/troubleshooting.md quotes is what the program says, word for word."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache

from tests.operations.pages import ROOT, fences

PAGE = ROOT / "docs" / "troubleshooting.md"
ENOUGH_LETTERS = 14  # a text with values and fewer letters of its own would fit any message


@cache
def texts() -> list[re.Pattern[str]]:
    """Return each text of the program, its values left open."""
    found = []
    for path in (ROOT / "monitor").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(re.compile(re.escape(node.value)))
            elif isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
                if sum(len(part) for part in parts if part) >= ENOUGH_LETTERS:
                    pattern = "".join(".+" if part is None else re.escape(part) for part in parts)
                    found.append(re.compile(pattern))
    return found


def messages(line: str) -> Iterator[str]:
    """Yield the texts of an answer, of a line of the log, or of the end of a command."""
    if line.startswith("{"):
        yield json.loads(line)["error"]
    elif line.startswith("level="):
        yield from re.findall(r'(?:event|error)="(?:400: )?([^"]+)"', line)
    else:
        yield line.removeprefix("Error: ")


def is_said(message: str) -> bool:
    """Tell whether the program has such a text, with or without a field's name before it."""
    _, _, reason = message.partition(": ")
    return any(text.fullmatch(message) or (reason and text.fullmatch(reason)) for text in texts())


def test_every_quoted_message_is_one_of_the_program():
    quoted = [
        message
        for fence in fences(PAGE.read_text(encoding="utf-8"))
        if fence.language == "text"
        for line in fence.code.splitlines()
        for message in messages(line)
    ]

    assert len(quoted) > 20
    assert [message for message in quoted if not is_said(message)] == []


def test_a_message_that_nothing_says_is_found():
    assert is_said("port 1 on host is in use by another program: choose another port")
    assert not is_said("port 1 on host is used by another program: choose another port")
    assert is_said("collectedAt: the time is older than the retention")
    assert not is_said("collectedAt: the time is older than allowed")
    assert list(messages('level=error event="no snapshot" error="400: gone"')) == ["no snapshot", "gone"]
