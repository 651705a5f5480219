"""Execute ``docker.scale`` and ``docker.rollback``: bring a group on this host to a number of containers.

The number is a target and no difference, so a command that a crash interrupted is
simply executed again.  Nothing but the group's own containers is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from monitor.collector.docker import Engine
from monitor.collector.executor import Executor
from monitor.collector.failure import CommandFailed, EngineAway
from monitor.collector.logs.select import this_container
from monitor.collector.scale.change import Change, Refused
from monitor.collector.scale.clone import fixed_ports
from monitor.collector.scale.group import Member, newest, steps

MAX_REPLICAS = 1_000  # that a policy may ask for


class Order(Struct, frozen=True, rename="camel"):
    """The payload of both commands; ``replicas`` are those of this host."""

    group: Annotated[str, Meta(min_length=1)]
    replicas: Annotated[int, Meta(ge=0, le=MAX_REPLICAS)]
    lb_pool_ref: str | None = None


def scale_executors(engine: Engine, own: Callable[[], str | None] = this_container) -> Mapping[str, Executor]:
    """Return the executors of both commands for the containers of *engine*; *own* is the agent's id there."""
    scaler = Scaler(engine, own())

    async def scale(payload: dict[str, Any]) -> str:
        return await scaler.scale(order_of(payload), reuse_stopped=True)

    async def rollback(payload: dict[str, Any]) -> str:
        # A rollback starts new containers, not the original ones (api.md).
        return await scaler.scale(order_of(payload), reuse_stopped=False)

    return {"docker.scale": scale, "docker.rollback": rollback}


def order_of(payload: dict[str, Any]) -> Order:
    """Return the payload, checked.

    Raises:
        CommandFailed: It is none; the text names the field.
    """
    try:
        return msgspec.convert(payload, Order)
    except msgspec.ValidationError as error:
        raise CommandFailed(f"not understood: {error}") from error


class Scaler:
    """Brings the groups of one engine to their numbers; *own* is the id of the agent's container there."""

    def __init__(self, engine: Engine, own: str | None) -> None:
        self._engine = engine
        self._own = own

    async def scale(self, order: Order, *, reuse_stopped: bool) -> str:
        """Bring a group to its number; return what was done, in words.

        Args:
            order: The group and the number.
            reuse_stopped: Whether stopped originals are started before new containers are made;
                where none can be made, because of a fixed port, they are started in any case.

        Raises:
            CommandFailed: It has another number now; the text says why, and what was done.
        """
        change = Change(self._engine, order.group, order.replicas, order.lb_pool_ref)
        try:
            members = await change.look()
            self._check(order, members)
            change.before = sum(one.is_present for one in members)
            model = newest(members)
            inspected = await change.inspect(model) if model else {}
            fixed = fixed_ports(inspected) if model else []
            todo = steps(members, order.replicas, reuse_stopped=reuse_stopped or bool(fixed))
            await change.take_away(todo.stop, todo.remove)
            for one in todo.start:
                await change.start(one)
            if todo.clones:
                _check_model(model, fixed)
                await change.clone(inspected, members, todo.clones)
            return await change.outcome()
        except (Refused, EngineAway) as error:
            raise CommandFailed(await change.told(str(error))) from error

    def _check(self, order: Order, members: list[Member]) -> None:
        if not members:
            raise CommandFailed(f"no container of the group {order.group} on this host")
        if self._own is not None and any(one.id.startswith(self._own) for one in members):
            raise CommandFailed(f"the group {order.group} is this agent's own: it does not scale itself")


def _check_model(model: Member | None, fixed: list[str]) -> None:
    if model is None:
        raise Refused("there is no replica to copy")
    if fixed:
        raise Refused(
            f"{model.name} publishes the fixed host port {', '.join(fixed)}, which a second container on this"
            " host cannot have; publish a range of ports or none"
        )
