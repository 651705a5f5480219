"""Read the configuration, and later take over those parts that may change while serving."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import structlog

from monitor.config.bind import Binder
from monitor.config.document import ConfigError, read_document
from monitor.config.models import Config

_RELOADABLE = ("retention", "limits", "log.level")
_log = structlog.get_logger(__name__)


def load(path: Path, env: Mapping[str, str] = os.environ) -> Config:
    """Return the configuration that the file at *path* describes.

    Paths of ``*_file`` keys are relative to the file's directory.

    Raises:
        ConfigError: With everything that is wrong, as far as it can be read.
    """
    binder = Binder(path.parent, env)
    config = binder.section(Config, read_document(path))
    if config is None:
        raise ConfigError(path, binder.problems)
    return config


def reload(old: Config, path: Path, env: Mapping[str, str] = os.environ) -> Config:
    """Return *old* with retention, limits and log level as the file at *path* has them now.

    Other keys that differ are logged: they hold only after a restart.

    Raises:
        ConfigError: The file is wrong; *old* should stay in force.
    """
    new = load(path, env)
    if keys := restart_keys(old, new):
        _log.warning("configuration changed where only a restart takes it over", path=str(path), keys=keys)
    return msgspec.structs.replace(
        old,
        retention=new.retention,
        limits=new.limits,
        log=msgspec.structs.replace(old.log, level=new.log.level),
    )


def restart_keys(old: Config, new: Config) -> list[str]:
    """Return the keys that differ and cannot be taken over while serving, in the file's order."""
    return [key for key in changed_keys(old, new) if not _is_reloadable(key)]


def changed_keys(old: Config, new: Config) -> list[str]:
    """Return the dotted keys whose values differ, never the values, in the file's order."""
    return list(_changes("", old, new))


def _is_reloadable(key: str) -> bool:
    return any(key == part or key.startswith(f"{part}.") for part in _RELOADABLE)


def _changes(key: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    pairs: dict[str, tuple[Any, Any]] = {}
    if isinstance(old, msgspec.Struct) and isinstance(new, msgspec.Struct):
        for item in msgspec.structs.fields(old):
            pairs[item.encode_name] = (getattr(old, item.name), getattr(new, item.name))
    elif isinstance(old, dict) and isinstance(new, dict):
        pairs = {name: (old.get(name), new.get(name)) for name in [*old, *new]}
    else:
        yield key
    for name, (before, after) in pairs.items():
        yield from _changes(f"{key}.{name}" if key else name, before, after)
