"""The containers of a group, and what has to be done to have a given number of them.

What we added carries our label and is removed again; what was there before us is
only ever stopped and started.  A step that a crash left half done is seen in the
list of containers and finished, so the same number may be asked for again and
again.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from monitor.collector.listing import EngineContainer, name_of, pushed_labels
from monitor.wire.derived import group_of
from monitor.wire.push import Container

ADDED_LABEL = "monitor.scale.added"  # on every container that we made
NUMBER_LABEL = "com.docker.compose.container-number"
ONE_OFF_LABEL = "com.docker.compose.oneoff"  # "True" on what `docker compose run` made
# A restarting one may run the next moment: counting it as absent would add containers for ever.
PRESENT_STATES = frozenset({"running", "paused", "restarting"})
STOPPED_STATES = frozenset({"created", "exited"})

_NUMBERED = re.compile(r"(?P<stem>.+[-_])(?P<number>[0-9]+)", re.DOTALL)


class Member(Struct, frozen=True):
    """A container of a group.

    Attributes:
        created: Unix seconds.
        number: Of compose's label, else of the name; 1 where neither has one.
        is_added: Whether we made it.
        is_one_off: Whether it is a single run of the service's image, and no replica.
    """

    id: str
    name: str
    state: str
    created: int
    number: int
    is_added: bool
    is_one_off: bool

    @property
    def is_present(self) -> bool:
        """Whether it counts as a replica that is there."""
        return self.state in PRESENT_STATES


class Steps(Struct, frozen=True):
    """What to do, in this order: stop and remove, start, clone.

    Attributes:
        stop: Containers that were there before us.
        remove: Containers of ours, running or not.
        start: Stopped containers.
        clones: How many new containers to make.
    """

    stop: list[Member]
    remove: list[Member]
    start: list[Member]
    clones: int


def members_of(listed: Iterable[EngineContainer], group: str) -> list[Member]:
    """Return the containers of *group*, those being removed left out, by number."""
    members = [_member(one) for one in listed if _group_of(one) == group]
    relevant = [one for one in members if one.state in PRESENT_STATES | STOPPED_STATES]
    return sorted(relevant, key=lambda one: (one.number, one.created, one.id))


def steps(members: list[Member], replicas: int, *, reuse_stopped: bool) -> Steps:
    """Return how to come to *replicas* present members.

    Args:
        members: Of the group.
        replicas: Wanted on this host.
        reuse_stopped: Whether originals that are stopped are started before new ones are made.
    """
    present = [one for one in members if one.is_present]
    stopped = [one for one in members if not one.is_present and not one.is_one_off]
    ours = [one for one in stopped if one.is_added]
    missing = replicas - len(present)
    if missing > 0:
        originals = [one for one in stopped if not one.is_added] if reuse_stopped else []
        # A created one may lack what comes after its creation: it is made anew.
        start = (originals + [one for one in ours if one.state != "created"])[:missing]
        unused = [one for one in ours if one not in start]
        return Steps([], unused, start, missing - len(start))
    replaceable = sorted((one for one in present if not one.is_one_off), key=_stays_longest)
    go = replaceable[: len(present) - replicas]
    mine = [one for one in go if one.is_added]
    return Steps([one for one in go if not one.is_added], mine + ours, [], 0)


def newest(members: Iterable[Member]) -> Member | None:
    """Return the replica to be cloned: the newest running one, else the newest; None if there is none."""
    replicas = [one for one in members if not one.is_one_off]
    return max(
        replicas,
        key=lambda one: (one.state == "running", one.is_present, one.created, one.number),
        default=None,
    )


def stem_of(name: str) -> str:
    """Return the part of a replica's name before its number: ``shop-web-`` of ``shop-web-3``, ``db-`` of ``db``."""
    match = _NUMBERED.fullmatch(name)
    return match["stem"] if match else f"{name}-"


def next_number(stem: str, names: Iterable[str], members: Iterable[Member]) -> int:
    """Return the number after the highest of *members*, and of all *names* on the host that begin with *stem*."""
    numbers = [one.number for one in members]
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match and match["stem"] == stem:
            numbers.append(int(match["number"]))
    return max(numbers, default=0) + 1


def _group_of(listed: EngineContainer) -> str:
    # By the name and the labels that are pushed, so that we and the service agree.
    return group_of(Container(listed.id, name_of(listed), labels=pushed_labels(listed.labels or {})))


def _member(listed: EngineContainer) -> Member:
    labels = listed.labels or {}
    name = name_of(listed)
    match = _NUMBERED.fullmatch(name)
    text = labels.get(NUMBER_LABEL, "")
    if not (text.isascii() and text.isdecimal()):
        text = match["number"] if match else "1"
    return Member(
        id=listed.id,
        name=name,
        state=listed.state,
        created=listed.created,
        number=int(text),
        is_added=ADDED_LABEL in labels,
        is_one_off=labels.get(ONE_OFF_LABEL, "").lower() == "true",
    )


def _stays_longest(one: Member) -> tuple[bool, bool, int, int]:
    """Return a key that sorts ours first, what does not run before what does, newest first."""
    return (not one.is_added, one.state == "running", -one.created, -one.number)
