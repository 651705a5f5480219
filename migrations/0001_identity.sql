-- Who may ask: organizations, their users, API keys and agents.
--
-- Every table that holds an organization's anything names it in org_id, and
-- every statement of the service names org_id.  Ids are made by the service.

CREATE TABLE organizations (
    id text PRIMARY KEY CHECK (id ~ '^[A-Za-z0-9_-]{1,64}$'),
    name text NOT NULL CHECK (name <> ''),
    plan text NOT NULL CHECK (plan IN ('free', 'pro', 'enterprise')),
    suspended boolean NOT NULL DEFAULT false,
    -- The organization's own settings; NULL means "the ceiling of the YAML".
    metrics_retention_seconds bigint CHECK (metrics_retention_seconds > 0),
    logs_retention_seconds bigint CHECK (logs_retention_seconds > 0),
    -- Raised with every change of the organization's alert rules: a push that
    -- reads the number it knows needs no further look.
    rules_version bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE users (
    id text PRIMARY KEY,
    org_id text NOT NULL REFERENCES organizations (id),
    email text NOT NULL CHECK (email = lower(email)),
    role text NOT NULL CHECK (role IN ('admin', 'member', 'viewer')),
    password_hash text NOT NULL,
    must_change_password boolean NOT NULL,
    -- Tokens issued before this (unix seconds) are dead, but for the one kept:
    -- the session in which the password was changed.
    tokens_valid_from bigint NOT NULL DEFAULT 0,
    kept_jti text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- One login name is one person, in whichever organization.
CREATE UNIQUE INDEX users_email ON users (email);
CREATE INDEX users_org ON users (org_id, created_at);

-- Failed logins, counted for all replicas; rows older than the window are swept.
CREATE TABLE login_failures (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    email text NOT NULL,
    address inet NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX login_failures_email ON login_failures (email, failed_at);
CREATE INDEX login_failures_address ON login_failures (address, failed_at);

CREATE TABLE api_keys (
    id text PRIMARY KEY,
    org_id text NOT NULL REFERENCES organizations (id),
    name text NOT NULL CHECK (name <> ''),
    prefix text NOT NULL,
    key_hash bytea NOT NULL CHECK (length(key_hash) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at timestamptz
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (key_hash);
CREATE INDEX api_keys_org ON api_keys (org_id, created_at);

CREATE TABLE agents (
    id text PRIMARY KEY,
    org_id text NOT NULL REFERENCES organizations (id),
    name text NOT NULL CHECK (name <> ''),
    type text NOT NULL CHECK (type IN ('docker', 'kubernetes')),
    pool text NOT NULL CHECK (pool <> ''),
    token_hash bytea NOT NULL CHECK (length(token_hash) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX agents_token ON agents (token_hash);
CREATE INDEX agents_org ON agents (org_id, created_at, id);

-- What an agent pushed last: one row an agent, rewritten with every push.  No
-- index on a column that a push changes and room in each page, so that updates
-- stay heap-only; the snapshots are zstd already, so Postgres need not try.
CREATE TABLE agent_state (
    agent_id text PRIMARY KEY,
    org_id text NOT NULL,
    agent_version text NOT NULL DEFAULT '',
    -- Counts the stored snapshots; 0 before the first.
    version bigint NOT NULL DEFAULT 0,
    -- The newest push that was stored: its time and its own number, if it had one.
    collected_at timestamptz,
    seq bigint,
    last_seen timestamptz,
    -- When the stored containers were collected: the base of the next rates.
    containers_at timestamptz,
    container_count integer NOT NULL DEFAULT 0,
    pod_count integer NOT NULL DEFAULT 0,
    node_count integer NOT NULL DEFAULT 0,
    -- zstd of the pushed JSON array of each kind; NULL while never reported.
    containers bytea,
    pods bytea,
    nodes bytea,
    -- Raised whenever an alert of this agent changes by other than its push.
    alerts_version bigint NOT NULL DEFAULT 0
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    toast.autovacuum_vacuum_scale_factor = 0.05
);
ALTER TABLE agent_state ALTER COLUMN containers SET STORAGE EXTERNAL;
ALTER TABLE agent_state ALTER COLUMN pods SET STORAGE EXTERNAL;
ALTER TABLE agent_state ALTER COLUMN nodes SET STORAGE EXTERNAL;
CREATE INDEX agent_state_org ON agent_state (org_id);

-- Deleted agents.  A row is the tombstone that keeps the agent's samples from
-- coming back out of the journal or of VictoriaMetrics, and the receipt of what
-- was deleted.
CREATE TABLE agent_deletions (
    agent_id text PRIMARY KEY,
    org_id text NOT NULL REFERENCES organizations (id),
    agent_name text NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Series found by the first pass over VictoriaMetrics that deleted some.
    series_found bigint,
    deleted_at timestamptz,
    -- The last look that found nothing left, and how many looks there were.
    verified_at timestamptz,
    passes integer NOT NULL DEFAULT 0,
    next_pass_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The start of VictoriaMetrics in which it was verified: after a restart it
    -- is looked at again.
    verified_start text,
    -- Queries leave the agent out while VictoriaMetrics may still, or again, know it.
    hidden boolean NOT NULL DEFAULT true
);
CREATE INDEX agent_deletions_org ON agent_deletions (org_id, requested_at);
CREATE INDEX agent_deletions_hidden ON agent_deletions (org_id) WHERE hidden;
CREATE INDEX agent_deletions_due ON agent_deletions (next_pass_at);
