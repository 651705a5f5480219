-- What agents are told to do.  A command waits here until its agent asks for it.
--
-- It is handed out at least once: whoever hands it out leases it for 30 s, and without
-- a result it is handed out again, until two minutes after it was made.  A deleted
-- agent takes its commands with it: nobody is left to execute them.

CREATE TABLE commands (
    id text PRIMARY KEY,
    org_id text NOT NULL,
    agent_id text NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- The order in which commands were made.
    seq bigint GENERATED ALWAYS AS IDENTITY,
    type text NOT NULL CHECK (type <> ''),
    -- JSON, as it is sent; text, because nobody looks into it here.
    payload text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL DEFAULT clock_timestamp() + interval '2 minutes',
    -- How often it was handed out, and until when nobody else gets it.
    attempt integer NOT NULL DEFAULT 0,
    leased_until timestamptz,
    -- The first result that the agent reported.
    status text CHECK (status IN ('succeeded', 'failed')),
    message text,
    finished_at timestamptz,
    CHECK ((status IS NULL) = (finished_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX commands_waiting ON commands (agent_id, seq) WHERE status IS NULL;
CREATE INDEX commands_agent ON commands (agent_id);  -- for the deletion of an agent

-- The poll that holds for each agent: the newest.  An older one that finds another id
-- here, or none, ends.  Lost in a crash of Postgres, whereupon every poll ends.
CREATE UNLOGGED TABLE command_polls (
    agent_id text PRIMARY KEY,
    org_id text NOT NULL,
    poll_id text NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
