"""Start a program of this machine in a folder of its own, and end it for certain.

A server dies with the program that started it, even when that is killed: the
kernel sends it its stop signal.  Where that fails, the next start on the same
folder finds what is left by its working directory and ends it first.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple

from monitor.dev.files import LOOPBACK, DevError, check_port, kept_port

POLL_SECONDS = 0.05  # a look at /proc costs about 1 ms
START_SECONDS = 90.0  # recovery after a crash replays at most one checkpoint's log
KILL_SECONDS = 5.0  # what the kernel needs to take a killed process away
TAIL_LINES = 20
TAIL_BYTES = 16_384


class ServerFailed(DevError):
    """A program is missing, does not start, or has ended; the text says what to do."""


class User(NamedTuple):
    """As whom a program runs."""

    uid: int
    gid: int


class Server(ABC):
    """One program with its own folder, port and log.

    A subclass says how it is started and when it answers.

    Attributes:
        data_dir: Everything it keeps; ``<name>.log`` and ``port`` among it.
        log: What the program writes; the previous run's is beside it.
        host: The address where it listens.
        port: The port where it listens; 0 before the first start if any will do.
    """

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]  # asks for an orderly end
    stop_seconds: ClassVar[float]  # how long the orderly end may take before it is killed

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        *,
        host: str = LOOPBACK,
        avoid_port: int | None = None,
    ) -> None:
        """Take a folder, made at the first start, and where to listen.

        Without a port it is any free one but *avoid_port*, which the folder then keeps.
        """
        self.data_dir = data_dir.resolve()
        self.log = self.data_dir / f"{self.name}.log"
        self.host = host
        self.port = port or 0
        self._wanted_port = port
        self._avoid_port = avoid_port
        self._child: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def program(self) -> Path:
        """The program's file. ServerFailed when this machine has none."""

    @property
    def work_dir(self) -> Path:
        """Where the program works: how what is left of it is found."""
        return self.data_dir

    @abstractmethod
    def _spawn(self) -> subprocess.Popen[bytes]:
        """Start the program in ``work_dir``, its output in ``log``."""

    @abstractmethod
    async def _answers(self) -> bool:
        """Tell whether the program answers a real request."""

    async def _prepare(self) -> None:  # noqa: B027 - most programs need nothing
        """Make what the program needs before it starts."""

    @property
    def exit_status(self) -> int | None:
        """The exit status once the program has ended (negative: the signal), else None."""
        return None if self._child is None else self._child.poll()

    async def start(self) -> None:
        """End what is left of an earlier run, start, and return once it answers.

        Raises:
            ServerFailed: With the last lines of its log.
            PortTaken: The wanted port is in use.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        await self.recover()
        if self._wanted_port is None:
            self.port = kept_port(self.data_dir / "port", self._avoid_port)
        else:
            check_port(self.host, self._wanted_port)
        await self._prepare()
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        self._child = self._spawn()
        await self._until_it_answers()

    async def _until_it_answers(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                while not await self._answers():
                    if self.exit_status is not None:
                        raise ServerFailed(self.obituary())
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise ServerFailed(
                f"{self.name} gave no answer within {START_SECONDS:.0f} s\n{self.last_words()}"
            ) from None

    async def stop(self) -> None:
        """Ask the program to end, then end it and all it started; harmless when it does not run."""
        child = self._child
        if child is None:
            return
        if child.poll() is None:
            child.send_signal(self.stop_signal)
        await until(lambda: child.poll() is not None, self.stop_seconds)
        await self._end(self._left_over(), signal.SIGKILL, KILL_SECONDS)
        if child.poll() is None:  # it never came as far as its working directory
            child.kill()
        child.wait()
        self._child = None

    async def recover(self) -> None:
        """End what a killed predecessor left running in this folder."""
        await self._end(self._left_over(), self.stop_signal, self.stop_seconds)
        await self._end(self._left_over(), signal.SIGKILL, KILL_SECONDS)

    async def _end(self, pids: Sequence[int], number: signal.Signals, seconds: float) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        await until(lambda: not self._left_over(), seconds)

    def _left_over(self) -> list[int]:
        return running(self.program.name, self.work_dir)

    def obituary(self) -> str:
        """Say that the program has ended, how, and its last words."""
        return f"{self.name} ended unexpectedly (status {self.exit_status})\n{self.last_words()}"

    def last_words(self) -> str:
        """Return the end of the log with its name, for an error message."""
        try:
            end = self.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace")
        except FileNotFoundError:
            end = ""
        lines = "\n".join(f"  {line}" for line in end.splitlines()[-TAIL_LINES:])
        return f"{self.log}:\n{lines or '  (empty)'}"


async def until(condition: Callable[[], bool], seconds: float) -> None:
    """Return when *condition* holds, or after *seconds*."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                if condition():
                    return
                await asyncio.sleep(POLL_SECONDS)


def running(name: str, folder: Path) -> list[int]:
    """Return the ids of the living processes of the program *name* that work in *folder*."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or another user's
            works_in = Path(entry, "cwd").readlink() == folder
            if works_in and Path(entry, "exe").readlink().name.removesuffix(" (deleted)") == name:
                pids.append(int(entry.name))
    return sorted(pids)


def unprivileged(names: Sequence[str]) -> User | None:
    """Return the first of the users *names* that exists when this program is root, else None."""
    if os.geteuid() != 0:
        return None
    for name in names:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return User(entry.pw_uid, entry.pw_gid)
    raise ServerFailed(
        f"none of the users {', '.join(names)} exists, and this program refuses to run as root"
    )


def spawn(
    command: Sequence[str],
    *,
    work_dir: Path,
    log: Path,
    death_signal: signal.Signals,
    user: User | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start *command*, which gets *death_signal* when this program dies.

    It has a session of its own, so that Ctrl-C reaches this program alone.

    Args:
        command: The program and its arguments.
        work_dir: Its working directory.
        log: The file that both its outputs are added to.
        death_signal: Sent by the kernel, where ``setpriv`` of util-linux exists.
        user: As whom it runs when this program is root.
        pass_fds: Open files that it inherits.
    """
    options: list[str] = []
    if setpriv := shutil.which("setpriv"):
        # The signal is set after the user: a change of user would clear it.
        options = [setpriv, f"--pdeathsig={death_signal.name.removeprefix('SIG')}"]
        if user:
            options += [f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"]
        options.append("--")
        user = None
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603 - the commands are ours
            [*options, *command],
            cwd=work_dir,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
            pass_fds=pass_fds,
        )
