-- The record: what was accepted, every attempt at it, how it ended.

-- +goose Up
CREATE SCHEMA pacer;

CREATE TABLE pacer.notifications (
    id            text COLLATE "C" PRIMARY KEY,
    user_id       text COLLATE "C" NOT NULL,
    category      text COLLATE "C" NOT NULL,
    channel       text COLLATE "C" NOT NULL,
    target        text NOT NULL DEFAULT '',
    title         text NOT NULL DEFAULT '',
    body          text NOT NULL DEFAULT '',
    data          json,
    priority      smallint NOT NULL,
    send_at       timestamptz,
    expires_at    timestamptz,
    collapse_key  text COLLATE "C" NOT NULL DEFAULT '',
    accepted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- waiting stands for scheduled, queued and deferred: which of them it is follows from its place in line, in Redis.
    status        text COLLATE "C" NOT NULL DEFAULT 'waiting' CHECK (status IN (
        'waiting', 'retrying', 'sending', 'delivered', 'failed', 'expired', 'cancelled', 'replaced')),
    reason        text NOT NULL DEFAULT '',
    -- generation counts claims and fences them: a result of an earlier one is not written.
    generation    integer NOT NULL DEFAULT 0,
    -- token of the latest claim: the same claim asked for twice is one.
    token         text COLLATE "C" NOT NULL DEFAULT '',
    claimed_until timestamptz,
    -- admitted_at, of the latest claim: the moment that the limiter counted, in µs on its clock.
    admitted_at   bigint NOT NULL DEFAULT 0,
    attempts      integer NOT NULL DEFAULT 0,
    failures      integer NOT NULL DEFAULT 0,
    crashes       integer NOT NULL DEFAULT 0,
    not_before    timestamptz,
    -- history of deferrals: lines of µs, kind and detail.
    history       text NOT NULL DEFAULT '',
    deferrals     integer NOT NULL DEFAULT 0,
    ended_at      timestamptz,
    CHECK ((ended_at IS NOT NULL) = (status IN ('delivered', 'failed', 'expired', 'cancelled', 'replaced')))
) WITH (fillfactor = 80);

-- Listing and purging go by time, a user's listing by user and time, the rebuild by what is open.
CREATE INDEX notifications_accepted ON pacer.notifications (accepted_at, id);
CREATE INDEX notifications_user ON pacer.notifications (user_id, accepted_at, id);
CREATE INDEX notifications_open ON pacer.notifications (accepted_at, id) WHERE ended_at IS NULL;

-- One row per claim, written with its result: what fills a user's windows, and the timeline.
CREATE TABLE pacer.attempts (
    notification_id text COLLATE "C" NOT NULL,
    generation      integer NOT NULL,
    attempt         integer NOT NULL,
    user_id         text COLLATE "C" NOT NULL,
    category        text COLLATE "C" NOT NULL,
    admitted_at     bigint NOT NULL,
    ended_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome         text COLLATE "C" NOT NULL,
    reason          text NOT NULL DEFAULT '',
    -- counted is false when the slot was given back.
    counted         boolean NOT NULL DEFAULT true,
    PRIMARY KEY (notification_id, generation)
);
CREATE INDEX attempts_user ON pacer.attempts (user_id, admitted_at);
-- Rows come in the order of their moments, near enough for an index of blocks.
CREATE INDEX attempts_admitted ON pacer.attempts USING brin (admitted_at) WITH (pages_per_range = 32);

-- What was accepted and is not, or not surely, in line: left by a producer's own transaction, or because Redis was away.
-- Whoever puts it into line takes it out of here.
CREATE TABLE pacer.outbox (
    id      text COLLATE "C" PRIMARY KEY,
    left_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE pacer.idempotency_keys (
    key             text COLLATE "C" PRIMARY KEY,
    fingerprint     text COLLATE "C" NOT NULL,
    notification_id text COLLATE "C" NOT NULL,
    -- accepting_until is NULL once the notification has been accepted.
    accepting_until timestamptz,
    expires_at      timestamptz NOT NULL
);
CREATE INDEX idempotency_keys_expiry ON pacer.idempotency_keys (expires_at);

-- How often the state of each lane was built in Redis. What was granted under an earlier state is void: the windows of the
-- present one do not hold it. rebuilt_at is when that was, in µs on the limiter's clock.
CREATE TABLE pacer.lanes (
    lane       integer PRIMARY KEY,
    epoch      bigint NOT NULL,
    rebuilt_at bigint NOT NULL
);

-- +goose Down
DROP SCHEMA pacer CASCADE;
