"""A real Docker engine for tests: its own dockerd, below a temporary directory.

It needs root, Debian's ``docker.io`` and a static busybox (``busybox-static``);
where one of them is missing, or dockerd does not start, the tests that ask for
it are skipped with that reason.  Mark them ``@pytest.mark.xdist_group("docker")``.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

IMAGE = "monitor-test:busybox"
APPLETS = ("sh", "cat", "date", "dd", "echo", "printf", "seq", "sleep", "true", "wget", "yes")
START_SECONDS = 60.0  # usually half a second
STOP_SECONDS = 30.0  # usually three: containerd takes its time
CALL_SECONDS = 30.0


class EngineError(Exception):
    """Docker cannot run here; the text says why."""


class DockerEngine:
    """A running engine and what tests do with it.

    Attributes:
        host: Its address, as DOCKER_HOST writes it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._socket = root / "docker.sock"
        self._log = root / "dockerd.log"
        self.host = f"unix://{self._socket}"

    def start(self) -> None:
        """Start dockerd and import the image.

        Raises:
            EngineError: Something is missing, or dockerd does not come up.
        """
        if os.geteuid() != 0:
            raise EngineError("dockerd needs root")
        for program in ("dockerd", "containerd", "docker", "setpriv"):
            if shutil.which(program) is None:
                raise EngineError(f"the program {program} is missing (docker.io, util-linux)")
        busybox = _static_busybox()
        config = self._root / "daemon.json"
        config.write_text("{}")  # not the machine's own configuration
        command = [
            # dockerd ends with the test run even if that is killed
            *("setpriv", "--pdeathsig", "TERM", "dockerd"),
            *("--config-file", config, "--host", self.host, "--pidfile", self._root / "dockerd.pid"),
            *("--data-root", self._root / "data", "--exec-root", self._root / "exec"),
            *("--storage-driver=vfs", "--bridge=none", "--iptables=false", "--ip6tables=false"),
            *("--ip-forward=false", "--ip-masq=false", "--userland-proxy=false"),
        ]
        with self._log.open("wb") as log:
            self._dockerd = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            self._await_socket()
            self.call("import", "-", IMAGE, stdin=_image_of(busybox))
        except BaseException:
            self.end()
            raise

    def run(
        self, name: str, *command: str, labels: dict[str, str] | None = None, network: str = "none"
    ) -> str:
        """Start a container and return its id."""
        # SIGKILL: a program that is a container's first ignores SIGTERM, and dockerd's end would wait for it.
        arguments = ["run", "--detach", "--stop-signal", "KILL", "--name", name, "--network", network]
        for key, text in (labels or {}).items():
            arguments += ["--label", f"{key}={text}"]
        return self.call(*arguments, IMAGE, *command)

    def stop(self, name: str) -> None:
        """Stop a container at once; it stays listed."""
        self.call("stop", "--time", "0", name)

    def remove(self, name: str) -> None:
        """Remove a container, running or not; harmless when there is none."""
        self.call("rm", "--force", name)

    def call(self, *arguments: str, stdin: bytes | None = None) -> str:
        """Return what ``docker <arguments>`` prints.

        Raises:
            EngineError: It failed; the text holds its words.
        """
        command = ["docker", "--host", self.host, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=CALL_SECONDS, check=False)
        if done.returncode != 0:
            raise EngineError(f"docker {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode().strip()

    def end(self) -> None:
        """Remove the containers, end dockerd and what it started, and unmount what is left."""
        if self._dockerd.poll() is None:
            try:
                containers = self.call("ps", "--all", "--quiet").split()
                if containers:
                    self.call("rm", "--force", *containers)
            except (EngineError, subprocess.TimeoutExpired) as error:
                print(f"containers not removed: {error}")
            self._dockerd.terminate()
            try:
                self._dockerd.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._dockerd.kill()
                self._dockerd.wait()
        # containerd and its shims carry the directory in their command lines.
        for pid in _processes_below(self._root):
            os.kill(pid, signal.SIGKILL)
        for mount in _mounts_below(self._root):
            subprocess.run(["umount", "--lazy", mount], check=True)

    def _await_socket(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._dockerd.poll() is None:
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(str(self._socket))
                except OSError:
                    time.sleep(0.05)
                else:
                    return
        raise EngineError(f"dockerd did not start: {self._log.read_text(errors='replace')[-500:]}")


def _static_busybox() -> Path:
    for found in {shutil.which("busybox"), "/bin/busybox", "/usr/bin/busybox"} - {None}:
        path = Path(str(found))
        # A dynamic program names its loader, which the image does not have.
        if path.is_file() and b"/ld-linux" not in path.read_bytes():
            return path
    raise EngineError("a static busybox is missing (busybox-static)")


def _image_of(busybox: Path) -> bytes:
    """Return a tar of a root folder that holds busybox and links to it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        tar.add(busybox.resolve(), "bin/busybox")
        for applet in APPLETS:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    return buffer.getvalue()


def _processes_below(root: Path) -> Iterator[int]:
    for command_line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = command_line.read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if f"{root}/".encode() in arguments and int(command_line.parent.name) != os.getpid():
            yield int(command_line.parent.name)


def _mounts_below(root: Path) -> list[str]:
    """Return the mount points below *root*, inner ones first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if point.startswith(f"{root}/")), reverse=True)


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[DockerEngine]:
    """A real Docker engine, one for each xdist worker that asks for it."""
    # Not pytest's tmp_path: containerd's socket paths must stay below 108 characters.
    root = Path(tempfile.mkdtemp(prefix="monitor-docker-"))
    engine = DockerEngine(root)
    try:
        engine.start()
    except EngineError as reason:
        shutil.rmtree(root)
        pytest.skip(f"no Docker engine: {reason}")
    try:
        yield engine
    finally:
        engine.end()
        shutil.rmtree(root)
