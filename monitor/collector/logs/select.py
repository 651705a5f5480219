"""Which containers' logs are shipped.  Pure but for reading who we are."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

LABEL = "monitor.logs"
NO = frozenset({"false", "no", "off", "0"})
YES = frozenset({"true", "yes", "on", "1"})

_ID = re.compile(r"[0-9a-f]{64}")
_SHORT_ID = re.compile(r"[0-9a-f]{12}")


def is_shipped(name: str, labels: Mapping[str, str], exclude: Iterable[str], *, is_own: bool) -> bool:
    """Return whether a container's log is shipped.

    Its label ``monitor.logs`` says so in either direction.  Without it, our own
    container's is not (each shipped line would make another), nor are those whose
    name one of the globs in *exclude* matches.
    """
    label = labels.get(LABEL, "").strip().lower()
    if label in NO | YES:
        return label in YES
    return not is_own and not any(fnmatchcase(name, glob) for glob in exclude)


def own_container(cgroup: str, mountinfo: str, hostname: str) -> str | None:
    """Return the id of the container we run in, or how it begins; None outside of any.

    Args:
        cgroup: ``/proc/self/cgroup``: has the id below cgroup v1, and below v2 outside of a namespace.
        mountinfo: ``/proc/self/mountinfo``: engines mount a container's ``/etc/hostname`` from a
            directory that is named for it.  Other mounts there may be of any container.
        hostname: The short id, unless it was given otherwise.
    """
    for line in cgroup.splitlines():
        if ids := _ID.findall(line):
            return str(ids[-1])
    for line in mountinfo.splitlines():
        fields = line.split()
        if len(fields) > 4 and fields[4] == "/etc/hostname" and (ids := _ID.findall(fields[3])):
            return str(ids[-1])
    return hostname if _SHORT_ID.fullmatch(hostname) else None


def this_container() -> str | None:
    """Return ``own_container`` of this process."""
    return own_container(_text("/proc/self/cgroup"), _text("/proc/self/mountinfo"), socket.gethostname())


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # no Linux, or hidden from us
