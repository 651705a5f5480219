"""Read kubeconfig files as kubectl does: contexts, certificates, tokens, and exec plugins.

https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import Struct
from yarl import URL

from monitor.collector.failure import AgentStopped
from monitor.collector.kubernetes.access import DEFAULT_KUBECONFIG, Access, Material, in_cluster, read_text
from monitor.collector.kubernetes.plugin import Plugin, run_plugin


class ClusterEntry(Struct, frozen=True, rename="kebab"):
    """A ``cluster`` of the file."""

    server: str
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class UserEntry(Struct, frozen=True, rename="kebab"):
    """A ``user`` of the file."""

    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    exec: Plugin | None = None
    auth_provider: dict[str, Any] | None = None


class ContextEntry(Struct, frozen=True):
    """A ``context`` of the file: which user at which cluster."""

    cluster: str
    user: str = ""


class NamedCluster(Struct, frozen=True):
    """An element of ``clusters``."""

    name: str
    cluster: ClusterEntry


class NamedUser(Struct, frozen=True):
    """An element of ``users``."""

    name: str
    user: UserEntry | None = None


class NamedContext(Struct, frozen=True):
    """An element of ``contexts``."""

    name: str
    context: ContextEntry


class File(Struct, frozen=True, rename="kebab"):
    """A kubeconfig file."""

    current_context: str | None = None
    clusters: list[NamedCluster] | None = None
    users: list[NamedUser] | None = None
    contexts: list[NamedContext] | None = None


Entry = TypeVar("Entry")


def kubeconfig_access(paths: list[Path], context_name: str | None = None) -> Access:
    """Return the access that the files give; where several name one thing, the first counts.

    Args:
        paths: Files that do not exist are passed over.
        context_name: The context to use; None for the files' own.

    Raises:
        AgentStopped: They give none.
    """
    files = [(path, _read(path)) for path in paths if path.exists()]
    where = ":".join(map(str, paths))
    if not files:
        raise AgentStopped(f"no kubeconfig: {where} does not exist", exit_code=2)
    clusters: dict[str, tuple[Path, ClusterEntry]] = {}
    users: dict[str, tuple[Path, UserEntry]] = {}
    contexts: dict[str, ContextEntry] = {}
    for path, file in files:
        for one in file.clusters or ():
            clusters.setdefault(one.name, (path.parent, one.cluster))
        for who in file.users or ():
            users.setdefault(who.name, (path.parent, who.user or UserEntry()))
        for each in file.contexts or ():
            contexts.setdefault(each.name, each.context)
    name = context_name or next((file.current_context for _, file in files if file.current_context), None)
    if not name:
        raise AgentStopped(f"{where}: no current-context; name one with --context", exit_code=2)
    context = _named(contexts, name, "context", where)
    folder, cluster = _named(clusters, context.cluster, "cluster", where)
    user_folder, user = _named(users, context.user, "user", where) if context.user else (folder, UserEntry())
    if user.auth_provider and not (user.exec or user.token or user.token_file):
        raise AgentStopped(
            f"{where}: user {context.user!r} has an auth-provider, which Kubernetes has removed; use exec",
            exit_code=2,
        )
    server = URL(cluster.server)
    if server.scheme not in {"http", "https"} or not server.host:
        raise AgentStopped(f"{where}: cluster {context.cluster!r}: server is no address", exit_code=2)

    async def load() -> Material:
        ca = _pem(folder, cluster.certificate_authority, cluster.certificate_authority_data)
        own = Material(
            ca=ca,
            certificate=_pem(user_folder, user.client_certificate, user.client_certificate_data),
            key=_pem(user_folder, user.client_key, user.client_key_data),
            token=read_text(user_folder / user.token_file) if user.token_file else user.token,
            insecure=cluster.insecure_skip_tls_verify,
        )
        if user.exec is None or own.token:
            return own
        given = await run_plugin(user.exec, user_folder, cluster_info(cluster, ca))
        return msgspec.structs.replace(
            own,
            token=given.token,
            certificate=given.client_certificate_data or own.certificate,
            key=given.client_key_data or own.key,
            expires_at=given.expiration_timestamp.timestamp() if given.expiration_timestamp else None,
        )

    return Access(server, load, proxy=cluster.proxy_url, server_name=cluster.tls_server_name)


def cluster_info(cluster: ClusterEntry, ca: str | None) -> dict[str, Any]:
    """Return what a plugin that asks for it learns of the cluster."""
    info: dict[str, Any] = {"server": cluster.server, "config": None}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if ca:
        info["certificate-authority-data"] = base64.b64encode(ca.encode()).decode()
    if cluster.proxy_url:
        info["proxy-url"] = cluster.proxy_url
    return info


def _read(path: Path) -> File:
    try:
        # JSON is YAML too, and empty files are allowed.
        return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")) or {}, File)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise AgentStopped(f"{path} cannot be read: {error}", exit_code=2) from error


def _named(entries: Mapping[str, Entry], name: str, kind: str, where: str) -> Entry:
    entry = entries.get(name)
    if entry is None:
        raise AgentStopped(f"{where}: there is no {kind} {name!r}", exit_code=2)
    return entry


def _pem(folder: Path, path: str | None, encoded: str | None) -> str | None:
    """Return the PEM text of the data, else of the file."""
    if encoded:
        try:
            return base64.b64decode("".join(encoded.split()), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise AgentStopped(
                f"a certificate or key in the kubeconfig is not base64 of PEM: {error}"
            ) from error
    return read_text(folder / path) if path else None


def find_access(kubeconfig: str | None, context: str | None) -> Access:
    """Return the access by *kubeconfig* (files, separated as in PATH), the pod's own, or the user's file.

    Raises:
        AgentStopped: There is none.
    """
    if kubeconfig:
        paths = [Path(path).expanduser() for path in kubeconfig.split(os.pathsep) if path]
        return kubeconfig_access(paths, context)
    default = DEFAULT_KUBECONFIG.expanduser()
    if context is None and (own := in_cluster()):
        return own
    return kubeconfig_access([default], context)
