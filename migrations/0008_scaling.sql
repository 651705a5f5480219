-- Scaling policies, what the loop knows of each, and the log of what it decided.

CREATE TABLE scaling_policies (
    id text PRIMARY KEY,
    org_id text NOT NULL REFERENCES organizations (id),
    -- The shard with which it is evaluated.
    shard integer NOT NULL,
    name text NOT NULL CHECK (name <> ''),
    runtime text NOT NULL CHECK (runtime IN ('kubernetes', 'docker')),
    target_ref text NOT NULL CHECK (target_ref <> ''),
    policy_type text CHECK (policy_type IN ('scale_to_zero_on_idle', 'rightsize', 'spot_shift')),
    enabled boolean NOT NULL,
    dry_run boolean NOT NULL,
    approval_required boolean NOT NULL,
    min_replicas integer NOT NULL CHECK (min_replicas >= 0),
    max_replicas integer NOT NULL CHECK (max_replicas BETWEEN min_replicas AND 1000),
    step_size integer NOT NULL CHECK (step_size >= 1),
    cooldown_scale_up_seconds integer NOT NULL CHECK (cooldown_scale_up_seconds >= 0),
    cooldown_scale_down_seconds integer NOT NULL CHECK (cooldown_scale_down_seconds >= 0),
    cpu_target_percent double precision CHECK (cpu_target_percent > 0 AND cpu_target_percent <= 1000),
    memory_target_percent double precision CHECK (memory_target_percent > 0 AND memory_target_percent <= 1000),
    node_pressure_target_percent double precision
        CHECK (node_pressure_target_percent > 0 AND node_pressure_target_percent <= 1000),
    max_replicas_per_host integer CHECK (max_replicas_per_host >= 1),
    lb_pool_ref text,
    -- The one agent whose report of the workload counts, where several report it.
    agent_id text,
    -- Settings of the GPU-aware types.
    idle_gpu_percent double precision NOT NULL,
    idle_minutes double precision NOT NULL,
    wake_metric text,
    gpu_target_percent double precision NOT NULL,
    window_minutes double precision NOT NULL,
    spot_node_label text,
    max_spot_percent double precision NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (cpu_target_percent IS NOT NULL OR memory_target_percent IS NOT NULL),
    CHECK (runtime = 'docker' OR max_replicas_per_host IS NULL)
);
CREATE INDEX scaling_policies_org ON scaling_policies (org_id, created_at, id);
CREATE INDEX scaling_policies_shard ON scaling_policies (org_id, shard) WHERE enabled;

-- What the loop rewrites with every evaluation.  No index on what changes each time and
-- room in each page, so that updates stay heap-only.
CREATE TABLE scaling_states (
    policy_id text PRIMARY KEY REFERENCES scaling_policies (id) ON DELETE CASCADE,
    org_id text NOT NULL,
    evaluated_at timestamptz,
    current_replicas integer,
    desired_replicas integer,
    last_reason text NOT NULL DEFAULT '',
    -- JSON of what one evaluation leaves to the next: the recommendations of the
    -- stabilization window, the stamps of the cooldowns.
    memory text NOT NULL DEFAULT '{}',
    -- Kubernetes: the agent that reported the workload last applies what is decided.
    reported_by text,
    -- Counts proposals and changes; the change in force has applied_generation.
    generation bigint NOT NULL DEFAULT 0,
    applied_generation bigint,
    applied_replicas integer,
    applied_at timestamptz,
    apply_health text NOT NULL DEFAULT 'unknown'
        CHECK (apply_health IN ('applied', 'pending', 'failed', 'unknown')),
    apply_message text NOT NULL DEFAULT '',
    -- Changes that failed one after the other: the next try waits the longer.
    failures integer NOT NULL DEFAULT 0,
    -- Docker: the commands of the change in force of which no result is known yet.
    open_commands text[] NOT NULL DEFAULT '{}',
    -- JSON of the proposal that waits for approval.
    pending text,
    -- The wake metric's newest value, asked of VictoriaMetrics beside the rounds.
    wake double precision,
    wake_at timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX scaling_states_reported ON scaling_states (org_id, reported_by);

-- At most 200 policies of one organization, evaluated together.  Whoever claims a shard
-- leases it; the due time that was claimed fences what is written in the end.
CREATE TABLE scaling_shards (
    org_id text NOT NULL REFERENCES organizations (id),
    shard integer NOT NULL,
    due_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    leased_until timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (org_id, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX scaling_shards_due ON scaling_shards (due_at);

-- The decision log.  It is append-only: no reference that could cascade into it, no right
-- of the serving role to change it (grants.sql), and a trigger against everybody else.
-- What a row says is one text, hashed as it stands; the columns beside it are to find it.
CREATE TABLE scaling_decisions (
    org_id text NOT NULL,
    -- Counts the organization's decisions from 1, without a gap.
    id bigint NOT NULL CHECK (id > 0),
    policy_id text NOT NULL,
    body text NOT NULL,
    -- SHA-256, hex: of the row before, and of that and this body.
    prev_hash text NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX scaling_decisions_policy ON scaling_decisions (org_id, policy_id, id);

CREATE FUNCTION scaling_decisions_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the decision log is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER scaling_decisions_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON scaling_decisions
    FOR EACH STATEMENT EXECUTE FUNCTION scaling_decisions_stay();
-- Also in sessions that replicate, where triggers rest otherwise.
ALTER TABLE scaling_decisions ENABLE ALWAYS TRIGGER scaling_decisions_stay;

-- The newest row of each organization's chain: whoever appends holds it.
CREATE TABLE scaling_heads (
    org_id text PRIMARY KEY REFERENCES organizations (id),
    last_id bigint NOT NULL,
    hash text NOT NULL,
    -- When it was written to the service's log, to be kept elsewhere.
    told_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
