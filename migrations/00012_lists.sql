-- Lists find what is rare among a million, and the totals know categories and hours.

-- +goose Up

-- The host of a target, in lower case: that of a URL, also where the URL stands in the JSON of a subscription.
-- +goose StatementBegin
CREATE FUNCTION pacer.host_of(target text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT lower(coalesce(substring(target FROM '://(?:[^/?#@"]*@)?(\[[^]/?#"]*\]|[^]/:?#"[]+)'), ''))
$$;
-- +goose StatementEnd

-- How a notification ended, unless it was delivered: few end otherwise, and these are listed. It does not change while a
-- notification waits or is sent, so a claim stays an update that touches no index (HOT); an index on the status would
-- be written at every claim.
ALTER TABLE pacer.notifications ADD COLUMN ended_as text COLLATE "C" GENERATED ALWAYS AS (
    CASE WHEN status IN ('failed', 'expired', 'cancelled', 'replaced') THEN status END) STORED;
CREATE INDEX notifications_ended ON pacer.notifications (ended_as, accepted_at, id) WHERE ended_as IS NOT NULL;

-- Changes of many notifications, as the process that works on one left it. There are some hundred at most.
CREATE TABLE pacer.jobs (
    id  text COLLATE "C" PRIMARY KEY,
    job jsonb NOT NULL
);

-- What happened in each hour and category, for a month: the relay adds up the tallies to it.
CREATE TABLE pacer.history (
    hour      timestamptz NOT NULL,
    category  text COLLATE "C" NOT NULL,
    accepted  bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    deferred  bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    expired   bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    replaced  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (hour, category)
);

-- A tally with an hour is not in the history yet. The row to which the relay adds all others up has none.
ALTER TABLE pacer.tallies ADD COLUMN hour timestamptz, ADD COLUMN category text COLLATE "C",
    ADD COLUMN deferred bigint NOT NULL DEFAULT 0;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.tally_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pacer.tallies (hour, category, accepted, delivered, failed, expired, cancelled, replaced, attempts)
    SELECT date_trunc('hour', accepted_at, 'UTC'), category, count(*), count(*) FILTER (WHERE status = 'delivered'),
        count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'expired'),
        count(*) FILTER (WHERE status = 'cancelled'), count(*) FILTER (WHERE status = 'replaced'), sum(attempts)
    FROM fresh GROUP BY 1, 2;
    IF current_setting('pacer.counted', true) IS DISTINCT FROM 'yes' THEN
        INSERT INTO pacer.accepted_elsewhere (category, accepted) SELECT category, count(*) FROM fresh GROUP BY category;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.tally_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    tried bigint;
    ended bigint;
BEGIN
    SELECT sum(attempts), count(ended_at) INTO tried, ended FROM after;
    SELECT tried - sum(attempts), ended + count(ended_at) INTO tried, ended FROM before;
    IF ended > 0 THEN
        INSERT INTO pacer.tallies (hour, category, delivered, failed, expired, cancelled, replaced, attempts)
        SELECT date_trunc('hour', clock_timestamp(), 'UTC'), category,
            coalesce(sum(n) FILTER (WHERE status = 'delivered'), 0), coalesce(sum(n) FILTER (WHERE status = 'failed'), 0),
            coalesce(sum(n) FILTER (WHERE status = 'expired'), 0), coalesce(sum(n) FILTER (WHERE status = 'cancelled'), 0),
            coalesce(sum(n) FILTER (WHERE status = 'replaced'), 0), sum(n * attempts)
        FROM (SELECT category, status, attempts, 1 AS n FROM after
            UNION ALL SELECT category, status, attempts, -1 FROM before) changed
        GROUP BY category;
    ELSIF tried <> 0 THEN
        INSERT INTO pacer.tallies (attempts) VALUES (tried);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- The deferrals of each category, as Redis counts them, noted as those of pacer.partition_counts are. What they grow by is
-- tallied in the hour in which it is noted.
CREATE TABLE pacer.category_deferrals (
    partition integer NOT NULL,
    category  text COLLATE "C" NOT NULL,
    epoch     bigint NOT NULL,
    deferrals bigint NOT NULL,
    earlier   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition, category)
);

-- +goose StatementBegin
CREATE FUNCTION pacer.tally_deferrals() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    grown bigint := NEW.earlier + NEW.deferrals;
BEGIN
    IF TG_OP = 'UPDATE' THEN grown := grown - OLD.earlier - OLD.deferrals; END IF;
    IF grown > 0 THEN
        INSERT INTO pacer.tallies (hour, category, deferred)
        VALUES (date_trunc('hour', clock_timestamp(), 'UTC'), NEW.category, grown);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER tally_deferrals AFTER INSERT OR UPDATE ON pacer.category_deferrals
    FOR EACH ROW EXECUTE FUNCTION pacer.tally_deferrals();

-- What is still kept of the last month. The lock of the table, which was altered above, has waited for all who were writing.
INSERT INTO pacer.history (hour, category, accepted, delivered, failed, expired, cancelled, replaced)
SELECT hour, category, sum(accepted), sum(delivered), sum(failed), sum(expired), sum(cancelled), sum(replaced)
FROM (
    SELECT date_trunc('hour', accepted_at, 'UTC') AS hour, category, 1 AS accepted, 0 AS delivered, 0 AS failed, 0 AS expired,
        0 AS cancelled, 0 AS replaced
    FROM pacer.notifications
    UNION ALL
    SELECT date_trunc('hour', ended_at, 'UTC'), category, 0, (status = 'delivered')::int, (status = 'failed')::int,
        (status = 'expired')::int, (status = 'cancelled')::int, (status = 'replaced')::int
    FROM pacer.notifications WHERE ended_at IS NOT NULL
) happened
WHERE hour > now() - interval '31 days' GROUP BY hour, category;

-- +goose Down
DROP TABLE pacer.category_deferrals;
DROP FUNCTION pacer.tally_deferrals();

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.tally_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pacer.tallies (accepted, delivered, failed, expired, cancelled, replaced, attempts)
    SELECT count(*), count(*) FILTER (WHERE status = 'delivered'), count(*) FILTER (WHERE status = 'failed'),
        count(*) FILTER (WHERE status = 'expired'), count(*) FILTER (WHERE status = 'cancelled'),
        count(*) FILTER (WHERE status = 'replaced'), sum(attempts)
    FROM fresh HAVING count(*) > 0;
    IF current_setting('pacer.counted', true) IS DISTINCT FROM 'yes' THEN
        INSERT INTO pacer.accepted_elsewhere (category, accepted) SELECT category, count(*) FROM fresh GROUP BY category;
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION pacer.tally_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    tried bigint;
    ended bigint;
BEGIN
    SELECT sum(attempts), count(ended_at) INTO tried, ended FROM after;
    SELECT tried - sum(attempts), ended + count(ended_at) INTO tried, ended FROM before;
    IF ended > 0 THEN
        INSERT INTO pacer.tallies (delivered, failed, expired, cancelled, replaced, attempts)
        SELECT coalesce(sum(n) FILTER (WHERE status = 'delivered'), 0), coalesce(sum(n) FILTER (WHERE status = 'failed'), 0),
            coalesce(sum(n) FILTER (WHERE status = 'expired'), 0), coalesce(sum(n) FILTER (WHERE status = 'cancelled'), 0),
            coalesce(sum(n) FILTER (WHERE status = 'replaced'), 0), tried
        FROM (SELECT status, 1 AS n FROM after UNION ALL SELECT status, -1 FROM before) changed;
    ELSIF tried <> 0 THEN
        INSERT INTO pacer.tallies (attempts) VALUES (tried);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

ALTER TABLE pacer.tallies DROP COLUMN deferred, DROP COLUMN category, DROP COLUMN hour;
DROP TABLE pacer.history;
DROP TABLE pacer.jobs;
DROP INDEX pacer.notifications_ended;
ALTER TABLE pacer.notifications DROP COLUMN ended_as;
DROP FUNCTION pacer.host_of(text);
