"""What a push costs Postgres does not follow from how many agents there were when its plans were made."""

from datetime import UTC, datetime

from monitor.db.migrate import migrate
from monitor.db.postgres import create_pool
from monitor.ingest.store import Change, lock_agents, write_states
from tests.db.fresh import fresh_database

GENERIC_AFTER = 6  # runs: from then on Postgres may keep one plan for all arguments


async def test_a_push_scans_no_table_however_few_agents_there_are(servers):
    change = Change("a", "o", True, "1", datetime.now(UTC), 1, b"[]", 0, None, None, None, None)
    async with fresh_database(servers) as database:
        await migrate(database.owner_dsn)
        async with await create_pool(database.app_dsn, size=1) as pool, pool.acquire() as conn:
            await conn.execute("INSERT INTO organizations (id, name, plan) VALUES ('o', 'o', 'pro')")
            await conn.execute(
                "INSERT INTO agents (id, org_id, name, type, pool, token_hash)"
                " VALUES ('a', 'o', 'a', 'docker', 'default', sha256('a'))"
            )
            await conn.execute("INSERT INTO agent_state (agent_id, org_id) VALUES ('a', 'o')")
            for _ in range(GENERIC_AFTER):
                async with conn.transaction():
                    assert list(await lock_agents(conn, ["a"])) == ["a"]
                    await write_states(conn, [change])
                    scanned = await conn.fetch(
                        "SELECT relname FROM pg_stat_xact_user_tables WHERE seq_scan > 0 ORDER BY relname"
                    )

                assert [row["relname"] for row in scanned] == []
