"""A real Kubernetes API server with its controllers, below a temporary directory.

It has neither scheduler nor kubelets: tests bind pods to nodes and write their status as
those would, and a stand-in answers for the kubelets' logs.  Authorization is on (RBAC).
``scripts/kubernetes.sh`` builds the programs, once.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.collector.kubernetes.certificates import make_certificates

START_SECONDS = 120.0  # usually five
STOP_SECONDS = 30.0
CALL_SECONDS = 60.0
ADMIN_TOKEN = "admin-of-the-tests"
CONTROLLERS = "deployment,replicaset,namespace,serviceaccount,serviceaccount-token,garbagecollector"


class ClusterError(Exception):
    """Kubernetes cannot run here; the text says why."""


def programs_folder() -> Path:
    """Return the folder of the programs that were built.

    Raises:
        ClusterError: There is none.
    """
    named = os.environ.get("KUBE_APISERVER")
    if not named:
        raise ClusterError("KUBE_APISERVER is not set; `make test-kubernetes` builds and sets it")
    folder = Path(named).parent if Path(named).is_file() else Path(named)
    for program in ("kube-apiserver", "kube-controller-manager"):
        if not os.access(folder / program, os.X_OK):
            raise ClusterError(f"no {program} in {folder}; scripts/kubernetes.sh builds it")
    return folder


class KubernetesCluster:
    """A running cluster and what tests do with it.

    Attributes:
        server: The API server's address.
        ca: The certificate of its authority.
        kubeconfig: That of an administrator.

    Raises:
        ClusterError: A program is missing.
    """

    def __init__(self, root: Path) -> None:
        self._folder = programs_folder()
        for program in ("etcd", "kubectl", "openssl"):
            if shutil.which(program) is None:
                raise ClusterError(f"the program {program} is missing; scripts/kubernetes.sh installs it")
        self._root = root
        self._children: list[subprocess.Popen[bytes]] = []
        self._port = free_port()
        self.server = f"https://127.0.0.1:{self._port}"
        self.certificates = make_certificates(root, "DNS:localhost,IP:127.0.0.1")
        self.ca = self.certificates.ca
        self.kubeconfig = self.kubeconfig_with(ADMIN_TOKEN, "admin")

    def start(self) -> None:
        """Start etcd, the API server and the controllers.

        Raises:
            ClusterError: Something does not come up.
        """
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._spawn(
            *("etcd", "--data-dir", str(self._root / "etcd"), "--log-level", "error"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}", "--unsafe-no-fsync"),
        )
        (self._root / "tokens.csv").write_text(f"{ADMIN_TOKEN},admin,admin,system:masters\n")
        subprocess.run(
            ["openssl", "genrsa", "-out", self._root / "accounts.key", "2048"],
            check=True,
            capture_output=True,
        )
        accounts = str(self._root / "accounts.key")
        self._spawn(
            *(str(self._folder / "kube-apiserver"), "--etcd-servers", client, "--authorization-mode", "RBAC"),
            *("--bind-address", "127.0.0.1", "--secure-port", str(self._port), "--insecure-port", "0"),
            *("--tls-cert-file", str(self.certificates.server)),
            *("--tls-private-key-file", str(self.certificates.server_key)),
            *("--token-auth-file", str(self._root / "tokens.csv"), "--endpoint-reconciler-type", "none"),
            *("--service-account-issuer", "https://kubernetes.test", "--service-account-key-file", accounts),
            *("--service-account-signing-key-file", accounts, "--service-cluster-ip-range", "10.0.0.0/24"),
            *("--proxy-client-cert-file", str(self.certificates.client)),
            *("--proxy-client-key-file", str(self.certificates.client_key)),
        )
        self._until(self._is_ready, "the API server is not ready")
        self._spawn(
            *(str(self._folder / "kube-controller-manager"), "--kubeconfig", str(self.kubeconfig)),
            *("--controllers", CONTROLLERS, "--leader-elect=false", "--port", "0", "--secure-port", "0"),
            *("--service-account-private-key-file", accounts, "--root-ca-file", str(self.ca)),
        )
        self._until(self._has_default_account, "the controllers do nothing")

    def stop(self) -> None:
        """Stop all of it; what was stored is gone with its directory."""
        for child in reversed(self._children):
            child.terminate()
        for child in self._children:
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Return what kubectl prints.

        Raises:
            AssertionError: It failed; with *check* alone.
        """
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=CALL_SECONDS,
            check=False,
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    def get(self, *arguments: str) -> Any:
        """Return what ``kubectl get`` gives, as JSON."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, *documents: dict[str, Any]) -> None:
        """Create or change objects, as kubectl's own field manager."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def write_status(self, path: str, status: dict[str, Any]) -> None:
        """Merge a status into an object, as its kubelet would; *path* is that of the API."""
        self.request(
            "PATCH", f"{path}/status", {"status": status}, content_type="application/merge-patch+json"
        )

    def bind(self, namespace: str, pod: str, node: str) -> None:
        """Place a pod on a node, as the scheduler would."""
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self.request(
            "POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", binding | {"target": target}
        )

    def account_token(self, namespace: str, name: str) -> str:
        """Return a token of a service account, such as its pods get."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token: str = self.request("POST", path, body)["status"]["token"]
        return token

    def kubeconfig_with(self, token: str, name: str) -> Path:
        """Return a kubeconfig for *token*."""
        path = self._root / f"{name}.kubeconfig"
        content = {
            "current-context": "c",
            "clusters": [
                {"name": "c", "cluster": {"server": self.server, "certificate-authority": str(self.ca)}}
            ],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """Return the answer to a request of the administrator's."""
        request = urllib.request.Request(
            self.server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": content_type},
        )
        context = ssl.create_default_context(cafile=str(self.ca))
        try:
            with urllib.request.urlopen(request, timeout=CALL_SECONDS, context=context) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def _is_ready(self) -> bool:
        return self.kubectl("get", "--raw", "/readyz", check=False).strip() == "ok"

    def _has_default_account(self) -> bool:
        return "default" in self.kubectl("get", "serviceaccounts", "-n", "default", "-o", "name", check=False)

    def _spawn(self, *command: str) -> None:
        name = Path(command[0]).name
        with (self._root / f"{name}.log").open("wb") as log:
            self._children.append(
                subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self._root)
            )

    def _until(self, condition: Any, trouble: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            for child in self._children:
                if child.poll() is not None:
                    name = Path(child.args[0]).name  # type: ignore[index,arg-type]
                    said = (self._root / f"{name}.log").read_text(errors="replace")[-2_000:]
                    raise ClusterError(f"{name} ended with {child.returncode}: {said}")
            if time.monotonic() > deadline:
                raise ClusterError(f"{trouble} after {START_SECONDS:g} s")
            time.sleep(0.25)


def free_port() -> int:
    """Return a port of the loopback that nobody uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
