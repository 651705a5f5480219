"""Read the documentation: its pages, their fences of code, the commands in them, their headings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.M | re.S)
_HEADING = re.compile(r"^#+ +(.+?) *$", re.M)
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


class Fence(NamedTuple):
    """A block of code; ``line`` is that of its first line of code."""

    language: str
    code: str
    line: int


class Command(NamedTuple):
    """A command of a page, with its comments."""

    page: str
    line: int
    text: str

    @property
    def bare(self) -> str:
        """The command on one line, without its comments."""
        return " ".join(_without_comments(self.text.replace("\\\n", " ")).split())

    @property
    def place(self) -> str:
        """Where it stands, as an editor takes it."""
        return f"{self.page}:{self.line}"


def name_of(page: Path) -> str:
    """Return the path of *page* in the checkout."""
    return page.relative_to(ROOT).as_posix()


def fences(text: str) -> list[Fence]:
    """Return all fences of a page."""
    return [
        Fence(match[2], dedent(match[3]), text.count("\n", 0, match.start(3)) + 1)
        for match in _FENCE.finditer(text)
    ]


def without_fences(text: str) -> str:
    """Return *text* with the lines of its fences left empty."""
    return _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)


def inline_code(text: str) -> list[str]:
    """Return what stands between single backticks, on one line each."""
    return [" ".join(code.split()) for code in _INLINE.findall(without_fences(text))]


def anchors(text: str) -> set[str]:
    """Return the names by which GitHub links to the headings of a page."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(without_fences(text)))
    return {heading.replace(" ", "-") for heading in plain}


def commands() -> list[Command]:
    """Return the commands of all pages, as their ``sh`` fences have them."""
    return [
        Command(name_of(page), fence.line + offset, text)
        for page in PAGES
        for fence in fences(page.read_text(encoding="utf-8"))
        if fence.language == "sh"
        for offset, text in split(fence.code)
    ]


def split(code: str) -> Iterator[tuple[int, str]]:
    """Yield the line number, from 0, and the text of each command.

    A command goes on after a backslash at the end of a line and within quotes.

    Raises:
        ValueError: The last one does not end.
    """
    held: list[str] = []
    for number, line in enumerate(code.splitlines()):
        if not held and (not line.strip() or line.lstrip().startswith("#")):
            continue
        held.append(line)
        text = "\n".join(held)
        if not line.endswith("\\") and _is_whole(text):
            yield number - len(held) + 1, text
            held = []
    if held:
        raise ValueError(f"a command that does not end: {' '.join(held)}")


def _is_whole(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:  # an open quote
        return False
    return True


def _without_comments(text: str) -> str:
    """Return *text* without its comments: a ``#`` after a blank, with no open quote before it."""
    kept, start = [], 0
    for match in re.finditer(r"(?<!\S)#[^\n]*", text):
        if _is_whole(text[: match.start()]):
            kept.append(text[start : match.start()])
            start = match.end()
    return "".join([*kept, text[start:]])
