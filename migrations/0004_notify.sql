-- Who is told of alerts, and what is on its way to them.

CREATE TABLE notification_channels (
    id text PRIMARY KEY,
    org_id text NOT NULL REFERENCES organizations (id),
    name text NOT NULL CHECK (name <> ''),
    type text NOT NULL CHECK (type IN ('webhook', 'alertmanager', 'slack', 'email', 'apprise')),
    -- The type's own settings, its secrets among them.
    settings jsonb NOT NULL,
    -- Alerts of these severities and rules alone; empty: of all.
    severities text[] NOT NULL,
    rule_ids text[] NOT NULL,
    send_resolved boolean NOT NULL,
    enabled boolean NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Whoever delivers holds the lease; its exact value fences what they note.
    lease_until timestamptz NOT NULL DEFAULT '-infinity',
    served_at timestamptz NOT NULL DEFAULT '-infinity',
    -- After a failure the channel rests until this; failures counts them since
    -- the last good delivery.
    paused_until timestamptz NOT NULL DEFAULT '-infinity',
    failures integer NOT NULL DEFAULT 0,
    error text,
    error_at timestamptz,
    delivered_at timestamptz
);
CREATE INDEX notification_channels_org ON notification_channels (org_id, created_at, id);

-- The outbox: written in the transaction in which an alert changes, so that what
-- is committed is told, at least once.
CREATE TABLE notifications (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    org_id text NOT NULL,
    channel_id text NOT NULL REFERENCES notification_channels (id) ON DELETE CASCADE,
    alert_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('firing', 'acknowledged', 'resolved')),
    -- Digest of rule and series: what is told in order, and what flaps.
    series bytea NOT NULL,
    -- msgpack of the whole change: unlike JSON it keeps NaN.
    change bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    due_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    -- A receiver refused a message with this row: it is told by itself from then on.
    alone boolean NOT NULL DEFAULT false,
    error text,
    delivered_at timestamptz,
    dead_at timestamptz,
    -- When it is told again though it was told: an Alertmanager forgets what is not repeated.
    repeat_at timestamptz,
    CHECK (delivered_at IS NULL OR dead_at IS NULL)
);
-- A state of an alert is told once, whoever notes it again.
CREATE UNIQUE INDEX notifications_once ON notifications (channel_id, alert_id, state);
CREATE INDEX notifications_waiting ON notifications (channel_id, series, id)
    WHERE delivered_at IS NULL AND dead_at IS NULL;
CREATE INDEX notifications_due ON notifications (due_at) WHERE delivered_at IS NULL AND dead_at IS NULL;
CREATE INDEX notifications_series ON notifications (channel_id, series, created_at);
CREATE INDEX notifications_repeated ON notifications (repeat_at) WHERE repeat_at IS NOT NULL;
CREATE INDEX notifications_repeated_alert ON notifications (alert_id) WHERE repeat_at IS NOT NULL;
CREATE INDEX notifications_delivered ON notifications (delivered_at) WHERE delivered_at IS NOT NULL;
CREATE INDEX notifications_dead ON notifications (channel_id, dead_at) WHERE dead_at IS NOT NULL;
