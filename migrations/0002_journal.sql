-- The durable stream of samples on its way to VictoriaMetrics.
--
-- A push is answered when its samples are committed here.  Each web process
-- writes one stream; its writer brings the stream to VictoriaMetrics and moves
-- the cursor.  Rows stay until VictoriaMetrics was seen alive, without a restart,
-- 60 s after it took them, because it loses its last seconds when it is killed.

CREATE TABLE journal_streams (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,
    -- Whoever holds the lease writes the stream to VictoriaMetrics.
    lease_until timestamptz NOT NULL,
    -- VictoriaMetrics has acknowledged every row up to here.
    written_seq bigint NOT NULL DEFAULT 0,
    -- written_seq as of mark_at; after 60 s without a restart it becomes safe_seq.
    mark_seq bigint NOT NULL DEFAULT 0,
    mark_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Nothing up to here is needed any more.
    safe_seq bigint NOT NULL DEFAULT 0,
    -- Rows in (replayed_seq, replay_until] are written once more after a restart.
    replayed_seq bigint NOT NULL DEFAULT 0,
    replay_until bigint NOT NULL DEFAULT 0,
    -- Set when the owner gave the stream up: it only has to be drained.
    retired_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (safe_seq <= mark_seq AND mark_seq <= written_seq)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Four plain tables, rotated and emptied by TRUNCATE: dropping a partition would
-- queue behind every reader of the tree, and every insert behind that.
CREATE TABLE journal_slots (
    slot smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 3),
    -- The slot that is written now has the newest opened_at.
    opened_at timestamptz NOT NULL,
    -- Set while the slot holds rows that may still be needed.
    in_use boolean NOT NULL
);
INSERT INTO journal_slots (slot, opened_at, in_use)
SELECT n, CASE WHEN n = 0 THEN clock_timestamp() ELSE 'epoch'::timestamptz END, n = 0
FROM generate_series(0, 3) AS n;

CREATE TABLE journal_0 (
    stream_id bigint NOT NULL,
    seq bigint NOT NULL,
    -- zstd of Influx lines of many organizations; org_id is each line's first tag.
    lines bytea NOT NULL,
    sample_count integer NOT NULL,
    PRIMARY KEY (stream_id, seq)
) WITH (autovacuum_enabled = false);
ALTER TABLE journal_0 ALTER COLUMN lines SET STORAGE EXTERNAL;
CREATE TABLE journal_1 (LIKE journal_0 INCLUDING ALL) WITH (autovacuum_enabled = false);
CREATE TABLE journal_2 (LIKE journal_0 INCLUDING ALL) WITH (autovacuum_enabled = false);
CREATE TABLE journal_3 (LIKE journal_0 INCLUDING ALL) WITH (autovacuum_enabled = false);

-- Lines that VictoriaMetrics refused, one by one, with its reason.
CREATE TABLE journal_dead_letters (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lines bytea NOT NULL,
    reason text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The starts of each VictoriaMetrics that is written to: a change of started is a
-- restart, after which the unsafe rows are written again.
CREATE TABLE tsdb_instances (
    url text PRIMARY KEY,
    started text NOT NULL,
    seen_at timestamptz NOT NULL
);

-- Work that one process does at a time, whichever: it is claimed for a while.
CREATE TABLE claims (
    name text PRIMARY KEY,
    until timestamptz NOT NULL
);
