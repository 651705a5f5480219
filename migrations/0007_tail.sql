-- Live tails: what viewers ask agents for, and the lines on their way from agent to viewer.
--
-- Whichever replica an agent sends to, its lines are written here and every replica
-- with a viewer reads them.  Both tables are unlogged: lines live for minutes, and after
-- a crash of Postgres the requests are gone, which ends their streams.

CREATE UNLOGGED TABLE tail_requests (
    id text PRIMARY KEY,
    org_id text NOT NULL,
    agent_id text NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    -- The log request as the agent gets it: JSON, and text, because nobody looks into it here.
    request text NOT NULL,
    -- Viewers who ask for the same share the request; NULL: it is one viewer's own.
    shared_as text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    -- When a process with a viewer last said so, and when the last viewer left, if he did.
    watched_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    left_at timestamptz,
    -- The agent's last sign on this stream.
    streamed_at timestamptz,
    -- The number of the next line: a line with a smaller one is here already.
    next_seq bigint NOT NULL DEFAULT 0 CHECK (next_seq >= 0),
    -- Of all lines that ever came, as they go to viewers.
    bytes bigint NOT NULL DEFAULT 0,
    ended_at timestamptz,
    end_reason text,
    -- What went wrong, in words for the viewer.
    error text,
    CHECK ((ended_at IS NULL) = (end_reason IS NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX tail_requests_org ON tail_requests (org_id);
CREATE INDEX tail_requests_agent ON tail_requests (agent_id);
-- Two viewers who come at once share one request.
CREATE UNIQUE INDEX tail_requests_shared ON tail_requests (org_id, agent_id, shared_as)
    WHERE ended_at IS NULL;

-- Lines as viewers get them: encoded once, several a row.  A row covers the numbers from
-- first_seq, which follows the row before, to last_seq; the agent may have skipped some.
CREATE UNLOGGED TABLE tail_lines (
    request_id text NOT NULL REFERENCES tail_requests (id) ON DELETE CASCADE,
    org_id text NOT NULL,
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL CHECK (last_seq >= first_seq),
    -- tail_requests.bytes with this row: what lies far enough behind it is trimmed.
    end_byte bigint NOT NULL,
    events bytea NOT NULL,
    PRIMARY KEY (request_id, last_seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE tail_lines ALTER COLUMN events SET STORAGE EXTERNAL;

-- Until then a push asks whether log requests wait for its agent; others need not ask.
ALTER TABLE agent_state ADD COLUMN tails_until timestamptz;
