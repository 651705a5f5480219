"""YAML nodes become the structs of ``models``, or a list of all that is wrong with them.

The schema decides how a text is read, never the look of the text: ``on``, ``0x10`` and
``1:30`` are no surprises.  ``${NAME}`` and ``${NAME:-default}`` stand for environment
variables, ``$${`` for ``${``.  An empty value is None where that is allowed, and a
section or list without content is one that was left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import yaml
from msgspec import Meta
from msgspec.structs import FieldInfo, fields

from monitor.config.document import Problem, read_text
from monitor.config.models import Section, is_secret
from monitor.config.values import Parsed, did_you_mean, one_of

MAX_SECRET_FILE_BYTES = 65_536  # a secret is a line or a few
_REFERENCE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\})?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")  # 010 is 8 or 10, depending on whom one asks
_NULL_TAG = "tag:yaml.org,2002:null"
_INVALID: Final = object()  # in the place of a value whose problem is already noted
S = TypeVar("S", bound=Section)


def expand(text: str, env: Mapping[str, str]) -> str:
    """Return *text* with its references to environment variables replaced.

    As in a shell, the default of ``${NAME:-default}`` also replaces an empty variable.

    Raises:
        ValueError: A variable without default is not set, or a reference is malformed.
    """

    def replacement(match: re.Match[str]) -> str:
        name, default = match.groups()
        if match[0] == "$${":
            return "${"
        if name is None:
            raise ValueError("malformed reference, expected ${NAME} or ${NAME:-default}; $${ is a plain ${")
        if default is not None:
            return env.get(name) or str(default)
        if name not in env:
            raise ValueError(f"environment variable {name} is not set")
        return env[name]

    return _REFERENCE.sub(replacement, text)


def parse_value(text: str, hint: Any) -> Any:
    """Return the value of type *hint* that *text* stands for.

    Raises:
        ValueError: It stands for none; the message never has a secret's text.
    """
    base, notes = _without_notes(hint)
    for note in notes:
        if isinstance(note, Parsed):
            return note.read(text)
    if get_origin(base) is Literal:
        return one_of(text, get_args(base))
    if base is not int:
        raise TypeError(f"no reader for {hint}")
    bounds = next((note for note in notes if isinstance(note, Meta)), Meta())
    number = int(text) if _INTEGER.fullmatch(text) else None
    low, high = bounds.ge, bounds.le
    if number is None or (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(f'expected an integer from {low} to {high}, found "{text[:64]}"')
    return number


class Binder:
    """Reads nodes into structs and notes every problem on the way.

    Args:
        directory: What relative paths of ``*_file`` keys start from.
        env: What ``${NAME}`` refers to.
    """

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        self.problems: list[Problem] = []
        self._directory = directory
        self._env = env

    def section(self, cls: type[S], node: yaml.Node | None, key: str = "", line: int = 1) -> S | None:
        """Return the *cls* that the mapping *node* describes; None after a problem.

        Args:
            cls: The schema.
            node: None for a file without content.
            key: Dotted key of the section, "" for the whole file.
            line: Where the section begins, for what is missing in it.
        """
        noted = len(self.problems)
        known = {item.encode_name: item for item in fields(cls)}
        of_files = {f"{name}_file": item for name, item in known.items() if is_secret(item.type)}
        values: dict[str, Any] = {}
        for name, key_node, value in self._entries(node, key):
            path, item = _join(key, name), known.get(name) or of_files.get(name)
            if item is None:
                hint = did_you_mean(name, [*known, *of_files]) or f"; known here: {', '.join(known)}"
                self._note(key_node, path, f"unknown key{hint}")
            elif item.name in values:
                self._note(
                    key_node, path, f"{item.encode_name} and {item.encode_name}_file exclude each other"
                )
            elif name in of_files:
                values[item.name] = self._secret_of_file(item, value, path)
            else:
                values[item.name] = self._value(item.type, value, path, _line(key_node))
        for item in fields(cls):
            if item.name not in values and item.required:
                values[item.name] = self._absent(item, _join(key, item.encode_name), line)
        if len(self.problems) > noted:
            return None
        try:
            return cls(**values)
        except ValueError as error:
            self.problems.append(Problem(line, key, str(error)))
            return None

    def _value(self, hint: Any, node: yaml.Node, key: str, line: int) -> Any:
        hint, optional = _without_none(hint)
        base, notes = _without_notes(hint)
        if isinstance(base, type) and issubclass(base, Section):
            return self.section(base, node, key, line)
        if get_origin(base) is dict:
            return self._table(base, node, key)
        if get_origin(base) is tuple:
            return self._items(base, notes, node, key)
        text = self._text(node, key)
        if text is None:
            return _INVALID
        if not text and optional:
            return None
        return self._parsed(text, hint, node, key)

    def _absent(self, item: FieldInfo, key: str, line: int) -> Any:
        """Note what a required key lacks: for a section, each thing that is required in it."""
        if isinstance(item.type, type) and issubclass(item.type, Section):
            return self.section(item.type, None, key, line)
        or_file = f", or {item.encode_name}_file" if is_secret(item.type) else ""
        self.problems.append(Problem(line, key, f"is required{or_file}"))
        return _INVALID

    def _table(self, base: Any, node: yaml.Node, key: str) -> dict[str, Any]:
        key_hint, value_hint = get_args(base)
        table = {}
        for name, key_node, value in self._entries(node, key):
            path = _join(key, name)
            if self._parsed(name, key_hint, key_node, path) is not _INVALID:
                table[name] = self._value(value_hint, value, path, _line(key_node))
        return table

    def _items(self, base: Any, notes: tuple[Any, ...], node: yaml.Node, key: str) -> tuple[Any, ...]:
        element = get_args(base)[0]
        if isinstance(node, yaml.SequenceNode):
            nodes = enumerate(node.value)
            items = tuple(self._value(element, each, f"{key}[{i}]", _line(each)) for i, each in nodes)
        elif self._text(node, key, expected="a list") == "":
            items = ()
        else:
            if isinstance(node, yaml.ScalarNode):
                self._note(node, key, "expected a list, found a single value")
            return ()
        self._check_length(items, notes, node, key)
        return items

    def _check_length(
        self, items: tuple[Any, ...], notes: tuple[Any, ...], node: yaml.Node, key: str
    ) -> None:
        for note in notes:
            if isinstance(note, Meta) and note.min_length is not None and len(items) < note.min_length:
                self._note(node, key, f"needs at least {note.min_length}, has {len(items)}")
            if isinstance(note, Meta) and note.max_length is not None and len(items) > note.max_length:
                self._note(node, key, f"takes at most {note.max_length}, has {len(items)}")

    def _secret_of_file(self, item: FieldInfo, node: yaml.Node, key: str) -> Any:
        """Return the content of a ``*_file``: one secret, or one per line where several are wanted."""
        hint, optional = _without_none(item.type)
        base, notes = _without_notes(hint)
        name = self._text(node, key)
        if name is None:
            return _INVALID
        if not name:
            if not optional:
                self._note(node, key, "must not be empty")
            return None
        try:
            content = read_text(self._directory / name, MAX_SECRET_FILE_BYTES)
        except ValueError as error:
            self._note(node, key, f'file "{name}" {error}')
            return _INVALID
        if get_origin(base) is not tuple:
            return self._parsed(content.rstrip("\r\n"), hint, node, key)
        element = get_args(base)[0]
        lines = enumerate(content.splitlines(), start=1)
        items = tuple(self._parsed(each, element, node, key, f"line {n}: ") for n, each in lines if each)
        self._check_length(items, notes, node, key)
        return items

    def _parsed(self, text: str, hint: Any, node: yaml.Node, key: str, where: str = "") -> Any:
        if not text:
            self._note(node, key, f"{where}must not be empty")
            return _INVALID
        try:
            return parse_value(text, hint)
        except ValueError as error:
            self._note(node, key, f"{where}{error}")
            return _INVALID

    def _text(self, node: yaml.Node, key: str, expected: str = "a single value") -> str | None:
        """Return the text of a scalar with its references replaced, "" for null; None after a problem."""
        if not isinstance(node, yaml.ScalarNode):
            self._note(node, key, f"expected {expected}, found {_kind(node)}")
            return None
        if node.tag == _NULL_TAG:
            return ""
        try:
            return expand(node.value, self._env)
        except ValueError as error:
            self._note(node, key, str(error))
            return None

    def _entries(self, node: yaml.Node | None, key: str) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """Yield name, key node and value node of each entry of a mapping, the repeated ones left out."""
        if node is None or (isinstance(node, yaml.ScalarNode) and node.tag == _NULL_TAG):
            return
        if not isinstance(node, yaml.MappingNode):
            self._note(node, key, f"expected a mapping, found {_kind(node)}")
            return
        lines: dict[str, int] = {}
        for key_node, value in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._note(key_node, key, f"expected a key, found {_kind(key_node)}")
            elif key_node.value in lines:
                first = lines[key_node.value]
                self._note(key_node, _join(key, key_node.value), f"already stands in line {first}")
            else:
                lines[key_node.value] = _line(key_node)
                yield key_node.value, key_node, value

    def _note(self, node: yaml.Node, key: str, message: str) -> None:
        self.problems.append(Problem(_line(node), key, message))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else "a single value"


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Return the hint of what may be absent, and whether it may."""
    if get_origin(hint) not in {Union, UnionType}:
        return hint, False
    rest = [arg for arg in get_args(hint) if arg is not NoneType]
    return (rest[0], True) if len(rest) == 1 else (hint, False)


def _without_notes(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return an annotated type and its annotations."""
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()
