"""The command line's ``org``, ``user`` and ``apikey``.

Each call prints one JSON object; bad input is told on stderr with exit code 2, a
database that is away with exit code 1.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from monitor.auth import provision
from monitor.auth.checks import retention_seconds, retention_text
from monitor.auth.models import Organization
from monitor.config import ConfigError, load
from monitor.db.postgres import connect, translated
from monitor.errors import ServiceError
from monitor.web.codec import encode

if TYPE_CHECKING:
    from monitor.db.postgres import Connection

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

BAD_INPUT = 2
FAILURE = 1


def config_option(command: F) -> F:
    """Give a command its ``--config``, else MONITOR_CONFIG, else config/monitor.yaml."""
    return click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path),
        envvar="MONITOR_CONFIG",
        default=Path("config/monitor.yaml"),
        show_default=True,
        help="The configuration file.",
    )(command)


def _print_result(config_path: Path, work: Callable[[Connection], Awaitable[dict[str, Any]]]) -> None:
    async def in_transaction() -> dict[str, Any]:
        conn = await connect(load(config_path).postgres.dsn)
        try:
            with translated():
                async with conn.transaction():
                    return await work(conn)
        finally:
            await conn.close()

    try:
        result = asyncio.run(in_transaction())
    except ConfigError as error:
        _fail(str(error), BAD_INPUT)
    except ServiceError as error:
        _fail(error.text, BAD_INPUT if error.status < 500 else FAILURE)
    else:
        click.echo(encode(result))


def _fail(message: str, code: int) -> None:
    click.echo(message, err=True)
    sys.exit(code)


def _shown(org: Organization) -> dict[str, Any]:
    def duration(seconds: int | None) -> str | None:
        return None if seconds is None else retention_text(seconds)

    return {
        "orgId": org.id,
        "name": org.name,
        "plan": org.plan,
        "suspended": org.suspended,
        "metricsRetention": duration(org.metrics_retention_seconds),
        "logsRetention": duration(org.logs_retention_seconds),
    }


@click.group()
def org() -> None:
    """Create, change and list organizations."""


@org.command("create")
@click.option("--name", required=True)
@click.option("--plan", default="free", show_default=True, help="free, pro or enterprise.")
@config_option
def create_org(name: str, plan: str, config_path: Path) -> None:
    """Create an organization."""

    async def work(conn: Connection) -> dict[str, Any]:
        return {"orgId": await provision.create_org(conn, name, plan)}

    _print_result(config_path, work)


@org.command("set")
@click.argument("org_id", metavar="ORG")
@click.option("--plan", help="free, pro or enterprise.")
@click.option(
    "--suspend/--resume", "suspended", default=None, help="Refuse its requests with 402, or no more."
)
@click.option("--metrics-retention", help="Its own setting, as 30d.")
@click.option("--logs-retention", help="Its own setting, as 7d.")
@config_option
def set_org(
    org_id: str,
    plan: str | None,
    suspended: bool | None,
    metrics_retention: str | None,
    logs_retention: str | None,
    config_path: Path,
) -> None:
    """Change an organization; running servers follow at once."""
    if plan is None and suspended is None and metrics_retention is None and logs_retention is None:
        raise click.UsageError("nothing to set")

    async def work(conn: Connection) -> dict[str, Any]:
        changed = await provision.set_org(
            conn,
            org_id,
            plan=_or_unset(plan),
            suspended=_or_unset(suspended),
            metrics_retention_seconds=_seconds(metrics_retention, "--metrics-retention"),
            logs_retention_seconds=_seconds(logs_retention, "--logs-retention"),
        )
        return _shown(changed)

    _print_result(config_path, work)


def _or_unset(value: T | None) -> T | msgspec.UnsetType:
    return msgspec.UNSET if value is None else value


def _seconds(duration: str | None, field: str) -> int | msgspec.UnsetType:
    return msgspec.UNSET if duration is None else retention_seconds(duration, field=field)


@org.command("list")
@config_option
def list_orgs(config_path: Path) -> None:
    """List all organizations, oldest first."""

    async def work(conn: Connection) -> dict[str, Any]:
        return {"organizations": [_shown(org) for org in await provision.list_orgs(conn)]}

    _print_result(config_path, work)


@click.group()
def user() -> None:
    """Create users."""


@user.command("create")
@click.option("--org", "org_id", required=True)
@click.option("--email", required=True)
@click.option("--role", default="member", show_default=True, help="viewer, member or admin.")
@click.option("--password-stdin", is_flag=True, help="Read the password; else one is made, to be changed.")
@config_option
def create_user(org_id: str, email: str, role: str, password_stdin: bool, config_path: Path) -> None:
    """Create a user."""
    password = _password_from_stdin() if password_stdin else None

    async def work(conn: Connection) -> dict[str, Any]:
        user_id, generated = await provision.create_user(conn, org_id, email, role, password)
        return {"userId": user_id} | ({"password": generated} if generated is not None else {})

    _print_result(config_path, work)


def _password_from_stdin() -> str:
    given = sys.stdin.buffer.read()
    try:
        return given.removesuffix(b"\n").removesuffix(b"\r").decode()
    except UnicodeDecodeError:
        raise click.UsageError("password: not valid UTF-8") from None


@click.group()
def apikey() -> None:
    """Create and revoke API keys."""


@apikey.command("create")
@click.option("--org", "org_id", required=True)
@click.option("--name", required=True)
@config_option
def create_api_key(org_id: str, name: str, config_path: Path) -> None:
    """Create an API key; this is the only time it is shown."""

    async def work(conn: Connection) -> dict[str, Any]:
        key_id, key = await provision.create_api_key(conn, org_id, name)
        return {"id": key_id, "key": key}

    _print_result(config_path, work)


@apikey.command("revoke")
@click.argument("key_id", metavar="ID")
@config_option
def revoke_api_key(key_id: str, config_path: Path) -> None:
    """Revoke an API key; its next request is refused."""

    async def work(conn: Connection) -> dict[str, Any]:
        await provision.revoke_api_key(conn, key_id)
        return {"id": key_id, "revoked": True}

    _print_result(config_path, work)
