"""docker-compose.yml on an engine of the test's own, with stand-ins for the images that cannot be pulled.

The engine has neither bridge nor iptables here, so every container uses the host's
network; names of services stand in ``extra_hosts``.  All else of the file is as it is.
What was built stays in the folder ``COMPOSE_CACHE``: a second run takes a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
STANDINS = Path(__file__).parent / "standins"
BASE = "monitor-base"
PROJECT = "monitor"
SUITE = "bookworm"
START_SECONDS = 60.0
BUILD_SECONDS = 1_800.0
# What this machine reaches its package mirrors with, for the builds.
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_FILES = ("/etc/pip.conf", "/root/.config/pip/pip.conf")


def run(*command: str | Path, seconds: float = BUILD_SECONDS, **more: Any) -> str:
    """Return what *command* prints; its own words are in the error when it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        **more,
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


class Engine:
    """A dockerd whose images outlive it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.environment = {**os.environ, "DOCKER_HOST": f"unix://{self.socket}", "DOCKER_BUILDKIT": "0"}

    def start(self) -> None:
        """Start dockerd and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "daemon.json"
        config.write_text("{}")
        command = [
            *("setpriv", "--pdeathsig", "TERM", "dockerd", "--config-file", config),
            *("--host", f"unix://{self.socket}", "--pidfile", self.folder / "dockerd.pid"),
            *("--data-root", self.folder / "data", "--exec-root", self.folder / "exec"),
            *("--storage-driver=vfs", "--bridge=none", "--iptables=false", "--ip6tables=false"),
            *("--ip-forward=false", "--ip-masq=false", "--userland-proxy=false"),
        ]
        with (self.folder / "dockerd.log").open("wb") as log:
            self._dockerd = subprocess.Popen(
                [str(word) for word in command], stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS
        ask = ["docker", "version"]
        while subprocess.run(ask, env=self.environment, capture_output=True, check=False).returncode:
            assert self._dockerd.poll() is None, (self.folder / "dockerd.log").read_text()[-3000:]
            assert time.monotonic() < deadline, "dockerd does not answer"
            time.sleep(0.2)

    def stop(self) -> None:
        """End dockerd and the containers that it runs."""
        self._dockerd.terminate()
        self._dockerd.wait(60)

    def docker(self, *arguments: str | Path, **more: Any) -> str:
        """Return what ``docker <arguments>`` prints."""
        return run("docker", *arguments, env=self.environment, **more)

    def has(self, image: str) -> bool:
        """Tell whether there is such an image."""
        return bool(self.docker("images", "--quiet", image).strip())

    def build(self) -> None:
        """Make the base, the stand-ins and the image of the service."""
        if not self.has(BASE):
            self._make_base()
        for name in ("postgres", "victoriametrics"):
            file = STANDINS / f"{name}.Dockerfile"
            self._build(f"standin-{name}", "--file", file, STANDINS)
        self._build("monitor", ROOT)

    def _build(self, tag: str, *arguments: str | Path) -> None:
        self.docker("build", "--network", "host", "--build-arg", f"BASE={BASE}", "--tag", tag, *arguments)

    def _make_base(self) -> None:
        """Import a small Debian that trusts what this machine trusts."""
        root = self.folder / "base"
        shutil.rmtree(root, ignore_errors=True)
        packages = "python3,python3-venv,ca-certificates"
        run("debootstrap", "--variant=minbase", f"--include={packages}", SUITE, root)
        shutil.copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
        for file in map(Path, PIP_FILES):
            if file.is_file():
                (root / file.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, root / file.relative_to("/"))
        packed = self.folder / "base.tar"
        run("tar", "--create", "--file", packed, "--directory", root, ".")
        change = f"ENV PIP_CERT={CERTIFICATES} NODE_EXTRA_CA_CERTS={CERTIFICATES}"
        self.docker("import", "--change", change, packed, BASE)
        packed.unlink()
        shutil.rmtree(root)


class Compose:
    """A copy of the project's folder with its secrets, and the file as it can run here."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self.folder = folder
        self._environment = {
            **engine.environment,
            "POSTGRES_IMAGE": "standin-postgres",
            "VICTORIAMETRICS_IMAGE": "standin-victoriametrics",
            "DOCKER_GID": str(engine.socket.stat().st_gid),
        }
        shutil.copytree(ROOT / "deploy", folder / "deploy", ignore=shutil.ignore_patterns("secrets"))
        shutil.copy(ROOT / "docker-compose.yml", folder)
        run("sh", "deploy/compose/secrets.sh", cwd=folder)
        self._file = folder / "here.yml"
        self._file.write_text(yaml.safe_dump(self._fitted()))

    def _fitted(self) -> dict[str, Any]:
        """Return the file with the host's network and this engine's socket."""
        text = run("docker-compose", "--profile", "agent", "config", cwd=self.folder, env=self._environment)
        config: dict[str, Any] = yaml.safe_load(text)
        assert [name for name, service in config["services"].items() if "ports" in service] == ["monitor"]
        for service in config["services"].values():
            service.pop("ports", None)
            service.pop("build", None)
            service.pop("networks", None)
            service["network_mode"] = "host"
            service["extra_hosts"] = [f"{name}:127.0.0.1" for name in config["services"]]
            service["volumes"] = [
                volume.replace("/var/run/docker.sock:", f"{self._engine.socket}:", 1)
                for volume in service.get("volumes", [])
            ]
        return config

    def __call__(self, *arguments: str, **more: Any) -> str:
        """Return what ``docker-compose <arguments>`` prints."""
        command = ("docker-compose", "--file", self._file, "--project-name", PROJECT, *arguments)
        return run(*command, cwd=self.folder, env=self._environment, **more)
