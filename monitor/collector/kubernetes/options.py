"""The options of ``monitor agent`` that only a cluster needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def cluster_options(command: Command) -> Command:
    """Add ``--kubeconfig`` and ``--context``."""
    with_context = click.option(
        "--context",
        envvar="MONITOR_KUBE_CONTEXT",
        help="Context of the kubeconfig, by default its current one.",
    )(command)
    return click.option(
        "--kubeconfig",
        envvar=["MONITOR_KUBECONFIG", "KUBECONFIG"],
        help="Kubeconfig file of the cluster; in a pod its service account is used, else ~/.kube/config.",
    )(with_context)
