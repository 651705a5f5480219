-- Alert rules, and the alerts that they fired.
--
-- Rules are evaluated inside the transaction of each push.  What a process
-- remembers of rules and open alerts is exact while organizations.rules_version
-- and agent_state.alerts_version, which that transaction reads, are unchanged.

CREATE TABLE alert_rules (
    id text PRIMARY KEY,
    org_id text NOT NULL REFERENCES organizations (id),
    name text NOT NULL CHECK (name <> ''),
    description text NOT NULL DEFAULT '',
    -- The selector as it was sent; it and the operator never change.
    metric text NOT NULL CHECK (metric <> ''),
    operator text NOT NULL CHECK (operator IN ('gt', 'gte', 'lt', 'lte', 'eq')),
    threshold double precision NOT NULL CHECK (threshold NOT IN ('NaN', 'Infinity', '-Infinity')),
    severity text NOT NULL,
    enabled boolean NOT NULL DEFAULT true,
    -- Kept for those who send it; it does not change what is evaluated.
    target_metric text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX alert_rules_org ON alert_rules (org_id, created_at, id);

-- An alert outlives its rule and its agent: it keeps what it has to say of them.
CREATE TABLE fired_alerts (
    id text PRIMARY KEY,
    org_id text NOT NULL REFERENCES organizations (id),
    rule_id text NOT NULL,
    rule_name text NOT NULL,
    agent_id text NOT NULL,
    -- The canonical text of the series, its hash (a text may be too long for an
    -- index), and its labels with __name__.
    series text NOT NULL,
    series_hash bytea NOT NULL CHECK (length(series_hash) = 16),
    metric jsonb NOT NULL,
    resource_type text NOT NULL CHECK (resource_type IN ('container', 'pod', 'node', 'agent', 'series')),
    resource_id text NOT NULL,
    resource_name text NOT NULL,
    state text NOT NULL DEFAULT 'firing' CHECK (state IN ('firing', 'acknowledged', 'resolved')),
    message text NOT NULL,
    value double precision NOT NULL,
    operator text NOT NULL,
    threshold double precision NOT NULL,
    severity text NOT NULL,
    fired_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    acknowledged_at timestamptz,
    comment text NOT NULL DEFAULT '',
    resolved_at timestamptz,
    resolved_by text CHECK (resolved_by IN ('user', 'recovered', 'gone', 'rule')),
    CHECK ((state = 'resolved') = (resolved_at IS NOT NULL)),
    CHECK ((state = 'resolved') = (resolved_by IS NOT NULL))
) WITH (fillfactor = 90);
-- At most one open alert per rule and series: evaluation may run twice.
CREATE UNIQUE INDEX fired_alerts_open ON fired_alerts (rule_id, series_hash) WHERE state <> 'resolved';
CREATE INDEX fired_alerts_open_agent ON fired_alerts (agent_id) WHERE state <> 'resolved';
CREATE INDEX fired_alerts_newest ON fired_alerts (org_id, fired_at DESC, id DESC);
CREATE INDEX fired_alerts_resolved ON fired_alerts (resolved_at) WHERE state = 'resolved';

-- The newest sample of each series in a push's `samples` that a rule watches, of
-- the last five minutes: msgpack of {hash of the series: unix milliseconds}.
-- Samples may carry times of their own; an older one than the newest changes nothing.
ALTER TABLE agent_state ADD COLUMN sample_times bytea;
