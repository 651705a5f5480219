"""The command line's ``decisions``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from monitor.auth.commands import BAD_INPUT, FAILURE, config_option
from monitor.config import ConfigError, load
from monitor.db.postgres import connect, found, translated
from monitor.errors import ServiceError
from monitor.scaling.log import store
from monitor.scaling.log.check import Verification, check_log
from monitor.web.codec import encode


@click.group()
def decisions() -> None:
    """Check the decision log."""


@decisions.command("verify")
@click.option("--org", "org_id", required=True, metavar="ORG")
@config_option
def verify(org_id: str, config_path: Path) -> None:
    """Check an organization's chain and decide everything again; exit with 1 if it does not hold."""
    try:
        checked = asyncio.run(_checked(config_path, org_id))
    except ConfigError as error:
        click.echo(str(error), err=True)
        sys.exit(BAD_INPUT)
    except ServiceError as error:
        click.echo(error.text, err=True)
        sys.exit(BAD_INPUT if error.status < 500 else FAILURE)
    click.echo(encode(checked))
    if not checked.ok:
        sys.exit(FAILURE)


async def _checked(config_path: Path, org_id: str) -> Verification:
    conn = await connect(load(config_path).postgres.dsn)
    try:
        with translated():
            async with conn.transaction(isolation="repeatable_read", readonly=True):
                found(await store.organization_exists(conn, org_id) or None)
                return await check_log(conn, org_id)
    finally:
        await conn.close()
