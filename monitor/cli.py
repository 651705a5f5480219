"""The command line: what each command needs is imported when it is called."""

from __future__ import annotations

import importlib
import os

import click

from monitor import __version__

# Command -> module and object that implement it.
COMMANDS = {
    "serve": ("monitor.serve", "serve"),
    "migrate": ("monitor.serve", "migrate_command"),
    "check-config": ("monitor.serve", "check_config"),
    "dev": ("monitor.dev.command", "dev"),
    "agent": ("monitor.collector.command", "agent"),
    "org": ("monitor.auth.commands", "org"),
    "user": ("monitor.auth.commands", "user"),
    "apikey": ("monitor.auth.commands", "apikey"),
    "decisions": ("monitor.scaling.log.commands", "decisions"),
}


class Commands(click.Group):
    """The commands, each imported when it is asked for: an agent loads no server."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in the order in which help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.command(cls=Commands)
@click.version_option(__version__)
@click.option(
    "--config", "config_path", type=click.Path(), help="The configuration file, for whichever command."
)
def main(config_path: str | None) -> None:
    """Infrastructure monitoring for many organizations."""
    if config_path is not None:
        os.environ["MONITOR_CONFIG"] = config_path
