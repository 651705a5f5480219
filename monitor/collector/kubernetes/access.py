"""Where a cluster's API server is, and what opens it.

Credentials change under a running agent: service account tokens are rotated every
hour, plugins give short-lived ones.  So they are loaded again every minute, when they
expire, and when the API server refuses them.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct
from yarl import URL

from monitor.collector.failure import AgentStopped, EngineAway

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RELOAD_SECONDS = 60.0  # the kubelet writes a new token when 80 % of the old one's life is over
REFUSED_SECONDS = 5.0  # many requests may be refused at once, and a plugin may ask a person
DEFAULT_KUBECONFIG = Path("~/.kube/config")


class Material(Struct, frozen=True):
    """Everything secret or trusted, as loaded; PEM texts.

    ``expires_at`` is in unix seconds, None where it does not say.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    token: str | None = None
    insecure: bool = False
    expires_at: float | None = None


class Credentials(Struct, frozen=True):
    """What a request carries."""

    headers: dict[str, str]
    tls: ssl.SSLContext | bool


class Access:
    """The way to one API server.

    Args:
        server: Its address.
        load: Gives the present material.
        proxy: For this cluster alone.
        trust_env: Whether the proxy variables count too.
        server_name: The name in its certificate, where that is not the address's host.
    """

    def __init__(
        self,
        server: URL,
        load: Callable[[], Awaitable[Material]],
        *,
        proxy: str | None = None,
        trust_env: bool = True,
        server_name: str | None = None,
    ) -> None:
        self.server = server
        self.proxy = proxy
        self.trust_env = trust_env
        self.server_name = server_name
        self._load = load
        self._loaded_at = 0.0
        self._material: Material | None = None
        self._tls: ssl.SSLContext | bool = True
        self._material_is_old = False
        self._loading = asyncio.Lock()

    async def credentials(self) -> Credentials:
        """Return what the next request carries.

        Raises:
            EngineAway: They cannot be had now.
            AgentStopped: The kubeconfig holds something else than certificates.
        """
        async with self._loading:  # a plugin is asked once, however many requests wait for it
            material = await self._present_material()
        headers = {"Authorization": f"Bearer {material.token}"} if material.token else {}
        return Credentials(headers, self._tls)

    async def _present_material(self) -> Material:
        material = self._material
        is_old = self._material_is_old or time.monotonic() - self._loaded_at > RELOAD_SECONDS
        if material is not None and not is_old and not _is_over(material):
            return material
        loaded = await self._load()
        # A new context takes new connections: only when something in it has changed.
        if material is None or _trust(loaded) != _trust(material):
            self._tls = _tls_context(loaded) if self.server.scheme == "https" else False
        self._material, self._loaded_at = loaded, time.monotonic()
        self._material_is_old = False
        return loaded

    def refused(self) -> None:
        """Note that the API server does not take these credentials: load them again, but not for each refusal."""
        if time.monotonic() - self._loaded_at > REFUSED_SECONDS:
            self._material_is_old = True


def in_cluster() -> Access | None:
    """Return the access of a pod by its service account; None outside of any cluster.

    Raises:
        AgentStopped: The pod has no service account token.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        return None
    if not (SERVICE_ACCOUNT / "token").exists():
        raise AgentStopped(
            f"this pod has no service account token in {SERVICE_ACCOUNT}: "
            "set serviceAccountName, and leave automountServiceAccountToken on",
            exit_code=2,
        )

    async def load() -> Material:
        return Material(ca=read_text(SERVICE_ACCOUNT / "ca.crt"), token=read_text(SERVICE_ACCOUNT / "token"))

    # The address is the cluster's own: a proxy for the way out does not know it.
    return Access(URL.build(scheme="https", host=host, port=int(port)), load, trust_env=False)


def read_text(path: Path) -> str:
    """Return what *path* holds, without white space around it.

    Raises:
        EngineAway: It cannot be read, or is empty.
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise EngineAway(f"{path} cannot be read: {error}") from error
    if not text:
        raise EngineAway(f"{path} is empty")
    return text


def _is_over(material: Material) -> bool:
    return material.expires_at is not None and material.expires_at <= time.time()


def _trust(material: Material) -> tuple[str | None, str | None, str | None, bool]:
    return material.ca, material.certificate, material.key, material.insecure


def _tls_context(material: Material) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=material.ca)
        if material.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if material.certificate and material.key:
            _load_certificate(context, material.certificate, material.key)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise EngineAway(f"the cluster's certificates cannot be used: {error}") from error
    return context


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    # OpenSSL takes a certificate and its key from files only; this one is readable by us alone.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate + "\n" + key + "\n")
        file.flush()
        context.load_cert_chain(file.name)
