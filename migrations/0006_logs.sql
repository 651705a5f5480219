-- Log lines, from the batch that brought them to the day they are dropped.
--
-- A batch is one hot row (several if it is large) and durable at once.  Within a minute
-- or so the hot rows of an organization are compacted: one transaction deletes them and
-- inserts a chunk of about 1 MiB, so a snapshot sees every line exactly once.  A line is
-- named by its time, its hot row and its number there, for ever.  Times of lines come
-- from clients and may be anything; what is kept how long goes by the day of arrival.

CREATE TABLE log_batches (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL,
    arrived_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Oldest and newest line, ns since 1970.
    min_time bigint NOT NULL,
    max_time bigint NOT NULL CHECK (max_time >= min_time),
    -- Hashes of every value that a filter may ask for: what has not all of them is not read.
    facets integer[] NOT NULL,
    line_count integer NOT NULL CHECK (line_count > 0),
    -- Uncompressed size, by which rows become chunks.
    raw_bytes integer NOT NULL,
    -- zstd: the columns of the lines, and their messages.
    meta bytea NOT NULL,
    messages bytea NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    toast.autovacuum_vacuum_scale_factor = 0.02
);
ALTER TABLE log_batches ALTER COLUMN meta SET STORAGE EXTERNAL;
ALTER TABLE log_batches ALTER COLUMN messages SET STORAGE EXTERNAL;
CREATE INDEX log_batches_newest ON log_batches (org_id, max_time);

CREATE TABLE log_chunks (
    id bigint GENERATED ALWAYS AS IDENTITY,
    -- The day, in UTC, on which its batches arrived.
    day date NOT NULL,
    org_id text NOT NULL,
    -- Its last batch: the chunk has outlived the retention when this one has.
    newest_arrival timestamptz NOT NULL,
    min_time bigint NOT NULL,
    max_time bigint NOT NULL CHECK (max_time >= min_time),
    facets integer[] NOT NULL,
    line_count integer NOT NULL CHECK (line_count > 0),
    raw_bytes integer NOT NULL,
    meta bytea NOT NULL,
    messages bytea NOT NULL,
    -- zstd: the distinct letter runs of the messages; empty if they are too many to help.
    words bytea NOT NULL,
    PRIMARY KEY (day, id)
) PARTITION BY RANGE (day);
ALTER TABLE log_chunks ALTER COLUMN meta SET STORAGE EXTERNAL;
ALTER TABLE log_chunks ALTER COLUMN messages SET STORAGE EXTERNAL;
ALTER TABLE log_chunks ALTER COLUMN words SET STORAGE EXTERNAL;
CREATE INDEX log_chunks_newest ON log_chunks (org_id, max_time);
-- Small chunks are merged with what comes later that day.
CREATE INDEX log_chunks_small ON log_chunks (org_id, raw_bytes) WHERE raw_bytes < 524288;

-- The serving role may not change the schema; days come and go by these two functions,
-- which run as the owner.  A lock that is not free at once is asked for again later:
-- whoever waits for it would hold up every search behind it.
CREATE FUNCTION log_add_days(first date, last date) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    d date;
    name text;
BEGIN
    FOR d IN SELECT generate_series(first, last, interval '1 day')::date LOOP
        name := 'log_chunks_' || to_char(d, 'YYYYMMDD');
        IF to_regclass(name) IS NULL THEN
            -- Made apart and attached: that locks out nobody who reads or writes.
            EXECUTE format('CREATE TABLE %I (LIKE log_chunks INCLUDING ALL EXCLUDING IDENTITY)', name);
            EXECUTE format('ALTER TABLE log_chunks ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                           name, d, d + 1);
        END IF;
    END LOOP;
END $$;

-- Drop the days before *before*, and return how many; days that may still be written stay.
CREATE FUNCTION log_drop_days(before date) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    name text;
    dropped integer := 0;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'log_chunks'::regclass
        AND c.relname < 'log_chunks_' || to_char(least(before, current_date - 1), 'YYYYMMDD')
        ORDER BY c.relname
    LOOP
        EXECUTE format('DROP TABLE %I', name);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;

-- grants.sql gives them to the serving role.
REVOKE EXECUTE ON FUNCTION log_add_days(date, date), log_drop_days(date) FROM PUBLIC;

SELECT log_add_days((clock_timestamp() AT TIME ZONE 'UTC')::date - 1,
                    (clock_timestamp() AT TIME ZONE 'UTC')::date + 7);

-- The newest batch of each agent and epoch, for ever: a batch that is not newer is stored already.
CREATE TABLE log_epochs (
    agent_id text NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    org_id text NOT NULL,
    epoch text NOT NULL,
    newest bigint NOT NULL,
    PRIMARY KEY (agent_id, epoch)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- The last 1,000 batch ids of each agent that are any other text.
CREATE TABLE log_batch_ids (
    agent_id text NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    org_id text NOT NULL,
    batch_id text NOT NULL,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (agent_id, batch_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX log_batch_ids_order ON log_batch_ids (agent_id, seq);

-- What each organization has left of its ceilings.  Every process tells here once a second
-- what it let through; lost in a crash of Postgres, which costs nobody a line.
CREATE UNLOGGED TABLE log_rates (
    org_id text PRIMARY KEY,
    -- Lines that may still come at once; fills up again by lines_per_second.
    lines_left double precision NOT NULL,
    lines_per_second double precision NOT NULL,
    -- What the last process told.
    lines_spent double precision NOT NULL,
    refilled_at timestamptz NOT NULL,
    day date NOT NULL,
    day_bytes bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
