"""The command ``monitor dev``."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("var/dev"),
    show_default=True,
    help="Where everything is kept; made when missing.",
)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
def dev(data_dir: Path, port: int, host: str) -> None:
    """Run the service with its own Postgres and VictoriaMetrics on this machine."""
    # Here and not above: `monitor agent` shares this module's importer and needs none of it.
    from monitor.db.migrate import MigrationError  # noqa: PLC0415
    from monitor.dev.files import DevError  # noqa: PLC0415
    from monitor.dev.stack import run  # noqa: PLC0415

    try:
        asyncio.run(run(data_dir, host, port))
    except (DevError, MigrationError) as error:
        raise click.ClickException(str(error)) from error
    except PermissionError as error:
        reason = "permission denied; was the folder used by another user before?"
        raise click.ClickException(f"{error.filename}: {reason}") from error
