"""Make the request that creates another container like a given one.  Pure.

https://docs.docker.com/reference/api/engine/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from monitor.collector.scale.group import ADDED_LABEL, NUMBER_LABEL

LB_POOL_LABEL = "monitor.scale.lb-pool"  # for load balancers that find their members by labels
REPLACED_LABEL = "com.docker.compose.replace"  # names the one container that its bearer took the place of
# These are no networks that a container is attached to by its name there.
OWN_NETWORK_MODES = frozenset({"", "default", "bridge", "host", "none"})
_ANONYMOUS = re.compile(r"[0-9a-f]{64}")  # the name of a volume that nobody has named


class Clone(Struct, frozen=True):
    """What creates a container.

    Attributes:
        body: Of ``/containers/create``.
        networks: Those to be joined after that, with their endpoints: old engines take one at the creation.
    """

    body: dict[str, Any]
    networks: dict[str, dict[str, Any]]


def fixed_ports(inspected: Mapping[str, Any]) -> list[str]:
    """Return the ports of the host that a container insists on, which no second one can have.

    A range is no such port: the engine takes a free one of it.
    """
    bindings = (inspected["HostConfig"].get("PortBindings") or {}).values()
    wanted = {binding.get("HostPort") or "0" for several in bindings for binding in several or ()}
    return sorted(port for port in wanted if port != "0" and "-" not in port)


def clone(inspected: Mapping[str, Any], name: str, number: int, image: str, lb_pool_ref: str | None) -> Clone:
    """Return how to make the container *name* like an inspected one.

    Everything is taken over but what belongs to one container alone: its hostname if
    the engine gave it, its addresses, its anonymous volumes.

    Args:
        inspected: The answer of ``/containers/{id}/json``.
        name: Of the new container.
        number: Its replica number, for compose's label.
        image: To make it from.
        lb_pool_ref: For our label, if given.
    """
    config = dict(inspected["Config"])
    host = dict(inspected["HostConfig"])
    mode = host.get("NetworkMode") or ""
    shares_network = mode == "host" or mode.startswith("container:")
    if shares_network or config.get("Hostname") == inspected["Id"][:12]:
        config.pop("Hostname", None)
        config.pop("Domainname", None)
    if mode.startswith("container:"):
        config.pop("ExposedPorts", None)
    config.pop("MacAddress", None)
    config["Image"] = image
    config["Labels"] = _labels(config.get("Labels") or {}, number, lb_pool_ref)
    host.pop("ContainerIDFile", None)
    _renew_anonymous_volumes(config, host)
    endpoints = {
        network: _endpoint(inspected, settings, name)
        for network, settings in (inspected["NetworkSettings"].get("Networks") or {}).items()
    }
    if mode in OWN_NETWORK_MODES or mode.startswith("container:"):
        first: dict[str, Any] = {}
        for network in OWN_NETWORK_MODES:
            endpoints.pop(network, None)
    else:
        chosen = _network_of_mode(inspected, mode)
        first = {chosen: endpoints.pop(chosen)} if chosen in endpoints else {}
    body = config | {"HostConfig": host, "NetworkingConfig": {"EndpointsConfig": first}}
    return Clone(body, endpoints)


def _labels(labels: Mapping[str, str], number: int, lb_pool_ref: str | None) -> dict[str, str]:
    copied = {key: text for key, text in labels.items() if key != REPLACED_LABEL}
    copied[ADDED_LABEL] = "true"
    if NUMBER_LABEL in copied:
        copied[NUMBER_LABEL] = str(number)
    if lb_pool_ref is not None:
        copied[LB_POOL_LABEL] = lb_pool_ref
    return copied


def _renew_anonymous_volumes(config: dict[str, Any], host: dict[str, Any]) -> None:
    """Let the new container have anonymous volumes of its own, where the other one names its own.

    Compose names them when it replaces a container by a newer one.
    """
    volumes = dict(config.get("Volumes") or {})
    binds = []
    for bind in host.get("Binds") or ():
        source, _, rest = bind.partition(":")
        if _ANONYMOUS.fullmatch(source):
            volumes[rest.partition(":")[0]] = {}
        else:
            binds.append(bind)
    host["Binds"] = binds
    config["Volumes"] = volumes
    mounts = host.get("Mounts") or ()
    host["Mounts"] = [
        {key: value for key, value in mount.items() if key != "Source"}
        if mount.get("Type") == "volume" and _ANONYMOUS.fullmatch(mount.get("Source") or "")
        else mount
        for mount in mounts
    ]


def _endpoint(inspected: Mapping[str, Any], settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    old_name = inspected["Name"].removeprefix("/")
    own = {inspected["Id"][:12], old_name}
    aliases = settings.get("Aliases") or []
    shared = [alias for alias in aliases if alias not in own]
    endpoint: dict[str, Any] = {"Aliases": [*shared, name] if old_name in aliases else shared}
    for key in ("Links", "DriverOpts"):
        if settings.get(key):
            endpoint[key] = settings[key]
    return endpoint


def _network_of_mode(inspected: Mapping[str, Any], mode: str) -> str:
    """Return the name of the network that the mode names, by name or by id."""
    for network, settings in (inspected["NetworkSettings"].get("Networks") or {}).items():
        if settings.get("NetworkID") == mode:
            return str(network)
    return mode
