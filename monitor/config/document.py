"""A configuration file as YAML nodes that know their lines, and what may be wrong with it.

Nothing in the file can make reading it expensive: its size and depth are bounded, and
anchors, aliases and tags are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

MAX_FILE_BYTES = 1_048_576  # thousands of organizations with settings of their own
MAX_DEPTH = 16  # the schema has 4 levels


class Problem(Struct, frozen=True, order=True):
    """One thing that is wrong: its line (from 1), its dotted key ("" for the file), and why."""

    line: int
    key: str
    message: str


class ConfigError(Exception):
    """The configuration cannot be used; ``str()`` has a line ``path:line: key: message`` per problem.

    Attributes:
        path: The file as it was named.
        problems: All that is wrong, by line.
    """

    def __init__(self, path: Path, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems))
        super().__init__(path, self.problems)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return each problem as ``path:line: key: message``."""
        return [
            ": ".join(filter(None, (f"{self.path}:{it.line}", it.key, it.message))) for it in self.problems
        ]


class _BoundedLoader(yaml.SafeLoader):
    """Composes plain trees only: no node is reached twice, none lies too deep."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        refused = None
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            refused = "anchors and aliases are not supported"
        elif event.tag is not None:
            refused = "tags are not supported"
        elif self._depth == MAX_DEPTH:
            refused = f"nested deeper than {MAX_DEPTH} levels"
        if refused:
            raise yaml.MarkedYAMLError(problem=refused, problem_mark=event.start_mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def read_text(path: Path, max_bytes: int) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        ValueError: It cannot be read, is longer than *max_bytes*, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from None
    if len(content) > max_bytes:
        raise ValueError(f"is larger than {max_bytes} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 (at byte {error.start})") from None


def read_document(path: Path) -> yaml.Node | None:
    """Return the root node of the YAML file at *path*, None if it is empty.

    Raises:
        ConfigError: It cannot be read or is not one plain YAML document.
    """
    try:
        text = read_text(path, MAX_FILE_BYTES)
    except ValueError as error:
        raise ConfigError(path, [Problem(1, "", str(error))]) from None
    try:
        loader = _BoundedLoader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"the character U+{ord(text[error.position]):04X} is not allowed"
        raise ConfigError(path, [Problem(line, "", message)]) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        # An unquoted secret that begins with "!" is taken for a tag and would be quoted here.
        message = re.sub(r"'![^']*'", "'!…'", error.problem or "is not YAML")
        raise ConfigError(path, [Problem(line, "", message)]) from None
