"""``monitor agent install``: what puts the agent in place, filled in and printed; nothing is changed.

The files are those of ``deploy/``, which come with the package.
"""

from __future__ import annotations

import base64
import shlex
import socket
import sys
from pathlib import Path
from typing import Literal

import click

from monitor.collector.options import service_url, short_text

Kind = Literal["systemd", "docker", "kubernetes"]

FILES: dict[Kind, str] = {
    "systemd": "agent/monitor-agent.service",
    "docker": "agent/docker-compose.yml",
    "kubernetes": "kubernetes/agent.yaml",
}
SCALING = "kubernetes/scaling.yaml"  # what the agent may do more where policies scale workloads

_SYSTEMD = """\
#!/bin/sh
# As root: sh THIS.  The package is expected in /opt/monitor:
#   python3 -m venv /opt/monitor && /opt/monitor/bin/pip install CHECKOUT
set -eu
umask 077
cat > /etc/monitor-agent.env <<'END'
{variables}
END
umask 022
cat > /etc/systemd/system/monitor-agent.service <<'END'
{unit}END
systemctl daemon-reload
systemctl enable --now monitor-agent
"""

_VARIABLES = """\
---
apiVersion: v1
kind: Secret
metadata:
  name: monitor-agent
  namespace: monitor
type: Opaque
data:
{data}
"""


def deploy_file(name: str) -> str:
    """Return a file of ``deploy/``: beside the package, or installed with it."""
    beside = Path(__file__).resolve().parents[2] / "deploy"
    folder = beside if beside.is_dir() else Path(sys.prefix) / "share" / "monitor" / "deploy"
    return (folder / name).read_text(encoding="utf-8")


def installation(kind: Kind, url: str, api_key: str, name: str, *, scaling: bool = False) -> str:
    """Return the script or manifest that makes an agent run.

    Args:
        kind: A systemd service, a container beside the engine, or a Deployment of a cluster.
        url: Address of the service, as the agent reaches it.
        api_key: Registers the agent.
        name: The agent's name.
        scaling: Kubernetes alone: also the right to change how many replicas there are.
    """
    variables = {"MONITOR_URL": url, "MONITOR_API_KEY": api_key, "MONITOR_AGENT_NAME": name}
    text = deploy_file(FILES[kind])
    if kind == "systemd":
        # systemd reads the file with the quotes of a shell.
        lines = "\n".join(f"{key}={_quoted(value)}" for key, value in variables.items())
        return _SYSTEMD.format(variables=lines, unit=text)
    if kind == "docker":
        for key, value in variables.items():
            text = text.replace(f"${{{key}}}", _scalar(value))
        return text
    data = "\n".join(
        f"  {key}: {base64.b64encode(value.encode()).decode()}" for key, value in variables.items()
    )
    more = f"---\n{deploy_file(SCALING)}" if scaling else ""
    return text + _VARIABLES.format(data=data) + more


def _quoted(value: str) -> str:
    if "\n" in value:
        raise ValueError("a value of more than one line")
    return shlex.quote(value)


def _scalar(value: str) -> str:
    """Return *value* as YAML; compose takes a dollar for a variable's."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'


@click.command()
@click.option(
    "--type",
    "kind",
    type=click.Choice(list(FILES)),
    required=True,
    help="A systemd service, a container beside Docker, or a Deployment of a cluster.",
)
@click.option(
    "--url", callback=service_url, required=True, envvar="MONITOR_URL", help="Address of the service."
)
@click.option("--api-key", callback=short_text, required=True, envvar="MONITOR_API_KEY", help="Registers it.")
@click.option("--name", callback=short_text, default=socket.gethostname, help="Name of the agent.")
@click.option("--scaling", is_flag=True, help="Kubernetes: also the right to scale workloads.")
def install(kind: Kind, url: str, api_key: str, name: str, scaling: bool) -> None:
    """Print what puts an agent in place, filled in; nothing is changed here."""
    if scaling and kind != "kubernetes":
        raise click.UsageError("--scaling is for --type kubernetes")
    click.echo(installation(kind, url, api_key, name, scaling=scaling), nl=False)
