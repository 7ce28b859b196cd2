-- What has happened since the deployment began, added up in the transactions in which it happened.

-- +goose Up

-- Each statement that accepts, claims, settles or ends adds a row, so that none waits for another; the relay adds rows up, so
-- that there are few.
CREATE TABLE pacer.tallies (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    accepted  bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    expired   bigint NOT NULL DEFAULT 0,
    cancelled bigint NOT NULL DEFAULT 0,
    replaced  bigint NOT NULL DEFAULT 0,
    attempts  bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What processes accepted that have no metrics of their own, such as pacer.enqueue, until a process with metrics counts it.
CREATE TABLE pacer.accepted_elsewhere (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    category text COLLATE "C" NOT NULL,
    accepted bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What only Redis counts, as it was last seen: of the present state of a partition, and of all earlier ones together.
CREATE TABLE pacer.partition_counts (
    partition         integer PRIMARY KEY,
    epoch             bigint NOT NULL,
    pulls             bigint NOT NULL,
    deferrals         bigint NOT NULL,
    earlier_pulls     bigint NOT NULL DEFAULT 0,
    earlier_deferrals bigint NOT NULL DEFAULT 0
);

-- Triggers, and not parts of the statements, so that nothing passes them by: neither a process of the version before nor a
-- statement written by hand.
-- +goose StatementBegin
CREATE FUNCTION pacer.tally_accepted() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER tally_accepted AFTER INSERT ON pacer.notifications
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION pacer.tally_accepted();

-- What a statement adds to the totals is what its rows hold after it less what they held before. Few hold an end already.
-- +goose StatementBegin
CREATE FUNCTION pacer.tally_changed() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER tally_changed AFTER UPDATE ON pacer.notifications
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION pacer.tally_changed();

-- What the versions before did and is still kept. The triggers' locks have waited for every transaction that was writing.
INSERT INTO pacer.tallies (accepted, delivered, failed, expired, cancelled, replaced, attempts)
SELECT count(*), count(*) FILTER (WHERE status = 'delivered'), count(*) FILTER (WHERE status = 'failed'),
    count(*) FILTER (WHERE status = 'expired'), count(*) FILTER (WHERE status = 'cancelled'),
    count(*) FILTER (WHERE status = 'replaced'), coalesce(sum(attempts), 0)
FROM pacer.notifications;

-- +goose Down
DROP TRIGGER tally_changed ON pacer.notifications;
DROP TRIGGER tally_accepted ON pacer.notifications;
DROP FUNCTION pacer.tally_changed();
DROP FUNCTION pacer.tally_accepted();
DROP TABLE pacer.partition_counts;
DROP TABLE pacer.accepted_elsewhere;
DROP TABLE pacer.tallies;
