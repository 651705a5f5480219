"""Bring the schema to what this version needs: plain SQL files, forward only.

Each file runs once, in its own transaction, under an advisory lock that lets any
number of replicas start together.  The checksum of what ran is kept: a file that
was edited afterwards stops everything.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import asyncpg

from monitor.db.postgres import Connection, translated

LOCK = 0x6D6F6E69  # "moni": any number that no other program locks in this database
NAME = re.compile(r"^(\d{4})_[a-z0-9_]+\.sql$")
APP_ROLE = "monitor_app"


class MigrationError(Exception):
    """The files and the database contradict each other."""


def directory() -> Path:
    """Return the folder of the migrations: beside the package, or installed with it."""
    beside = Path(__file__).resolve().parents[2] / "migrations"
    return beside if beside.is_dir() else Path(sys.prefix) / "share" / "monitor" / "migrations"


def read_files(folder: Path) -> list[tuple[int, str, str]]:
    """Return (number, name, SQL) of each migration, in order.

    Raises:
        MigrationError: The numbers have a gap or a double.
    """
    files = sorted(path for path in folder.iterdir() if NAME.match(path.name))
    for expected, path in enumerate(files, start=1):
        if int(path.name[:4]) != expected:
            raise MigrationError(f"{path.name}: expected number {expected:04d}")
    return [(int(path.name[:4]), path.name, path.read_text("utf-8")) for path in files]


async def migrate(owner_dsn: str, folder: Path | None = None) -> list[str]:
    """Apply what is missing as the owner; return the names of what was applied.

    Raises:
        MigrationError: An applied file was edited or is missing.
        StorageUnavailable: Postgres is away.
    """
    folder = folder or directory()
    files = read_files(folder)
    with translated():
        conn = await asyncpg.connect(owner_dsn, timeout=10)
        try:
            await conn.execute("SELECT pg_advisory_lock($1)", LOCK)
            return await _apply(conn, files, (folder / "grants.sql").read_text("utf-8"))
        finally:
            await conn.close()


async def _apply(
    conn: asyncpg.Connection[asyncpg.Record], files: list[tuple[int, str, str]], grants: str
) -> list[str]:
    await conn.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations ("
        " number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,"
        " applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
    )
    applied = {row["number"]: row for row in await conn.fetch("SELECT * FROM schema_migrations")}
    done: list[str] = []
    for number, name, sql in files:
        checksum = hashlib.sha256(sql.encode()).hexdigest()
        row = applied.get(number)
        if row is None:
            async with conn.transaction():
                await conn.execute(sql)
                await conn.execute(
                    "INSERT INTO schema_migrations (number, name, checksum) VALUES ($1, $2, $3)",
                    number,
                    name,
                    checksum,
                )
            done.append(name)
        elif row["checksum"] != checksum:
            raise MigrationError(f"{name} was edited after it was applied as {row['name']}")
    if await conn.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", APP_ROLE):
        async with conn.transaction():
            await conn.execute(grants)
    return done


async def missing(conn: Connection, folder: Path | None = None) -> list[str]:
    """Return the names of the migrations that this database lacks."""
    names = [name for _, name, _ in read_files(folder or directory())]
    if not await conn.fetchval("SELECT to_regclass('schema_migrations') IS NOT NULL"):
        return names
    applied = {row["name"] for row in await conn.fetch("SELECT name FROM schema_migrations")}
    return [name for name in names if name not in applied]


async def is_owner(conn: Connection) -> bool:
    """Return whether this connection's role owns the tables, as a serving role should not."""
    owner = await conn.fetchval(
        "SELECT pg_has_role(current_user, tableowner, 'MEMBER') FROM pg_tables"
        " WHERE tablename = 'schema_migrations'"
    )
    return owner is True
