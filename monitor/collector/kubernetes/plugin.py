"""Ask a client-go credential plugin, the program that a kubeconfig names, for credentials.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from monitor.collector.failure import EngineAway

PLUGIN_SECONDS = 60.0  # it may ask a cloud's API
TEXT_LIMIT = 500  # characters of its words that are logged


class Variable(Struct, frozen=True):
    """An element of ``env``."""

    name: str
    value: str = ""


class Plugin(Struct, frozen=True, rename="camel"):
    """The ``exec`` of a user."""

    command: str
    api_version: str = "client.authentication.k8s.io/v1"
    args: list[str] | None = None
    env: list[Variable] | None = None
    provide_cluster_info: bool = False
    install_hint: str = ""


class Given(Struct, frozen=True, rename="camel"):
    """The ``status`` of an ExecCredential."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class ExecCredential(Struct, frozen=True, rename="camel"):
    """What the plugin prints."""

    api_version: str
    status: Given | None = None


async def run_plugin(plugin: Plugin, folder: Path, cluster: dict[str, Any]) -> Given:
    """Return what the plugin gives.

    Args:
        plugin: As the kubeconfig names it.
        folder: That of the kubeconfig: a command with a slash is relative to it.
        cluster: What it learns of the cluster, if it asks for that.

    Raises:
        EngineAway: It gives nothing that can be used.
    """
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        spec["cluster"] = cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    command = str(folder / plugin.command) if "/" in plugin.command else plugin.command
    try:
        process = await asyncio.create_subprocess_exec(
            command,
            *(plugin.args or ()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ
            | {one.name: one.value for one in plugin.env or ()}
            | {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()},
        )
    except OSError as error:
        hint = f" ({plugin.install_hint.strip()[:TEXT_LIMIT]})" if plugin.install_hint else ""
        raise EngineAway(
            f"the credential plugin {plugin.command} cannot be run: {error.strerror}{hint}"
        ) from error
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            out, err = await process.communicate()
    except TimeoutError as error:
        raise EngineAway(
            f"the credential plugin {plugin.command} needs more than {PLUGIN_SECONDS:g} s"
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        said = " ".join(err.decode(errors="replace").split())[:TEXT_LIMIT]
        raise EngineAway(f"the credential plugin {plugin.command} ended with {process.returncode}: {said}")
    return given_by(plugin, out)


def given_by(plugin: Plugin, out: bytes) -> Given:
    """Return the credentials in what the plugin has printed.

    Raises:
        EngineAway: There are none.
    """
    try:
        credential = msgspec.json.decode(out, type=ExecCredential)
    except ValueError as error:
        raise EngineAway(
            f"the credential plugin {plugin.command} printed no ExecCredential: {error}"
        ) from error
    if credential.api_version != plugin.api_version:
        raise EngineAway(
            f"the credential plugin {plugin.command} speaks {credential.api_version}, not {plugin.api_version}"
        )
    status = credential.status
    if status is None or not (status.token or (status.client_certificate_data and status.client_key_data)):
        raise EngineAway(f"the credential plugin {plugin.command} gave neither a token nor a certificate")
    return status
