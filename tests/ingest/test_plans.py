"""What a push costs Postgres does not follow from how many agents there were when its plans were made."""

from datetime import UTC, datetime

import asyncpg

from monitor.db.migrate import migrate
from monitor.db.postgres import create_pool
from monitor.ingest.store import Change, lock_agents, write_states
from tests.db.fresh import fresh_database

GENERIC_AFTER = 6  # runs: from then on Postgres may keep one plan for all arguments
AGENTS = 40


async def test_a_push_reads_its_own_rows_however_few_there_are(servers):
    change = Change("a-1", "o", True, "1", datetime.now(UTC), 1, b"[]", 0, None, None, None, None)
    async with fresh_database(servers) as database:
        await migrate(database.owner_dsn)
        owner = await asyncpg.connect(database.owner_dsn)
        await owner.execute("INSERT INTO organizations (id, name, plan) VALUES ('o', 'o', 'pro')")
        await owner.execute(
            "INSERT INTO agents (id, org_id, name, type, pool, token_hash)"
            " SELECT 'a-' || n, 'o', 'a-' || n, 'docker', 'default', sha256(n::text::bytea)"
            f" FROM generate_series(1, {AGENTS}) AS n"
        )
        await owner.execute("INSERT INTO agent_state (agent_id, org_id) SELECT id, org_id FROM agents")
        await owner.execute("ANALYZE")
        await owner.close()
        async with await create_pool(database.app_dsn, size=1) as pool, pool.acquire() as conn:
            for _ in range(GENERIC_AFTER):
                async with conn.transaction():
                    assert list(await lock_agents(conn, ["a-1"])) == ["a-1"]
                    await write_states(conn, [change])
            # What this connection read, not yet added to the statistics of all.
            read = await conn.fetch(
                "SELECT relname, seq_tup_read + idx_tup_fetch AS rows FROM pg_stat_xact_user_tables"
                " WHERE relname IN ('agent_state', 'agents')"
            )

            assert {row["relname"] for row in read} == {"agent_state", "agents"}
            assert max(row["rows"] for row in read) <= 4 * GENERIC_AFTER
