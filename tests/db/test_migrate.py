"""Migrations: each once, in order, by any number of replicas; an edited one stops everything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from monitor.db.migrate import MigrationError, directory, is_owner, migrate, missing
from monitor.errors import StorageUnavailable
from tests.db.fresh import Database, fresh_database

FIRST = "CREATE TABLE first (id int PRIMARY KEY);"
SECOND = "CREATE TABLE second (id int PRIMARY KEY); INSERT INTO first VALUES (1);"
GRANTS = "GRANT SELECT, INSERT ON first TO monitor_app;"


@pytest.fixture
async def database(servers) -> AsyncIterator[Database]:
    async with fresh_database(servers) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_first.sql").write_text(FIRST)
    (tmp_path / "0002_second.sql").write_text(SECOND)
    (tmp_path / "grants.sql").write_text(GRANTS)
    (tmp_path / "README.md").write_text("not a migration")
    return tmp_path


async def fetchval(dsn: str, query: str) -> object:
    conn = await asyncpg.connect(dsn)
    try:
        return await conn.fetchval(query)
    finally:
        await conn.close()


async def test_migrations_run_in_order_and_once(database, folder):
    assert await migrate(database.owner_dsn, folder) == ["0001_first.sql", "0002_second.sql"]
    assert await migrate(database.owner_dsn, folder) == []

    assert await fetchval(database.owner_dsn, "SELECT count(*) FROM first") == 1
    assert await fetchval(database.owner_dsn, "SELECT count(*) FROM schema_migrations") == 2


async def test_a_migration_edited_after_it_was_applied_stops_everything(database, folder):
    await migrate(database.owner_dsn, folder)
    (folder / "0001_first.sql").write_text(FIRST + " -- edited")
    (folder / "0003_third.sql").write_text("CREATE TABLE third (id int);")

    with pytest.raises(MigrationError, match=r"0001_first\.sql was edited after it was applied"):
        await migrate(database.owner_dsn, folder)

    assert await fetchval(database.owner_dsn, "SELECT to_regclass('third')") is None


async def test_a_migration_that_fails_leaves_nothing_of_itself(database, folder):
    (folder / "0002_second.sql").write_text("CREATE TABLE second (id int); SELECT 1 / 0;")

    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(database.owner_dsn, folder)
    assert await fetchval(database.owner_dsn, "SELECT to_regclass('second')") is None

    (folder / "0002_second.sql").write_text(SECOND)
    assert await migrate(database.owner_dsn, folder) == ["0002_second.sql"]


async def test_replicas_that_start_together_migrate_once(database, folder):
    done = await asyncio.gather(*(migrate(database.owner_dsn, folder) for _ in range(4)))

    assert sorted(done, key=len) == [[], [], [], ["0001_first.sql", "0002_second.sql"]]


async def test_the_serving_role_gets_its_rights_again_with_every_run(database, folder):
    await migrate(database.owner_dsn, folder)
    conn = await asyncpg.connect(database.owner_dsn)
    await conn.execute("REVOKE ALL ON first FROM monitor_app")
    await conn.close()

    await migrate(database.owner_dsn, folder)

    assert await fetchval(database.app_dsn, "INSERT INTO first VALUES (7) RETURNING id") == 7


async def test_what_a_database_lacks_is_named(database, folder):
    conn = await asyncpg.connect(database.app_dsn)
    try:
        assert await missing(conn, folder) == ["0001_first.sql", "0002_second.sql"]
        (folder / "grants.sql").write_text("GRANT SELECT ON ALL TABLES IN SCHEMA public TO monitor_app")
        await migrate(database.owner_dsn, folder)
        assert await missing(conn, folder) == []
        (folder / "0003_third.sql").write_text("CREATE TABLE third (id int);")
        assert await missing(conn, folder) == ["0003_third.sql"]
    finally:
        await conn.close()


async def test_the_shipped_schema_keeps_the_serving_role_from_owning_anything(database):
    applied = await migrate(database.owner_dsn)
    owner, app = await asyncpg.connect(database.owner_dsn), await asyncpg.connect(database.app_dsn)

    try:
        assert applied == sorted(path.name for path in directory().glob("0*.sql"))
        assert await missing(app) == []
        assert (await is_owner(owner), await is_owner(app)) == (True, False)
        for statement in (
            "CREATE TABLE mine (id int)",
            "DROP TABLE users",
            "TRUNCATE users",
            "DELETE FROM schema_migrations",
            "ALTER TABLE users ADD COLUMN x int",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await app.execute(statement)
    finally:
        await owner.close()
        await app.close()


async def test_every_table_of_an_organization_says_so(database):
    await migrate(database.owner_dsn)
    conn = await asyncpg.connect(database.owner_dsn)
    rows = await conn.fetch(
        "SELECT t.table_name, bool_or(c.column_name = 'org_id') AS owned"
        " FROM information_schema.tables t JOIN information_schema.columns c USING (table_name)"
        " WHERE t.table_schema = 'public' GROUP BY t.table_name"
    )
    await conn.close()

    # What belongs to the service, as tests/test_architecture.py has it, and the organizations themselves.
    shared = ("journal_", "tsdb_", "claims", "schema_migrations", "login_failures", "organizations")
    assert [
        row["table_name"] for row in rows if not row["owned"] and not row["table_name"].startswith(shared)
    ] == []


async def test_a_postgres_that_is_away_is_told_as_such(unused_tcp_port, folder):
    with pytest.raises(StorageUnavailable):
        await migrate(f"postgresql://nobody@127.0.0.1:{unused_tcp_port}/none", folder)
